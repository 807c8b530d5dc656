"""MLflow and Weights & Biases through Lightning's loggers; nothing leaves the machine unless the user has said so.

MLflow writes to ``mlruns`` in the folder of the run unless ``MLFLOW_TRACKING_URI`` names another place. Weights &
Biases writes to ``wandb`` there, offline unless ``WANDB_MODE`` says otherwise. Reports of usage and of errors to the
makers of both are off unless the user sets their variables.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mntrain.atomic_files import write_text_atomically
from mntrain.config import ExperimentConfig
from mntrain.regular_files import read_text
from mntrain.training.reporting import Row

if TYPE_CHECKING:
    from pytorch_lightning.loggers import Logger

LOGGERS_FILE: Final = "loggers.json"
_EXPERIMENT: Final = "mntrain"
_MLFLOW_URI: Final = "MLFLOW_TRACKING_URI"
_SILENT: Final = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ALLOW_FILE_STORE": "true",  # from version 3.12 on it asks for a database otherwise
    "WANDB_ERROR_REPORTING": "false",
    "WANDB_SILENT": "true",
    "WANDB_MODE": "offline",
}
"""Settings of both, each unless the user has set it."""


def silence_loggers() -> None:
    """Set what keeps both from the network; before either is imported, since they report what they import."""
    for name, value in _SILENT.items():
        os.environ.setdefault(name, value)


def start_logger(name: str, run: Path, config: ExperimentConfig) -> _LightningLogger:
    """Start MLflow or Weights & Biases for a run, or go on with its run there, and log the hyperparameters.

    Args:
        name: mlflow or wandb.
        run: folder of the run; ``loggers.json`` there keeps the name that the run has with each.
        config: of the run.

    Raises:
        Exception: of any kind, where the server cannot be reached or refuses.
    """
    silence_loggers()
    file = run / LOGGERS_FILE
    known: dict[str, str] = json.loads(read_text(file)) if file.exists() else {}
    kind = {"mlflow": _MLflow, "wandb": _WandB}[name]
    started = kind(run, config.name, known.get(name))
    if known.get(name) != started.identity:
        write_text_atomically(file, json.dumps(known | {name: started.identity}) + "\n")
    started.logger.log_hyperparams(config.to_dict())
    return started


class _LightningLogger(ABC):
    """One of Lightning's loggers, with what the two do differently."""

    logger: Logger
    identity: str
    """Name of the run there."""

    def add_row(self, row: Row) -> None:
        """Log the metrics of an epoch under step ``row["epoch"]``."""
        figures = {name.replace("_", "/", 1): value for name, value in row.items() if name != "epoch"}
        self.logger.log_metrics(figures, step=int(row["epoch"]))

    def add_result(self, result: Mapping[str, Any], artifact: Path) -> None:
        """Log test figures at the last epoch, and best epoch, parameters and place of the artifact as texts."""
        figures = {f"test/{name}": value for name, value in result["test"].items() if isinstance(value, (int, float))}
        self.logger.log_metrics(figures, step=int(result["epochs"]))
        for name in ("best_epoch", "parameters", "train_seconds"):
            self._add_text(name, str(result[name]))
        self._add_text("artifact", str(artifact))

    def close(self, *, failed: bool) -> None:
        """End the run."""
        self.logger.finalize("failed" if failed else "success")

    @abstractmethod
    def _add_text(self, name: str, text: str) -> None:
        """Log a fact about the whole run."""


class _MLflow(_LightningLogger):
    def __init__(self, run: Path, name: str, identity: str | None) -> None:
        from pytorch_lightning.loggers import MLFlowLogger

        logging.getLogger("pytorch_lightning.loggers.mlflow").setLevel(logging.ERROR)  # of every new experiment
        named = os.environ.get(_MLFLOW_URI)
        uri = named or (run / "mlruns").resolve().as_uri()
        experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME") or _EXPERIMENT
        self._mlflow = MLFlowLogger(experiment, run_name=name, tracking_uri=uri, run_id=identity)
        self.logger = self._mlflow
        found = self._mlflow.run_id
        assert found is not None
        _forget_place(named)
        self.identity = found
        if identity is not None:
            self._mlflow.experiment.update_run(found, status="RUNNING")

    def _add_text(self, name: str, text: str) -> None:
        self._mlflow.experiment.set_tag(self.identity, name, text)


def _forget_place(named: str | None) -> None:
    """Take back the place that MLflow has noted for the whole process, so that the next run does not write there.

    Args:
        named: The place that the user has named; None for none.
    """
    import mlflow

    mlflow.set_tracking_uri(None)  # type: ignore[arg-type]  # it takes None as nothing set
    if named is not None:
        os.environ[_MLFLOW_URI] = named


class _WandB(_LightningLogger):
    def __init__(self, run: Path, name: str, identity: str | None) -> None:
        import wandb
        from pytorch_lightning.loggers import WandbLogger

        self.identity = identity or secrets.token_hex(4)
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or _EXPERIMENT,
            name=name,
            id=self.identity,
            resume="allow",
            dir=run,
            settings=wandb.Settings(console="off"),
        )
        # As Lightning does for runs that it starts itself: epochs are the axis of all figures.
        self._run.define_metric("trainer/global_step")
        self._run.define_metric("*", step_metric="trainer/global_step", step_sync=True)
        self.logger = WandbLogger(experiment=self._run)

    def _add_text(self, name: str, text: str) -> None:
        self._run.summary[name] = text

    def close(self, *, failed: bool) -> None:
        """End the run, so that the next of this process is one of its own."""
        self._run.finish(exit_code=int(failed))
