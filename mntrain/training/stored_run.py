"""Runs that are there already: how far they have come, and whether they are the runs that are wanted."""

import json
from pathlib import Path
from typing import Any, Literal

import yaml

from mntrain.config import ExperimentConfig
from mntrain.config_differences import differing_fields
from mntrain.errors import ConfigError

RunState = Literal["missing", "broken_off", "finished"]
# Data may have moved; the run's own record of its split tells whether it is still the same.
_MAY_DIFFER = frozenset({"data.path"})


def run_state(folder: Path) -> RunState:
    """How far the run in ``folder`` has come."""
    if (folder / "metrics.json").is_file():
        return "finished"
    return "broken_off" if folder.exists() else "missing"


def read_metrics(folder: Path) -> dict[str, Any]:
    """The ``metrics.json`` of a finished run.

    Raises:
        ConfigError: it cannot be read.
    """
    file = folder / "metrics.json"
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(found, dict) or not isinstance(found.get("test"), dict):
            raise ValueError("it holds no result of a run")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read ({error}); remove {folder} to train it again.") from error
    return found


def check_same_run(folder: Path, config: ExperimentConfig) -> None:
    """A run that is there must be the run that is wanted; fields that are newer than it count with their defaults.

    Raises:
        ConfigError: it had another configuration, or cannot be read.
    """
    file = folder / "config.yaml"
    if not folder.exists():
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
