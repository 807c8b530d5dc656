"""Earlier runs on disk: how far each has come, its records, and its match with a run that is planned."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import yaml

from mntrain.config import ExperimentConfig
from mntrain.config_fields import differing_fields
from mntrain.errors import ConfigError
from mntrain.regular_files import read_text
from mntrain.training.run_folder import DATA_FILE, is_empty
from mntrain.training.trained_start import check_same_start

RunState = Literal["missing", "broken_off", "finished"]
# Data and the artifact to start from may have moved; digests tell whether they are still the same.
_MAY_DIFFER = frozenset({"data.path", "data.lists", "training.start"})
_FIGURES: dict[str, Any] = {
    "test": dict,
    "validation": dict,
    "parameters": int,
    "epochs": int,
    "train_seconds": (int, float),
}


def run_state(folder: Path) -> RunState:
    """State of the run in ``folder``."""
    if (folder / "metrics.json").is_file():
        return "finished"
    return "missing" if is_empty(folder) else "broken_off"


def read_split(folder: Path) -> dict[str, Any]:
    """Read the ``split.json`` of a run.

    Raises:
        ConfigError: the file cannot be read.
    """

    def check(split: Any) -> None:
        split["sha256"], split["splits"]["test"]["indices"]

    return _read(folder, "split.json", check)


def read_metrics(folder: Path) -> dict[str, Any]:
    """Read the ``metrics.json`` of a finished run.

    Raises:
        ConfigError: the file cannot be read.
    """

    def check(metrics: Any) -> None:
        missing = [name for name, kind in _FIGURES.items() if not isinstance(metrics.get(name), kind)]
        if missing:
            raise ValueError(f"it does not say {', '.join(missing)}")

    return _read(folder, "metrics.json", check)


def _read(folder: Path, name: str, check: Callable[[Any], None]) -> dict[str, Any]:
    file = folder / name
    try:
        values = json.loads(read_text(file))
        check(values)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{file} cannot be read ({error}); remove {folder} to train it again.") from error
    return dict(values)


def check_same_run(folder: Path, config: ExperimentConfig, sha256: str) -> None:
    """Refuse an earlier run in ``folder`` that is not the planned one; fields newer than the run count as defaults.

    Args:
        folder: of the run; an empty one is fine.
        config: of the planned run.
        sha256: digest of the data as it is now, and of its split.

    Raises:
        ConfigError: the run had another configuration or other data, or cannot be read.
    """
    file = folder / "config.yaml"
    if is_empty(folder):
        return
    try:
        stored = ExperimentConfig.from_dict(yaml.safe_load(read_text(file)))
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
    check_same_start(_trained_start(folder, stored), config.training.start, folder)
    stored_sha256 = read_split(folder)["sha256"]
    if stored_sha256 != sha256:
        raise ConfigError(
            f"Run {folder} was trained with other data: the digest of its split is {stored_sha256[:12]}…, that of the "
            f"data now is {sha256[:12]}…. Restore the data, choose another --runs, or remove the run."
        )


def _trained_start(folder: Path, config: ExperimentConfig) -> dict[str, Any]:
    """Read which artifact the run in ``folder`` started from; empty where it started untrained."""
    if config.training.start is None:
        return {}

    def check(record: Any) -> None:
        record["training"]["start"]["weights_sha256"]

    return dict(_read(folder, DATA_FILE, check)["training"]["start"])
