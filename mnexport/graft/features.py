"""Check that a foreign network gives the same features inside a graft as by itself, bit for bit.

Shapes: images uint8 [N, C, H, W], features [N, d].

The input of the network is taken from the graft, so that only the network is compared: how pixels become that input is
part of the parity check. ONNX Runtime runs both files with the same settings.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from mnexport.errors import ParityError
from mnexport.graft.network import GraftedNetwork
from mnexport.graft.sessions import ExposedModel
from mnexport.progress import OnProgress
from mntrain.networks.frozen_network import OnnxBody
from mntrain.networks.onnx_part import leave_other_inputs

_MOST_IMAGES = 32
_SMALL_BATCH_IMAGES = 4


@dataclass(frozen=True, kw_only=True)
class FeatureEquality:
    """Features of a network by itself and inside a graft, which were equal.

    Args:
        files: of the graft that were compared.
        images: compared.
        batches: images at a time.
        sha256: of the features of all images, the same on both sides.
    """

    files: tuple[str, ...]
    images: int
    batches: tuple[int, ...]
    sha256: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``export.json``."""
        return asdict(self)


def check_features(
    graft: GraftedNetwork, files: Sequence[Path], large_batch: int, on_progress: OnProgress
) -> FeatureEquality | None:
    """Compare the features of the user's file with those inside each grafted file in float32.

    Args:
        graft: with its network.
        files: written from it.
        large_batch: rows of the largest batch.
        on_progress: gets a line before the comparison.

    Returns:
        What was equal; None for a network in PyTorch, which parity compares within its tolerance.

    Raises:
        ParityError: a feature differs in any bit.
        GraphError: ONNX Runtime does not run the network at one of the batch sizes.
    """
    body = graft.network.body
    if not isinstance(body, OnnxBody):
        return None
    on_progress("comparing features with those of the network's own file")
    images = graft.samples.images[:_MOST_IMAGES]
    batches = tuple(sorted({1, 2, min(large_batch, len(images))}))
    names = [graft.front.network_input, graft.front.network_output]
    alone_model = onnx.load(str(body.file))
    leave_other_inputs(alone_model.graph, body.output)
    own = ExposedModel(alone_model, [body.output], body.file)
    digest = hashlib.sha256()
    for file in files:
        grafted = ExposedModel(onnx.load(str(file)), names, file)
        for batch in batches:
            last = batch == batches[-1]
            for start in range(0, len(images) if last else min(_SMALL_BATCH_IMAGES, len(images)), batch):
                feeds = graft.signature.feeds(images[start : start + batch])
                inputs, inside = grafted.run(feeds)
                (alone,) = own.run({body.input: inputs})
                _compare(alone, inside, batch, file, _remedy(graft))
                if last and file == files[0]:
                    digest.update(np.ascontiguousarray(alone).tobytes())
    return FeatureEquality(
        files=tuple(file.name for file in files), images=len(images), batches=batches, sha256=digest.hexdigest()
    )


def _remedy(graft: GraftedNetwork) -> str:
    if graft.front.own_opset != graft.front.opset:
        return "export the network again with ONNX operator set 18 or later, which is joined as it is."
    return (
        "ONNX Runtime computes this network in another way behind other operators. Export it in float32 and without "
        "anything random, or serve network and head by themselves."
    )


def _compare(alone: NDArray[Any], inside: NDArray[Any], batch: int, file: Path, remedy: str) -> None:
    if alone.shape == inside.shape and alone.dtype == inside.dtype and alone.tobytes() == inside.tobytes():
        return
    if alone.shape != inside.shape or alone.dtype != inside.dtype:
        how = f"{alone.dtype} {list(alone.shape)} by itself, {inside.dtype} {list(inside.shape)} in the graft"
    else:
        difference = np.abs(alone.astype(np.float64) - inside)
        how = f"{np.sum(difference != 0):,} of {alone.size:,} differ, by up to {difference.max():.3g}"
    raise ParityError(
        f"The network gives other features inside {file.name} than by itself, at batch {batch}: {how}. Nothing was "
        f"published; {remedy}"
    )
