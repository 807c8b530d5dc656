"""Rates of parameter groups that are found from the length of a run."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from mntrain.config import load_experiment
from mntrain.errors import ConfigError
from mntrain.layers.mlp import Mlp
from mntrain.models.base import Batch, ParameterGroup
from mntrain.models.meta_neighborhoods.config import MetaNeighborhoodsConfig
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods
from mntrain.models.meta_neighborhoods.regression import MetaNeighborhoodsRegressor
from mntrain.training.checkpoint import load_state
from mntrain.training.fit import fit
from mntrain.training.optimizer import build_optimizer
from mntrain.training.rates import adam_reach, automatic_rates
from mntrain.training.run_folder import FitOptions
from mntrain.training_config import TrainingConfig

TINY = ["--backbone.width", "0.1", "--meta_neighborhoods.entries", "8", "--data.train_limit", "64", "--name", "run"]
TINY += ["--training.epochs", "4", "--training.drop_at", "0.5", "--training.batch_size", "32"]
TINY += ["--meta_neighborhoods.init", "paper"]
AUTO = [f"--meta_neighborhoods.{rate}=auto" for rate in ("value_rate", "step_size_rate")]
TRAINING = TrainingConfig(epochs=4, drop_at=0.5, learning_rate=1e-3, batch_size=32)


def group(distance: float | None, name: str = "values") -> ParameterGroup:
    return ParameterGroup(name=name, parameters=(nn.Parameter(torch.zeros(2)),), decay=False, distance=distance)


def test_reach_is_the_sum_of_all_rates() -> None:
    """Two steps an epoch, two epochs at 1e-3 and two at 1e-4."""
    assert adam_reach(TRAINING, 64) == pytest.approx(2 * (1e-3 + 1e-3 + 1e-4 + 1e-4))
    assert adam_reach(TRAINING, 64, first_epoch=1) == pytest.approx(2 * (1e-3 + 1e-4 + 1e-4))
    assert adam_reach(TRAINING, 64, first_epoch=4) == 0


def test_rates_are_found_where_a_distance_is_stated_and_are_at_least_1() -> None:
    groups = [group(None, "keys"), group(5.0), group(1e-3, "near")]
    assert automatic_rates(groups, TRAINING, 64) == {"values": pytest.approx(5 / 4.4e-3), "near": 1.0}
    assert automatic_rates(groups, TRAINING, 64, first_epoch=2)["values"] == pytest.approx(5 / 4e-4)
    assert automatic_rates(groups, TRAINING, 64, first_epoch=4)["values"] == 1
    rates = [part["rate"] for part in build_optimizer(groups, TRAINING, {"values": 7.0, "near": 1.0}).param_groups]
    assert rates == [1.0, 7.0, 1.0]


def test_values_of_regression_are_standardised_and_have_less_far_to_go() -> None:
    config = MetaNeighborhoodsConfig(entries=4, value_rate="auto", step_size_rate="auto")
    model = MetaNeighborhoodsRegressor(config, Mlp(3, 1, 4, 1), [(-1.0, 1.0)])
    found = {part.name: part.distance for part in model.parameter_groups()}
    assert found == {"network": None, "keys": None, "values": 1.0, "step_size": 1.0}


def test_sgd_has_no_such_rate() -> None:
    with pytest.raises(ConfigError, match=r"'sgd'.*'auto' of values can be found; give a number"):
        automatic_rates([group(5.0)], TrainingConfig(optimizer="sgd"), 64)
    assert automatic_rates([group(None)], TrainingConfig(optimizer="sgd"), 64) == {}


@pytest.mark.parametrize(
    ("value", "part"), [("fast", "it must be auto or a finite number"), ("0", "it must be auto or a number above 0")]
)
def test_a_rate_is_auto_or_a_number(value: str, part: str) -> None:
    with pytest.raises(ConfigError, match=part):
        load_experiment("digits", ["--meta_neighborhoods.value_rate", value])


def test_a_run_can_carry_step_size_and_values_as_far_as_stated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def pull(self: MetaNeighborhoods, batch: Batch) -> Any:
        """A gradient that always points the same way."""
        prediction = self(batch.inputs)
        return -self.raw_step_size - self.dictionary.value_logits[:, 0].sum(), prediction

    monkeypatch.setattr(MetaNeighborhoods, "loss", pull)
    started = load_experiment("digits", [*TINY, *AUTO])
    result = fit(started, FitOptions(runs=tmp_path))
    assert result is not None
    assert result["rates"] == {"values": pytest.approx(5 / 4.4e-3), "step_size": pytest.approx(1 / 4.4e-3)}
    assert "rates      values 1136, step_size 227.3 times the learning rate (auto)" in capsys.readouterr().err
    assert json.loads((tmp_path / "run" / "data.json").read_text())["training"]["rates"] == result["rates"]
    weights = load_state(tmp_path / "run" / "checkpoints" / "last.pt").model
    assert float(weights["raw_step_size"]) == pytest.approx(1.05, abs=1e-3)
    logits = weights["dictionary.value_logits"]
    assert float((logits[:, 0] - logits[:, 1:].mean(dim=1)).mean()) == pytest.approx(5, abs=0.3)

    again = fit(started, FitOptions(runs=tmp_path, resume=True, quiet=True))
    assert again is not None
    assert again["rates"] == result["rates"]
    longer = load_experiment("digits", [*TINY, *AUTO, "--training.epochs", "8", "--training.drop_at", "0.25"])
    with pytest.raises(ConfigError, match=r"automatic rate of values was 1136\.36.*it would have been 961\.538"):
        fit(longer, FitOptions(runs=tmp_path, resume=True, quiet=True))
