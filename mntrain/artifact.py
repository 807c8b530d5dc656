"""What training froze: ``config.json``, ``model.safetensors`` and a few held-out images. No pickle.

::

    artifact/config.json            family, backbone, data, preprocessing, labels, metrics, versions
    artifact/model.safetensors      weights
    artifact/samples.safetensors    held-out test images (uint8) and labels, so that an export can check itself
                                    on real inputs where the data set is not at hand
"""

import dataclasses
import json
import platform
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file as load_arrays
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file, save_file

from mntrain.backbones.config import build_backbone, build_network
from mntrain.config import ExperimentConfig
from mntrain.data.images import ImageSet, check_names
from mntrain.data.preprocessing import Preprocessing, PreprocessingConfig
from mntrain.errors import ArtifactError, ConfigError, DataError
from mntrain.files import folder_atomically
from mntrain.models.base import Model, Regressor
from mntrain.models.families import FAMILIES, family_named

SCHEMA = 1
_MAX_SIDE = 4096
_VERSIONED = ("mn-runtime", "torch", "numpy", "safetensors")


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """The images a model takes.

    Args:
        channels: 1 (grey) or 3 (RGB).
        height: pixels.
        width: pixels.
    """

    channels: int
    height: int
    width: int

    def __post_init__(self) -> None:
        if self.channels not in (1, 3) or not (1 <= self.height <= _MAX_SIDE and 1 <= self.width <= _MAX_SIDE):
            raise ValueError(
                f"input is {self.channels} x {self.height} x {self.width}, expected 1 or 3 channels and sides of 1 to "
                f"{_MAX_SIDE} pixels"
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, height, width)."""
        return self.channels, self.height, self.width

    @property
    def color(self) -> str:
        """L or RGB, as Pillow names them."""
        return "L" if self.channels == 1 else "RGB"


@dataclass(frozen=True, kw_only=True)
class ArtifactConfig:
    """The content of ``config.json``.

    Args:
        experiment: configuration of the run.
        input: size of the images.
        labels: class names, in the order of the logits.
        preprocessing: mean and deviation per channel.
        split: seed, counts and digest of the data and its split.
        metrics: what training measured.
        versions: of the software that wrote the artifact.
    """

    experiment: ExperimentConfig
    input: InputSpec
    labels: tuple[str, ...]
    preprocessing: PreprocessingConfig
    split: dict[str, Any]
    metrics: dict[str, Any]
    versions: dict[str, str]

    def __post_init__(self) -> None:
        check_names(self.labels)
        if len(self.preprocessing.mean) != self.input.channels:
            raise ValueError(
                f"preprocessing has {len(self.preprocessing.mean)} channel(s), the input {self.input.channels}"
            )
        if not isinstance(self.split.get("sha256"), str):
            raise ValueError("split has no sha256")

    @property
    def family(self) -> str:
        """The model family."""
        return self.experiment.family

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as written to ``config.json``."""
        return {
            "schema": SCHEMA,
            "family": self.family,
            "input": dataclasses.asdict(self.input) | {"color": self.input.color},
            "labels": list(self.labels),
            "preprocessing": dataclasses.asdict(self.preprocessing),
            "metrics": self.metrics,
            "split": self.split,
            "experiment": self.experiment.to_dict(),
            "versions": self.versions,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "ArtifactConfig":
        """The inverse of :meth:`to_dict`.

        Raises:
            KeyError, TypeError, ValueError: a field is missing or of another kind.
            ConfigError: the run's configuration is not one this version knows.
        """
        size = values["input"]
        if not isinstance(values["labels"], list):
            raise ValueError(f"labels is {values['labels']!r}, expected a list of names")
        return cls(
            experiment=ExperimentConfig.from_dict(values["experiment"]),
            input=InputSpec(channels=int(size["channels"]), height=int(size["height"]), width=int(size["width"])),
            labels=tuple(str(label) for label in values["labels"]),
            preprocessing=PreprocessingConfig(
                mean=tuple(values["preprocessing"]["mean"]), std=tuple(values["preprocessing"]["std"])
            ),
            split=dict(values["split"]),
            metrics=dict(values["metrics"]),
            versions=dict(values["versions"]),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Artifact:
    """A loaded artifact; model and preprocessing are in eval mode on the CPU.

    Args:
        path: the folder.
        config: what ``config.json`` says.
        model: the trained model.
        preprocessing: pixels → what the model takes.
        samples: held-out images.
    """

    path: Path
    config: ArtifactConfig
    model: Model
    preprocessing: Preprocessing
    samples: ImageSet


def current_versions() -> dict[str, str]:
    """Versions of what an artifact depends on."""
    return {"python": platform.python_version()} | {name: version(name) for name in _VERSIONED}


def build_model(config: ExperimentConfig, shape: tuple[int, ...], classes: int) -> Model:
    """An untrained classifier of the configured family on the configured backbone, for inputs of ``shape``."""
    return family_named(config.family).build(config.model, partial(build_backbone, config.backbone, shape), classes)


def build_regressor(config: ExperimentConfig, features: int, target_range: tuple[float, float]) -> Regressor:
    """An untrained regressor of the configured family on the configured perceptron.

    Args:
        config: of the run.
        features: numbers of a row.
        target_range: lowest and highest standardised training target.

    Raises:
        ConfigError: the family only classifies, or the backbone takes images.
    """
    build = family_named(config.family).build_regressor
    if build is None:
        able = sorted(name for name, family in FAMILIES.items() if family.build_regressor is not None)
        raise ConfigError(
            f"family is {config.family!r}, which only classifies, but the targets are values; choose from {able}, or "
            "set data.target to class."
        )
    return build(config.model, build_network(config.backbone, features), target_range)


def save_artifact(path: Path, config: ArtifactConfig, weights: dict[str, torch.Tensor], samples: ImageSet) -> None:
    """Write an artifact whole or not at all; an older one at ``path`` is replaced.

    Raises:
        ArtifactError: the folder cannot be written.
    """
    try:
        with folder_atomically(path) as folder:
            text = json.dumps(config.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
            (folder / "config.json").write_text(text, encoding="utf-8")
            contiguous = {name: value.detach().cpu().contiguous() for name, value in weights.items()}
            save_file(contiguous, str(folder / "model.safetensors"))
            save_arrays({"images": samples.images, "labels": samples.labels}, str(folder / "samples.safetensors"))
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ArtifactError(f"Artifact {path} cannot be written: {reason}.") from error


def load_artifact(path: Path) -> Artifact:
    """Read an artifact and rebuild its model.

    Raises:
        ArtifactError: missing, damaged, of another version, or weights that do not fit the configuration.
    """
    config = read_config(path)
    # Built without memory: a configuration that asks for terabytes is refused by the shapes of the weights it has.
    with torch.device("meta"):
        model = build_model(config.experiment, config.input.shape, len(config.labels))
    weights = _read(path / "model.safetensors", lambda file: load_file(str(file)))
    _check_weights(path, model.state_dict(), weights)
    model.load_state_dict(weights, assign=True)
    arrays = _read(path / "samples.safetensors", lambda file: load_arrays(str(file)))
    try:
        samples = ImageSet(images=arrays["images"], labels=arrays["labels"])
    except (KeyError, DataError) as error:
        raise ArtifactError(f"{path / 'samples.safetensors'} does not hold images and labels: {error}") from error
    if samples.labels.min() < 0 or samples.labels.max() >= len(config.labels):
        raise ArtifactError(
            f"{path / 'samples.safetensors'} holds labels from {samples.labels.min()} to {samples.labels.max()}, but "
            f"config.json names {len(config.labels)} classes; the files are not of one artifact."
        )
    size = (config.input.channels, config.input.height, config.input.width)
    if samples.images.shape[1:] != size:
        raise ArtifactError(
            f"{path / 'samples.safetensors'} holds images of {samples.images.shape[1:]}, but config.json says {size}; "
            "the files are not of one artifact."
        )
    return Artifact(
        path=path,
        config=config,
        model=model.eval().requires_grad_(False),
        preprocessing=Preprocessing(config.preprocessing).eval(),
        samples=samples,
    )


def read_config(path: Path) -> ArtifactConfig:
    """Read and check ``config.json`` alone.

    Raises:
        ArtifactError: missing, damaged, or of another version.
    """
    if not path.is_dir():
        raise ArtifactError(f"There is no artifact folder {path}; `mntrain fit` writes one under runs/NAME/artifact.")
    file = path / "config.json"
    try:
        values = json.loads(file.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except FileNotFoundError as error:
        raise ArtifactError(
            f"{path} is not an artifact: it has no config.json. Give the folder runs/NAME/artifact."
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise ArtifactError(f"{file} cannot be read ({error}); export or train the artifact again.") from error
    found = values.get("schema") if isinstance(values, dict) else None
    if found != SCHEMA:
        versions = values.get("versions") if isinstance(values, dict) else None
        writer = versions.get("mn-runtime", "unknown") if isinstance(versions, dict) else "unknown"
        raise ArtifactError(
            f"{file} has schema {found!r} (written by mn-runtime {writer}); this version reads schema {SCHEMA}. "
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


def _check_weights(path: Path, expected: dict[str, Any], found: dict[str, torch.Tensor]) -> None:
    problems = [f"{name} is missing" for name in sorted(expected.keys() - found.keys())]
    problems += [f"{name} is not part of the model" for name in sorted(found.keys() - expected.keys())]
    for name in sorted(expected.keys() & found.keys()):
        want, have = expected[name], found[name]
        if want.shape != have.shape:
            problems.append(f"{name} is {list(have.shape)}, expected {list(want.shape)}")
        elif want.dtype != have.dtype:
            problems.append(f"{name} is {have.dtype}, expected {want.dtype}")
        elif have.is_floating_point() and not bool(torch.isfinite(have).all()):
            bad = int(np.sum(~torch.isfinite(have).numpy()))
            problems.append(f"{name} holds {bad} values that are not finite")
    if problems:
        shown = "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else "")
        raise ArtifactError(f"The weights of {path} do not fit its config.json: {shown}.")
