"""Runs that are there already: how far they have come, and whether they are the runs that are wanted."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import yaml

from mntrain.config import ExperimentConfig
from mntrain.config_differences import differing_fields
from mntrain.errors import ConfigError

RunState = Literal["missing", "broken_off", "finished"]
# Data may have moved; the digest of the split tells whether it is still the same.
_MAY_DIFFER = frozenset({"data.path"})
_FIGURES: dict[str, Any] = {
    "test": dict,
    "validation": dict,
    "parameters": int,
    "epochs": int,
    "train_seconds": (int, float),
}


def run_state(folder: Path) -> RunState:
    """How far the run in ``folder`` has come."""
    if (folder / "metrics.json").is_file():
        return "finished"
    return "missing" if is_empty(folder) else "broken_off"


def is_empty(folder: Path) -> bool:
    """Whether nothing is there, or only what a run left that was killed before it wrote its configuration."""
    return not folder.exists() or (folder.is_dir() and all(item.name.startswith(".") for item in folder.iterdir()))


def read_split(folder: Path) -> dict[str, Any]:
    """The ``split.json`` of a run.

    Raises:
        ConfigError: it cannot be read.
    """

    def check(found: Any) -> None:
        found["sha256"], found["splits"]["test"]["indices"]

    return _read(folder, "split.json", check)


def read_metrics(folder: Path) -> dict[str, Any]:
    """The ``metrics.json`` of a finished run.

    Raises:
        ConfigError: it cannot be read.
    """

    def check(found: Any) -> None:
        wrong = [name for name, kind in _FIGURES.items() if not isinstance(found.get(name), kind)]
        if wrong:
            raise ValueError(f"it does not say {', '.join(wrong)}")

    return _read(folder, "metrics.json", check)


def _read(folder: Path, name: str, check: Callable[[Any], None]) -> dict[str, Any]:
    file = folder / name
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        check(found)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{file} cannot be read ({error}); remove {folder} to train it again.") from error
    return dict(found)


def check_same_run(folder: Path, config: ExperimentConfig, sha256: str) -> None:
    """A run that is there must be the run that is wanted; fields that are newer than it count with their defaults.

    Args:
        sha256: digest of the data as it is now, and of its split.

    Raises:
        ConfigError: it had another configuration or other data, or cannot be read.
    """
    file = folder / "config.yaml"
    if is_empty(folder):
        return
    try:
        stored = ExperimentConfig.from_dict(yaml.safe_load(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, AttributeError, yaml.YAMLError, ConfigError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"{folder} holds no run that this version can read ({reason}); move it away, or choose another --runs."
        ) from error
    changed = differing_fields(stored.to_dict(), config.to_dict(), ignore=_MAY_DIFFER)
    if changed:
        more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
        raise ConfigError(
            f"Run {folder} was trained with another configuration: {', '.join(changed[:5])}{more}. Compare with "
            "the same recipe and overrides, choose another --runs, or remove it."
        )
    found = read_split(folder)["sha256"]
    if found != sha256:
        raise ConfigError(
            f"Run {folder} was trained with other data: the digest of its split is {found[:12]}…, that of the data now "
            f"is {sha256[:12]}…. Restore the data, choose another --runs, or remove the run."
        )
