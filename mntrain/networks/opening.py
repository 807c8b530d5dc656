"""Opening of frozen networks by name, or by the record of one that was opened before."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from mntrain.errors import ConfigError, DataError
from mntrain.networks.artifact_network import open_artifact
from mntrain.networks.frozen_network import FrozenNetwork
from mntrain.networks.hub import nearest_sibling
from mntrain.networks.onnx_network import open_onnx
from mntrain.networks.opened import OpenedNetwork
from mntrain.networks.options import NetworkOptions, Notify
from mntrain.networks.pixels import NetworkInput
from mntrain.networks.record import NetworkRecord
from mntrain.networks.timm_network import open_timm
from mntrain.networks.transformers_network import open_transformers
from mntrain.terminal_text import printable

_PREFIXES = {"artifact": "", "transformers": "hf:", "timm": "timm:", "onnx": ""}


def tell(sentence: str) -> None:
    """Print a sentence on stderr."""
    print(printable(f"note: {sentence}."), file=sys.stderr)  # noqa: T201


def open_named(options: NetworkOptions, notify: Notify = tell) -> OpenedNetwork:
    """Open the network that ``options.source`` names.

    Raises:
        ConfigError: there is no such network, a package is missing, or an option does not fit it.
        ArtifactError: an artifact is damaged, or takes rows.
        DataError: weights or files are missing or damaged.
    """
    source = options.source
    if source.startswith("hf:"):
        return open_transformers(options, notify)
    if source.startswith("timm:"):
        return open_timm(options)
    path = Path(source)
    if path.suffix.lower() == ".onnx":
        return open_onnx(options, notify)
    if options.pooling != "auto":
        raise ConfigError(f"--pooling is {options.pooling!r}, but {source} is an artifact, which pools itself.")
    if not path.exists():
        near = nearest_sibling(path, folders=True)
        raise ConfigError(
            f"{source} does not exist.{near} Give an artifact folder such as runs/NAME/artifact, hf:NAME, timm:NAME, a "
            "file.onnx, or arrays:FILE."
        )
    return open_artifact(options)


def open_network(source: str | NetworkOptions, shape: tuple[int, int, int] | None = None) -> FrozenNetwork:
    """Open a network for images of one shape.

    Args:
        source: artifact folder, ``hf:NAME``, ``timm:NAME`` or an ONNX file; or options that name one.
        shape: channels, height and width of the images; None takes the network's own size.

    Raises:
        ConfigError: as :func:`open_named`; or the network takes any size and ``shape`` is None.
    """
    opened = open_named(NetworkOptions(source=source) if isinstance(source, str) else source)
    if shape is None:
        if opened.input.size is None:
            raise ConfigError(f"{opened.name} takes images of any size; say channels, height and width.")
        shape = (opened.input.channels, *opened.input.size)
    return opened.for_images(shape, opened.input.fit)


def reopen_network(record: NetworkRecord) -> FrozenNetwork:
    """Open the network of a record again, and check that its weights are the same.

    Raises:
        ConfigError: the record is of arrays, or as :func:`open_named`.
        DataError: other weights lie there now.
    """
    if record.pixels is None:
        raise ConfigError(f"The features of {record.name} come from arrays; no network is known that computes them.")
    options = NetworkOptions(
        source=_PREFIXES[record.kind] + record.name, pooling=record.settings.get("pooling", "auto")
    )
    if record.kind == "onnx":
        options = replace(options, output=record.output, layout=record.pixels.layout)
    opened = open_named(options, notify=lambda sentence: None)
    if opened.sha256 != record.sha256:
        raise DataError(
            f"{record.name} is not the network that the features were computed with: its digest is "
            f"{opened.sha256[:12]}…, then it was {record.sha256[:12]}…. Put that one back, or write the features again."
        )
    return FrozenNetwork(
        record=record,
        pixels=NetworkInput(record.pixels).eval(),
        body=opened.body,
        classifier=opened.classifier,
        label_names=opened.label_names,
    )
