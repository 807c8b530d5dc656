"""Low-rank form of a regressor: examples that it is fitted to and judged by, and bounds of its rank."""

import math

import numpy as np
import pytest
import torch

from mnexport.errors import FormError
from mnexport.forms.approximate_regressor import CutEstimator, approximate_regressor
from mnexport.forms.plan import Calibration, FormPlan, StaticModel
from mnexport.forms.regression import DeployedRegressor
from mntrain.data.standardization import Standardization, StandardizationConfig
from mntrain.layers.mlp import Mlp
from mntrain.models.meta_neighborhoods.config import MetaNeighborhoodsConfig
from mntrain.models.meta_neighborhoods.regression import MetaNeighborhoodsRegressor

COLUMNS, UNITS = 4, 12
IDENTITY = Standardization(StandardizationConfig(mean=(0.0,) * COLUMNS, std=(1.0,) * COLUMNS))


def regressor(entries: int = 80) -> MetaNeighborhoodsRegressor:
    torch.manual_seed(0)
    config = MetaNeighborhoodsConfig(entries=entries, step_size=0.05, similarity="euclidean", temperature=0.5)
    model = MetaNeighborhoodsRegressor(config, Mlp(COLUMNS, 2, UNITS, 1), [(-1.0, 1.0)])
    with torch.no_grad():
        model.keys.normal_()
    return model.eval().requires_grad_(False)


def rows(count: int, seed: int, spread: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=(count, COLUMNS)) * spread).astype(np.float32)


NEAR, FAR = rows(40, 1, 0.1), rows(40, 2, 2.0)


def plan(
    tolerance: float,
    *,
    rank: int | None = None,
    fitted: np.ndarray = NEAR,
    held_out: np.ndarray = NEAR,
    table_limit: int = 2**20,
) -> FormPlan:
    calibration = Calibration(fitted=fitted, held_out=held_out, source="test")
    return FormPlan(form="low_rank", tolerance=tolerance, rank=rank, table_limit=table_limit, calibration=calibration)


def taken(model: MetaNeighborhoodsRegressor, wanted: FormPlan) -> StaticModel:
    found = approximate_regressor(model, wanted, IDENTITY)
    assert isinstance(found, StaticModel), found
    return found


def error_of(model: MetaNeighborhoodsRegressor, static: StaticModel, examples: np.ndarray) -> float:
    given = torch.from_numpy(examples)
    return float((static.module(given)[0].squeeze(-1) - model(given).values).abs().max())


def largest_table(static: StaticModel) -> int:
    """Measure the largest table of an approximation, bytes."""
    assert isinstance(static.module, DeployedRegressor)
    assert isinstance(static.module.estimator, CutEstimator)
    return max(4 * buffer.numel() for buffer in static.module.estimator.tables.buffers())


@pytest.mark.parametrize("hard", ["fitted", "held_out"])
def test_the_rank_keeps_the_tolerance_of_all_rows_whether_fitted_to_or_not(hard: str) -> None:
    model = regressor()
    easy = taken(model, plan(1e-3))
    assert error_of(model, easy, FAR) > 1e-3, "rows that this rank is not enough for"

    found = taken(model, plan(1e-3, **{hard: FAR}))

    assert found.record["rank"] > easy.record["rank"]
    assert error_of(model, found, FAR) <= 5e-4 + 1e-6
    told = found.record["calibration"][f"{hard}_error"]
    assert told == pytest.approx(error_of(model, found, FAR), abs=1e-5)
    assert "take a looser --tolerance" in str(
        approximate_regressor(model, plan(1e-3, rank=easy.record["rank"], held_out=FAR), IDENTITY)
    )


def test_tables_are_fitted_to_the_keys_of_the_dictionary_too() -> None:
    """Two rows tell nothing of the others; the keys, which lie near them, do."""
    model, few = regressor(), NEAR[:1].repeat(2, axis=0)
    many = taken(model, plan(1e-2, fitted=FAR[:20], held_out=FAR[20:]))
    found = taken(model, plan(1e-2, fitted=few, held_out=FAR[20:]))
    assert found.record["rank"] <= many.record["rank"] + 4


def test_every_table_is_within_the_limit() -> None:
    model = regressor()
    free = taken(model, plan(1e-4, held_out=FAR))
    largest = largest_table(free)
    within = taken(model, plan(1e-4, held_out=FAR, table_limit=largest))
    assert (within.record["rank"], largest_table(within)) == (free.record["rank"], largest)

    less = approximate_regressor(model, plan(1e-4, held_out=FAR, table_limit=largest - 1), IDENTITY)

    assert isinstance(less, str)
    assert "MiB each comes within 0.0001 deviations" in less
    loose = taken(model, plan(0.5, held_out=FAR, table_limit=largest - 1))
    assert largest_table(loose) < largest


def test_a_rank_is_given_within_the_entries_and_what_the_tables_hold() -> None:
    """Full rank is 4 + 12, 12 + 12 and 12 + 1 directions; with 20 entries no more than 20 may be asked for."""
    full = COLUMNS + 4 * UNITS + 1
    assert taken(regressor(), plan(0.99, rank=full)).record["full_rank"] == full
    with pytest.raises(FormError, match=rf"--rank is 54; this model takes 1 to 53 .*the {full} that leave nothing out"):
        approximate_regressor(regressor(), plan(0.99, rank=full + 1), IDENTITY)
    few = regressor(entries=20)
    assert taken(few, plan(0.99, rank=20)).record["rank"] == 20
    with pytest.raises(FormError, match=r"--rank is 21; this model takes 1 to 20 .*the 20 entries of its dictionary"):
        approximate_regressor(few, plan(0.99, rank=21), IDENTITY)
    assert taken(few, plan(1e-7)).record["rank"] > 20, "without --rank it may have more"


def test_a_rank_that_the_tables_do_not_hold_is_refused() -> None:
    model, columns = regressor(), 4
    limit = 4 * 80 * columns
    with pytest.raises(
        FormError, match=r"--rank is 53; this model takes 1 to \d+ .*than a table of .* MiB holds"
    ) as told:
        approximate_regressor(model, plan(0.99, rank=53, table_limit=limit), IDENTITY)
    most = int(str(told.value).split(" takes 1 to ")[1].split()[0])
    found = taken(model, plan(0.99, rank=most, table_limit=limit))
    assert found.record["rank"] == most
    assert largest_table(found) <= limit
    assert largest_table(taken(model, plan(0.99, rank=most + 1))) > limit, "one more has no room"
    with pytest.raises(FormError, match=r"at least one direction, .* holds\. Leave out --rank, and take an exact form"):
        approximate_regressor(model, plan(0.99, rank=1, table_limit=4 * 80), IDENTITY)


def test_the_recorded_cost_is_that_of_the_tables() -> None:
    static = taken(regressor(), plan(1e-2, held_out=FAR))
    assert isinstance(static.module, DeployedRegressor)
    held = sum(buffer.numel() for buffer in static.module.estimator.tables.buffers())  # type: ignore[union-attr]
    costs = static.record["costs"]
    assert costs["low_rank"]["table_numbers"] == held + 80 * COLUMNS
    assert costs["low_rank"]["multiplications"] == held + 80 * COLUMNS
    assert costs["exact"]["table_numbers"] == 80 * (COLUMNS + (COLUMNS + UNITS) + 2 * UNITS + (UNITS + 1))


def test_a_rank_that_loses_too_much_is_not_taken() -> None:
    refused = approximate_regressor(regressor(), plan(1e-6, rank=1), IDENTITY)
    assert refused == (
        "a cut of the tables to a rank of 1 does not come within 1e-06 deviations of the target; take a looser "
        "--tolerance, or leave out --rank, for the fewest directions that do or for --form factored"
    )
    assert math.isfinite(error_of(regressor(), taken(regressor(), plan(1e-6)), FAR))
