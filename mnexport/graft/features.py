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
from onnx import ModelProto

from mnexport.errors import GraphError, ParityError
from mnexport.graft.network import GraftedNetwork
from mnexport.progress import OnProgress
from mnexport.runtime import onnxruntime
from mntrain.networks.frozen_network import OnnxBody

_MOST_IMAGES = 32
_SMALL_BATCH_IMAGES = 4
# Larger files are written for ONNX Runtime, which reads no larger model from memory.
_COPY = "exposed.onnx"


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
    names = [graft.front.network_input, graft.front.features]
    own = _session(body.file, [body.output], files[0].parent)
    digest = hashlib.sha256()
    for file in files:
        grafted = _session(file, names, file.parent)
        for batch in batches:
            last = batch == batches[-1]
            for start in range(0, len(images) if last else min(_SMALL_BATCH_IMAGES, len(images)), batch):
                feeds = graft.signature.feeds(images[start : start + batch])
                inputs, inside = _run(grafted, names, feeds, file)
                (alone,) = _run(own, [body.output], {body.input: inputs}, body.file)
                _compare(alone, inside, batch, file)
                if last and file == files[0]:
                    digest.update(np.ascontiguousarray(alone).tobytes())
    return FeatureEquality(
        files=tuple(file.name for file in files), images=len(images), batches=batches, sha256=digest.hexdigest()
    )


def _compare(alone: NDArray[Any], inside: NDArray[Any], batch: int, file: Path) -> None:
    if alone.shape == inside.shape and alone.dtype == inside.dtype and alone.tobytes() == inside.tobytes():
        return
    if alone.shape != inside.shape or alone.dtype != inside.dtype:
        how = f"{alone.dtype} {list(alone.shape)} by itself, {inside.dtype} {list(inside.shape)} in the graft"
    else:
        difference = np.abs(alone.astype(np.float64) - inside)
        how = f"{np.sum(difference != 0):,} of {alone.size:,} differ, by up to {difference.max():.3g}"
    raise ParityError(
        f"The network gives other features inside {file.name} than by itself, at batch {batch}: {how}. Nothing was "
        "published; export the network again with ONNX operator set 18 or later, which is joined as it is."
    )


def _session(file: Path, names: Sequence[str], folder: Path) -> Any:
    """Open a copy of a file that gives the tensors named."""
    model = onnx.load(str(file))
    given = {item.name for item in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in given)
    return open_model(model, folder, file)


def open_model(model: ModelProto, folder: Path, origin: Path) -> Any:
    """Open a model that is no file with ONNX Runtime on the CPU.

    Args:
        model: to open.
        folder: for the file that it is written to meanwhile.
        origin: file that it was made from, for the message.

    Raises:
        GraphError: ONNX Runtime does not load it.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    copy = folder / _COPY
    try:
        onnx.save(model, str(copy))
        return onnxruntime.InferenceSession(str(copy), options, providers=["CPUExecutionProvider"])
    except OSError:  # a full disk
        raise
    except Exception as error:  # ONNX Runtime's exception types share no public base class
        raise GraphError(f"ONNX Runtime does not load {origin}: {error}") from error
    finally:
        copy.unlink(missing_ok=True)


def _run(session: Any, names: Sequence[str], feeds: dict[str, NDArray[Any]], file: Path) -> list[NDArray[Any]]:
    try:
        outputs: list[NDArray[Any]] = session.run(list(names), feeds)
        return outputs
    except Exception as error:  # ONNX Runtime's exception types share no public base class
        batch = len(next(iter(feeds.values())))
        reason = " ".join(str(error).split())
        raise GraphError(
            f"ONNX Runtime does not run {file} on a batch of {batch} ({reason}); a server joins requests, so export the "
            "network with a batch axis of any size."
        ) from error
