"""The figures and marks of a cross-validation, from errors that were never measured."""

import pytest
from scipy.stats import ttest_rel

from mntrain.crossval.plan import Architecture, CrossvalOptions, NetworkSetting
from mntrain.crossval.results import Crossval, Scores, SetResult
from mntrain.crossval.search import Choice
from mntrain.crossval.table import cells, headings

ERRORS = {
    "knn": (0.9, 0.8, 0.95),
    "vanilla": (0.50, 0.61, 0.49),
    "meta_neighborhoods": (0.40, 0.52, 0.38),
}


def row(errors: dict[str, tuple[float, ...]]) -> SetResult:
    settings = {family: NetworkSetting(decay=0.075) for family in ("vanilla", "meta_neighborhoods")}
    return SetResult(
        name="made-up",
        rows=1234,
        features=5,
        choice=Choice(architecture=Architecture(layers=3, units=128), architectures={}, settings=settings, decays={}),
        scores=tuple(Scores(family=family, mse=mse, details=()) for family, mse in errors.items()),
    )


def test_the_smallest_mean_and_small_p_values_are_marked() -> None:
    result = Crossval(options=CrossvalOptions(recipes=("uci",), folds=3, decays=(0.0, 0.075)), sets=(row(ERRORS),))
    shown = dict(zip(headings(result), cells(result, result.sets[0]), strict=True))
    assert (shown["n"], shown["d"], shown["layers × units"]) == ("1,234", "5", "3 × 128")
    assert shown["weight decay (vanilla, MN)"] == "0.075, 0.075"
    assert shown["vanilla"] == "0.5333 ± 0.0666"
    assert shown["MN"] == "0.4333 ± 0.0757 *"
    p_value = float(ttest_rel(ERRORS["meta_neighborhoods"], ERRORS["vanilla"]).pvalue)
    assert p_value < 0.05
    assert shown["p (MN, vanilla)"] == f"{p_value:.4f} *"


def test_a_large_p_value_is_not_marked_and_its_direction_is_told() -> None:
    one = row(ERRORS | {"vanilla": (0.2, 0.9, 0.1)})
    result = Crossval(options=CrossvalOptions(recipes=("uci",), folds=3), sets=(one,))
    shown = dict(zip(headings(result), cells(result, one), strict=True))
    assert not shown["p (MN, vanilla)"].endswith("*")
    assert shown["vanilla"].endswith("*")
    against = one.to_json()["meta_neighborhoods_against"]
    assert (against["vanilla"]["better"], against["knn"]["better"]) == (False, True)
    assert against["vanilla"]["p_value"] == pytest.approx(one.p_value("vanilla"))


def test_a_family_that_could_not_be_trained_has_no_figure() -> None:
    one = row({name: errors for name, errors in ERRORS.items() if name != "vanilla"})
    result = Crossval(options=CrossvalOptions(recipes=("uci",), folds=3), sets=(one,))
    shown = dict(zip(headings(result), cells(result, one), strict=True))
    assert (shown["vanilla"], shown["p (MN, vanilla)"]) == ("failed", "")
