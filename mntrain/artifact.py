"""Artifacts of training: ``config.json``, ``model.safetensors``, a few held-out images and a model card. No pickle.

::

    artifact/config.json            family, backbone, data, preprocessing, labels, metrics, versions
    artifact/model.safetensors      weights
    artifact/samples.safetensors    held-out test images (uint8) and labels, or rows (float32) and targets, so that an
                                    export can check itself on real inputs where the data set is not at hand; support
                                    images where the model was adapted to them
    artifact/README.md              model card, which nothing reads: artifacts without it are as good
"""

import hashlib
import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file as load_arrays
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load, save_file

from mntrain.artifact_config import (
    READABLE,
    ArtifactConfig,
    ImageArtifactConfig,
    TableArtifactConfig,
)
from mntrain.atomic_files import folder_atomically, follow_umask
from mntrain.backbones.config import Shape
from mntrain.data.images import ImageSet
from mntrain.data.preprocessing import Preprocessing
from mntrain.data.standardization import Standardization
from mntrain.data.tables import TableSet, check_inputs
from mntrain.errors import ArtifactError, ConfigError, DataError
from mntrain.models.base import Model
from mntrain.models.build import build_model, build_regressor
from mntrain.regular_files import read_text, regular

_VERSIONED = ("mn-runtime", "torch", "numpy", "safetensors")
# Names of the two arrays of held-out samples.
_SAMPLES: dict[type, tuple[str, str]] = {ImageSet: ("images", "labels"), TableSet: ("inputs", "targets")}
SampleSet = TypeVar("SampleSet", ImageSet, TableSet)


@dataclass(frozen=True, kw_only=True, eq=False)
class Artifact:
    """A loaded artifact; the model is in eval mode on the CPU.

    Args:
        path: the folder.
        config: content of ``config.json``.
        model: the trained model.
        weights_sha256: digest of ``model.safetensors`` as it was when the model was loaded from it.
        preprocessing: stored inputs → inputs of the model; in eval mode on the CPU.
        samples: held-out examples.
    """

    path: Path
    config: ArtifactConfig
    model: Model
    weights_sha256: str
    preprocessing: Preprocessing | Standardization
    samples: ImageSet | TableSet


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageArtifact(Artifact):
    """A classifier of images.

    Args:
        preprocessing: pixels → inputs of the model; in eval mode on the CPU.
        samples: held-out images.
    """

    config: ImageArtifactConfig
    preprocessing: Preprocessing
    samples: ImageSet


@dataclass(frozen=True, kw_only=True, eq=False)
class TableArtifact(Artifact):
    """A regressor or classifier of rows.

    Args:
        preprocessing: rows → inputs of the model; in eval mode on the CPU.
        samples: held-out rows, values in the target's own units.
    """

    config: TableArtifactConfig
    preprocessing: Standardization
    samples: TableSet


def current_versions() -> dict[str, str]:
    """Versions of the software that an artifact depends on."""
    return {"python": platform.python_version()} | {name: version(name) for name in _VERSIONED}


def save_artifact(
    path: Path,
    config: ArtifactConfig,
    weights: dict[str, torch.Tensor],
    samples: ImageSet | TableSet,
    files: Mapping[str, bytes] = MappingProxyType({}),
) -> None:
    """Write an artifact with its model card, whole or not at all; an older one at ``path`` is replaced.

    Args:
        path: the folder.
        config: content of ``config.json``.
        weights: content of ``model.safetensors``.
        samples: held-out examples.
        files: further files by name, such as ``composition.json``.

    Raises:
        ArtifactError: the folder cannot be written.
    """
    from mntrain.model_card.artifact_card import CARD_NAME, artifact_card  # programs that only read do without

    card = artifact_card(config)
    try:
        with folder_atomically(path) as folder:
            (folder / CARD_NAME).write_text(card, encoding="utf-8")
            text = json.dumps(config.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
            (folder / "config.json").write_text(text, encoding="utf-8")
            contiguous = {name: value.detach().cpu().contiguous() for name, value in weights.items()}
            save_file(contiguous, str(folder / "model.safetensors"))
            inputs, targets = _SAMPLES[type(samples)]
            arrays = {inputs: samples.inputs, targets: samples.targets}
            save_arrays(arrays, str(folder / "samples.safetensors"))
            for name, content in files.items():
                (folder / name).write_bytes(content)
            for file in folder.glob("*.safetensors"):
                follow_umask(file)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ArtifactError(f"Artifact {path} cannot be written: {reason}.") from error


def load_artifact(path: str | Path) -> Artifact:
    """Read an artifact and rebuild its model.

    Args:
        path: folder of the artifact, such as ``runs/NAME/artifact``.

    Raises:
        ArtifactError: missing, damaged, of another version, or weights that do not fit the configuration.
    """
    path = Path(path)
    config = read_config(path)
    if isinstance(config, ImageArtifactConfig):
        shape = (config.input.channels, config.input.height, config.input.width)
        model, digest = _load_model(path, lambda: build_model(config.experiment, shape, len(config.labels)))
        return ImageArtifact(
            path=path,
            config=config,
            model=model,
            weights_sha256=digest,
            preprocessing=Preprocessing(config.preprocessing).eval(),
            samples=_load_samples(path, ImageSet, shape, config.labels),
        )
    assert isinstance(config, TableArtifactConfig)
    rows, labels = config, config.labels
    width = config.standardization.width

    def build() -> Model:
        if labels is None:
            return build_regressor(rows.experiment, width, [(0.0, 1.0)] * len(rows.targets))
        return build_model(rows.experiment, (width,), len(labels))

    model, digest = _load_model(path, build)
    return TableArtifact(
        path=path,
        config=config,
        model=model,
        weights_sha256=digest,
        preprocessing=Standardization(config.standardization).eval(),
        samples=_load_rows(path, config),
    )


def _load_model(path: Path, build: Callable[[], Model]) -> tuple[Model, str]:
    """Load the model, and the digest of the bytes of its weights."""
    # Built without memory: a configuration that asks for terabytes is refused by the shapes of the weights it has.
    try:
        with torch.device("meta"):
            model = build()
    except ConfigError as error:
        raise ArtifactError(f"{path / 'config.json'} describes no model that can be built: {error}") from error
    content, weights = _read(path / "model.safetensors", _weights)
    _check_weights(path, model.state_dict(), weights)
    model.load_state_dict(weights, assign=True)
    return model.eval().requires_grad_(False), hashlib.sha256(content).hexdigest()


def _weights(file: Path) -> tuple[bytes, dict[str, torch.Tensor]]:
    """Read weights once, and not mapped into memory: later writes to the file change nothing here."""
    content = regular(file).read_bytes()
    return content, load(content)


def _load_rows(path: Path, config: TableArtifactConfig) -> TableSet:
    samples = _load_samples(path, TableSet, (len(config.columns),), config.labels)
    file = path / "samples.safetensors"
    try:
        check_inputs(samples.inputs, config.categories, config.standardization.fill is not None, what=str(file))
    except DataError as error:
        raise ArtifactError(f"{error} The files are not of one artifact.") from error
    if samples.targets.shape[1:] != np.shape(config.standardization.target_mean):
        raise ArtifactError(
            f"{file} holds targets of shape {list(samples.targets.shape)}, but config.json names "
            f"{len(config.targets)} target(s); the files are not of one artifact."
        )
    return samples


def _load_samples(path: Path, kind: type[SampleSet], shape: Shape, labels: tuple[str, ...] | None) -> SampleSet:
    file = path / "samples.safetensors"
    arrays = _read(file, lambda file: load_arrays(str(regular(file))))
    inputs, targets = _SAMPLES[kind]
    try:
        samples = kind(**{inputs: arrays[inputs], targets: arrays[targets]})
    except (KeyError, DataError) as error:
        raise ArtifactError(f"{file} does not hold {inputs} and {targets}: {error}") from error
    if (labels is None) != (samples.targets.dtype == np.float32):
        raise ArtifactError(
            f"{file} holds targets of another kind than config.json; the files are not of one artifact."
        )
    if labels is not None and (samples.targets.min() < 0 or samples.targets.max() >= len(labels)):
        raise ArtifactError(
            f"{file} holds labels from {samples.targets.min()} to {samples.targets.max()}, but config.json names "
            f"{len(labels)} classes; the files are not of one artifact."
        )
    if samples.inputs.shape[1:] != shape:
        raise ArtifactError(
            f"{file} holds {inputs} of {samples.inputs.shape[1:]}, but config.json says {shape}; the files are not of "
            "one artifact."
        )
    return samples


def read_config(path: Path) -> ArtifactConfig:
    """Read and check ``config.json`` alone.

    Raises:
        ArtifactError: missing, damaged, or of another version.
    """
    if not path.is_dir():
        raise ArtifactError(f"There is no artifact folder {path}; `mntrain fit` writes one under runs/NAME/artifact.")
    file = path / "config.json"
    try:
        values = json.loads(read_text(file), parse_constant=_refuse_constant)
    except FileNotFoundError as error:
        raise ArtifactError(
            f"{path} is not an artifact: it has no config.json. Give the folder runs/NAME/artifact."
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise ArtifactError(f"{file} cannot be read ({error}); export or train the artifact again.") from error
    schema = values.get("schema") if isinstance(values, dict) else None
    if schema not in READABLE:
        versions = values.get("versions") if isinstance(values, dict) else None
        writer = versions.get("mn-runtime", "unknown") if isinstance(versions, dict) else "unknown"
        raise ArtifactError(
            f"{file} has schema {schema!r} (written by mn-runtime {writer}); this version reads schema "
            f"{' and '.join(map(str, READABLE))}. "
            "Use the mn-runtime that wrote it, or train again."
        )
    try:
        return ArtifactConfig.from_dict(values)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, ConfigError, DataError) as error:
        detail = f"field {error} is missing" if isinstance(error, KeyError) else str(error)
        raise ArtifactError(f"{file} is not a valid artifact configuration: {detail}.") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"it holds {name}, which is not JSON")


def _read(file: Path, read: Any) -> Any:
    try:
        return read(file)
    except FileNotFoundError as error:
        raise ArtifactError(f"{file} is missing; the artifact is incomplete, copy it again.") from error
    except (SafetensorError, OSError, ValueError) as error:
        raise ArtifactError(f"{file} is damaged ({error}); copy or train the artifact again.") from error


def _check_weights(path: Path, expected: dict[str, Any], stored: dict[str, torch.Tensor]) -> None:
    problems = [f"{name} is missing" for name in sorted(expected.keys() - stored.keys())]
    problems += [f"{name} is not part of the model" for name in sorted(stored.keys() - expected.keys())]
    for name in sorted(expected.keys() & stored.keys()):
        parameter, weights = expected[name], stored[name]
        if parameter.shape != weights.shape:
            problems.append(f"{name} is {list(weights.shape)}, expected {list(parameter.shape)}")
        elif parameter.dtype != weights.dtype:
            problems.append(f"{name} is {weights.dtype}, expected {parameter.dtype}")
        elif weights.is_floating_point() and not bool(torch.isfinite(weights).all()):
            not_finite = int(np.sum(~torch.isfinite(weights).numpy()))
            problems.append(f"{name} holds {not_finite} values that are not finite")
    if problems:
        shown = "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else "")
        raise ArtifactError(f"The weights of {path} do not fit its config.json: {shown}.")
