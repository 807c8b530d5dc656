"""The figures and marks of a cross-validation, from errors that were never measured."""

from dataclasses import replace

import pytest
from scipy.stats import ttest_rel

from mntrain.crossval.plan import Architecture, CrossvalOptions, NetworkSetting
from mntrain.crossval.plot import draw_crossval
from mntrain.crossval.results import Crossval, Scores, SetResult, corrected
from mntrain.crossval.search import Choice
from mntrain.crossval.table import caption, cells, headings

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
        targets=("y",),
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


def test_p_values_are_corrected_for_all_tests_on_all_sets() -> None:
    first, second = corrected([row(ERRORS), row({name: errors for name, errors in ERRORS.items() if name != "knn"})])
    p_vanilla, p_knn = first.p_value("vanilla"), first.p_value("knn")
    assert p_vanilla is not None
    assert p_knn is not None
    # Of three tests the two smallest are equal: the first counts three times, and none behind it becomes smaller.
    assert p_vanilla < p_knn
    assert first.p_holm == {"vanilla": pytest.approx(3 * p_vanilla), "knn": pytest.approx(p_knn)}
    assert second.p_holm == {"vanilla": pytest.approx(3 * p_vanilla)}
    result = Crossval(options=CrossvalOptions(recipes=("uci",), folds=3), sets=(first, second))
    shown = dict(zip(headings(result), cells(result, second), strict=True))
    assert shown["p (MN, vanilla)"] == f"{p_vanilla:.4f} * ({3 * p_vanilla:.4f} *)"
    assert "Holm" in caption(result)
    assert second.to_json()["meta_neighborhoods_against"]["vanilla"]["p_holm"] == second.p_holm["vanilla"]


def test_a_family_that_could_not_be_trained_has_no_figure() -> None:
    one = row({name: errors for name, errors in ERRORS.items() if name != "vanilla"})
    result = Crossval(options=CrossvalOptions(recipes=("uci",), folds=3), sets=(one,))
    shown = dict(zip(headings(result), cells(result, one), strict=True))
    assert (shown["vanilla"], shown["p (MN, vanilla)"]) == ("failed", "")


def test_of_both_starts_the_one_from_data_is_tested() -> None:
    """A start that could not be trained leaves its tests empty: the other one does not take its place."""
    options = CrossvalOptions(recipes=("uci",), folds=3, families=("knn", "mn-paper", "mn-data"))
    errors = {"knn": ERRORS["knn"], "mn-paper": ERRORS["vanilla"], "mn-data": ERRORS["meta_neighborhoods"]}
    one, failed = (
        replace(row(some), tested="mn-data") for some in (errors, {name: errors[name] for name in ("knn", "mn-paper")})
    )
    result = Crossval(options=options, sets=(one, failed))
    shown, left = (dict(zip(headings(result), cells(result, each), strict=True)) for each in result.sets)
    p_value = float(ttest_rel(errors["mn-data"], errors["mn-paper"]).pvalue)
    assert shown["p (MN data, MN paper)"] == f"{p_value:.4f} *"
    assert (left["p (MN data, MN paper)"], left["p (MN data, kNN)"]) == ("", "")


def test_several_targets_have_a_row_each_below_their_mean() -> None:
    of_targets = {"east": (0.1, 0.2, 0.3), "north": (0.9, 0.7, 0.8)}

    def scores(family: str, factor: float) -> Scores:
        folds = [{name: {"mse": factor * mse[fold]} for name, mse in of_targets.items()} for fold in range(3)]
        together = tuple(sum(of["mse"] for of in fold.values()) / 2 for fold in folds)
        return Scores(family=family, mse=together, details=tuple({"targets": fold} for fold in folds))

    one = replace(
        row({}),
        targets=("east", "north"),
        scores=(scores("vanilla", 1.0), scores("meta_neighborhoods", 0.5)),
    )
    options = CrossvalOptions(recipes=("uci",), folds=3, families=("vanilla", "meta_neighborhoods"))
    result = Crossval(options=options, sets=(one,))

    table = [dict(zip(headings(result), cells(result, shown), strict=True)) for shown in result.rows]
    assert [line["data set"] for line in table] == ["made-up", "made-up: east", "made-up: north"]
    assert [line["vanilla"] for line in table] == ["0.5000 ± 0.0500", "0.2000 ± 0.1000", "0.8000 ± 0.1000"]
    assert [line["MN"].split()[0] for line in table] == ["0.2500", "0.1000", "0.4000"]
    assert "with several targets is their mean" in caption(result)
    assert "several" not in caption(Crossval(options=options, sets=(row(ERRORS),)))
    east, north = one.by_target()
    p_values = [east.p_value("vanilla") or 0, north.p_value("vanilla") or 0]
    assert min(p_values) > 0
    low, high = sorted((east, north), key=lambda shown: shown.p_value("vanilla") or 0)
    assert low.p_holm["vanilla"] == pytest.approx(2 * min(p_values))
    assert high.p_holm["vanilla"] == pytest.approx(max(max(p_values), 2 * min(p_values)))
    plain = one.to_json()
    assert plain["families"]["vanilla"]["mse"] == pytest.approx([0.5, 0.45, 0.55])
    assert list(plain["targets"]) == ["east", "north"]
    assert plain["targets"]["north"]["families"]["vanilla"] == {
        "mean": pytest.approx(0.8), "std": pytest.approx(0.1), "mse": [0.9, 0.7, 0.8],
    }  # fmt: skip
    assert plain["targets"]["east"]["meta_neighborhoods_against"]["vanilla"]["better"]
    assert "targets" not in row(ERRORS).to_json()
    assert draw_crossval(result).count("made-up: ") == 2
