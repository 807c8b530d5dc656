"""A run that is killed between two epochs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mntrain.config import ExperimentConfig
from mntrain.training.fit import fit
from mntrain.training.loop import Trainer
from mntrain.training.run_folder import FitOptions

BreakOff = Callable[[ExperimentConfig, FitOptions, int], None]


@pytest.fixture
def break_off(monkeypatch: pytest.MonkeyPatch) -> BreakOff:
    """Trains a run and interrupts it after so many epochs."""
    train_epoch = Trainer._train_epoch

    def train(config: ExperimentConfig, options: FitOptions, epochs: int) -> None:
        def killed(self: Trainer, loader: Any, epoch: int, progress: Any) -> Any:
            if epoch == epochs:
                raise KeyboardInterrupt
            return train_epoch(self, loader, epoch, progress)

        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "_train_epoch", killed)
            with pytest.raises(KeyboardInterrupt):
                fit(config, options)

    return train
