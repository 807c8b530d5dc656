"""Figures, table and picture of a comparison, from runs that were never trained."""

import json
from dataclasses import replace
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from rich.console import Console
from scipy.stats import ttest_1samp

from mntrain.comparison.acting import Acting
from mntrain.comparison.plan import CompareOptions, plan_runs
from mntrain.comparison.plot import draw_comparison, sweep_places
from mntrain.comparison.results import Comparison, gather
from mntrain.comparison.table import cells, headings, print_comparison, result_table, result_tables
from mntrain.comparison.variants import built_in, custom, sweep
from mntrain.data.config import DataConfig
from mntrain.data.loading import load_data
from mntrain.errors import ArtifactError, ConfigError
from mntrain.training.evaluation import metric_of

ACCURACIES = {"vanilla": (0.90, 0.91, 0.92), "mn": (0.92, 0.92, 0.95)}


def options(runs: Path, **fields: Any) -> CompareOptions:
    return CompareOptions(**({"recipe": "digits", "variants": built_in(["vanilla", "mn"]), "runs": runs} | fields))


@cache
def sha256(data: DataConfig) -> str:
    return load_data(data).split.sha256


def finish(
    asked: CompareOptions,
    accuracies: dict[str, tuple[float, ...]],
    tested: dict[str, int] | None = None,
    records: list[dict[str, Any]] | None = None,
) -> None:
    """Write the files of a finished run of every variant and seed.

    ``tested`` is the number of test images; ``records`` are those of adaptation, by seed.
    """
    for run in plan_runs(asked):
        run.folder.mkdir(parents=True)
        (run.folder / "config.yaml").write_text(yaml.safe_dump(run.config.to_dict()))
        accuracy = accuracies[run.variant.name][run.seed]
        unadapted = accuracy - 0.01 if run.config.family == "meta_neighborhoods" else None
        indices = list(range(359 if tested is None else tested.get(run.variant.name, 359)))
        record = {"sha256": sha256(run.config.data), "splits": {"test": {"source_split": "all", "indices": indices}}}
        (run.folder / "split.json").write_text(json.dumps(record))
        test = {"images": 359, "accuracy": accuracy, "loss": 1.0, "unadapted_accuracy": unadapted}
        result = {"test": test, "validation": {}, "parameters": 1234, "epochs": 2, "train_seconds": 3.0}
        if records is not None and unadapted is not None:
            result["adaptation"] = records[run.seed]
        (run.folder / "metrics.json").write_text(json.dumps(result))


def compared(asked: CompareOptions, failed: dict[str, str] | None = None) -> Comparison:
    return gather(asked, plan_runs(asked), failed or {})


def test_means_deviations_and_paired_differences_are_right(tmp_path: Path) -> None:
    asked = options(tmp_path)
    finish(asked, ACCURACIES)
    vanilla, mn = compared(asked).rows
    assert vanilla.mean == pytest.approx(0.91)
    assert vanilla.std == pytest.approx(0.01)
    assert vanilla.difference is None
    assert vanilla.unadapted_mean is None
    assert mn.unadapted_mean == pytest.approx(0.92)
    assert mn.difference is not None
    assert mn.difference.mean == pytest.approx(0.02)
    assert mn.difference.std == pytest.approx(0.01)
    # A paired test is one of the differences against zero.
    assert mn.difference.p_value == pytest.approx(float(ttest_1samp([0.02, 0.01, 0.03], 0).pvalue))


def test_p_values_are_corrected_for_the_number_of_variants(tmp_path: Path) -> None:
    third = custom("third=--family vanilla --vanilla.scale 5")
    asked = options(tmp_path, variants=(*built_in(["vanilla", "mn"]), third))
    finish(asked, ACCURACIES | {"third": (0.91, 0.921, 0.932)})
    comparison = compared(asked)
    _, mn, last = (row.difference for row in comparison.rows)
    assert mn is not None
    assert last is not None
    assert mn.p_value is not None
    assert last.p_value is not None
    # The smaller of two counts twice, the larger once.
    assert last.p_value < mn.p_value
    assert (last.p_holm, mn.p_holm) == (pytest.approx(2 * last.p_value), pytest.approx(mn.p_value))
    row = dict(zip(headings(comparison), cells(comparison, comparison.rows[2]), strict=True))
    assert (row["p"], row["p (Holm)"]) == ("0.003", "0.005")
    assert "Holm" in result_table(comparison).caption
    assert comparison.to_json()["variants"][2]["difference"]["p_holm"] == last.p_holm


RECORD = {
    "examples": 9, "weight_change": 0.02, "answer_change": 0.001, "gain": 0.01, "corrected": 5, "broken": 1,
    "value_share": 0.9, "effective_entries": 123.4,
    "consistency": {"examples": 9, "nearest": 3, "share": 0.95, "chance": 0.1, "kappa": 0.9},
    "agreement": {"answers": 9, "nearest": 3, "share": 0.9, "chance": 0.12, "kappa": 0.9},
    "faithfulness": {
        "measure": "comprehensiveness", "answers": 9, "left_out": 3, "draws": 3, "named": 0.01, "random": 0.0,
        "named_size": 0.02, "random_size": 0.001, "whole": 0.05, "whole_size": 0.06, "attention": 0.1, "further": 0.9,
        "curve_left_out": [3], "curve_named": [0.02], "curve_random": [0.001],
    },
}  # fmt: skip
NAMED = ([[1, 2, 3], [4, 5]], [[2, 3, 4], [4, 5]], [[1, 2, 3], [4, 5]])


def test_what_adaptation_does_has_a_table_of_its_own(tmp_path: Path) -> None:
    asked = options(tmp_path)
    # Weights move further with every seed.
    records = [
        RECORD | {"weight_change": 0.02 + 0.01 * seed, "neighbors": {"answers": [7, 8], "nearest": nearest}}
        for seed, nearest in enumerate(NAMED)
    ]
    finish(asked, ACCURACIES, records=records)
    comparison = compared(asked)
    vanilla, mn = comparison.rows
    assert (vanilla.gain_mean, vanilla.acting, vanilla.verdicts) == (None, None, [])
    assert mn.acting is not None
    assert mn.acting.gain == mn.gain_mean == pytest.approx(0.01)
    assert mn.acting.weight_change == pytest.approx(0.03)
    assert mn.acting.stability is not None
    assert mn.acting.stability.share == pytest.approx((0.75 + 1 + 0.75) / 3)
    scores, acting = result_tables(comparison)
    assert "gain" not in scores.headings
    assert [row[0] for row in acting.rows] == ["mn"]
    assert dict(zip(acting.headings, acting.rows[0], strict=True)) == {
        "variant": "mn", "gain": "+1.00%", "weights moved": "3.0%", "answers changed": "0.1%",
        "corrected / broken": "5 / 1", "consistency": "95.0% (10.0%)", "agreement": "90.0% (12.0%)",
        "faithfulness": "2 (0.1)", "stability": "83.3% (8.3%)", "largest value": "90.0%", "entries in use": "123",
    }  # fmt: skip
    assert "points of probability" in acting.caption
    stream = StringIO()
    print_comparison(Console(file=stream, width=400), comparison)
    assert "what adaptation does" in stream.getvalue()
    assert "mn: the dictionary hardly acts" in stream.getvalue()
    written = json.loads(json.dumps(comparison.to_json(), allow_nan=False))
    assert written["variants"][0]["adaptation"] is None
    assert Acting.from_json(written["variants"][1]["adaptation"]) == mn.acting
    assert written["variants"][1]["runs"][0]["adaptation"]["neighbors"] is None
    # Positions of examples mean nothing in another split.
    moved = replace(mn, runs=(replace(mn.runs[0], split="another"), *mn.runs[1:])).acting
    assert moved == replace(mn.acting, stability=None)


def test_where_nothing_adapts_there_is_one_table(tmp_path: Path) -> None:
    asked = options(tmp_path, variants=built_in(["vanilla"]))
    finish(asked, ACCURACIES)
    assert len(result_tables(compared(asked))) == 1


def test_runs_from_before_the_record_have_their_gain_alone(tmp_path: Path) -> None:
    asked = options(tmp_path)
    finish(asked, ACCURACIES)
    _, acting = result_tables(compared(asked))
    assert (acting.headings, acting.rows) == (["variant", "gain"], [["mn", "+1.00%"]])


def test_equal_differences_have_no_p_value(tmp_path: Path) -> None:
    asked = options(tmp_path)
    finish(asked, {"vanilla": (0.5, 0.5, 0.5), "mn": (0.5, 0.5, 0.5)})
    difference = compared(asked).rows[1].difference
    assert difference is not None
    assert (difference.mean, difference.p_value) == (0, None)


def test_one_seed_has_no_spread(tmp_path: Path) -> None:
    asked = options(tmp_path, seeds=(1,))
    finish(asked, ACCURACIES)
    row = compared(asked).rows[1]
    assert row.std is None
    assert row.difference is not None
    assert (row.difference.std, row.difference.p_value) == (None, None)


def test_a_failed_run_is_left_out_of_the_pairs(tmp_path: Path) -> None:
    asked = options(tmp_path)
    finish(asked, ACCURACIES)
    found = compared(asked, {"digits-vanilla-seed2": "exit code 1: no room"})
    assert found.failures == [("vanilla", 2, "exit code 1: no room")]
    assert found.rows[1].difference is not None
    assert found.rows[1].difference.seeds == (0, 1)
    assert cells(found, found.rows[0])[1:4] == ["90.00%", "91.00%", "failed"]


def test_the_table_and_the_picture_show_every_variant(tmp_path: Path) -> None:
    asked = options(tmp_path, sweeps=(sweep("entries=10,1000"),))
    finish(asked, ACCURACIES | {"entries-10": (0.9, 0.9, 0.91), "entries-1000": (0.93, 0.9, 0.9)})
    found = compared(asked)
    lines = result_table(found).markdown().splitlines()
    assert lines[0].split(" | ")[1:4] == ["seed 0", "seed 1", "seed 2"]
    scores = "92.00% | 92.00% | 95.00% | 93.00% ± 1.73% | +2.00% ± 1.00%"
    assert f"| mn | {scores} | 0.074 | 0.223 | 92.00% | 1,234 | 2 | 3 |" in lines
    assert len(headings(found)) == len(cells(found, found.rows[0]))
    assert "on 359 examples, 3 seeds" in lines[-1]
    picture = draw_comparison(found)
    ElementTree.fromstring(picture)
    assert "meta_neighborhoods.entries" in picture
    assert picture == draw_comparison(found)
    written = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert written["sweeps"][0]["variants"] == ["entries-10", "entries-1000"]
    assert written["variants"][1]["difference"]["seeds"] == [0, 1, 2]


def test_a_narrow_terminal_cuts_no_figure(tmp_path: Path) -> None:
    asked = options(tmp_path)
    finish(asked, ACCURACIES)
    stream = StringIO()
    print_comparison(Console(file=stream, width=40), compared(asked))
    out = stream.getvalue()
    assert "…" not in out
    row = next(line for line in out.splitlines() if "│ mn" in line)
    assert [cell.strip() for cell in row.split("│")[5:8]] == ["93.00% ± 1.73%", "+2.00% ± 1.00%", "0.074"]


def test_swept_words_are_placed_in_their_order() -> None:
    assert sweep_places(("10", "1000")) == [10.0, 1000.0]
    assert sweep_places(("cosine", "euclidean")) == [0.0, 1.0]


def test_a_run_of_another_configuration_is_never_taken_for_the_wanted_one(tmp_path: Path) -> None:
    finish(options(tmp_path), ACCURACIES)
    with pytest.raises(ConfigError, match=r"digits-vanilla-seed0 .*training\.epochs \(12 → 3\).*--runs"):
        plan_runs(options(tmp_path, overrides=("--training.epochs", "3")))


def test_moved_data_and_fields_newer_than_a_run_do_not_matter(tmp_path: Path) -> None:
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    old.write_text("a,y\n" + "".join(f"{n},{'pq'[n % 2]}\n" for n in range(60)))
    finish(options(tmp_path / "runs", overrides=("--data.source", "table", "--data.path", str(old))), ACCURACIES)
    old.rename(new)
    stored = tmp_path / "runs" / "digits-mn-seed0" / "config.yaml"
    values = yaml.safe_load(stored.read_text())
    del values["backbone"]["ifilm_entries"]
    stored.write_text(yaml.safe_dump(values))
    asked = options(tmp_path / "runs", overrides=("--data.source", "table", "--data.path", str(new)))
    again = plan_runs(asked)
    assert [run.state() for run in again] == ["finished"] * len(again)
    new.write_text(new.read_text().replace("59,q", "58.5,q"))
    with pytest.raises(ConfigError, match=r"digits-vanilla-seed0 was trained with other data.*--runs"):
        plan_runs(asked)


def test_runs_tested_on_other_examples_are_not_compared(tmp_path: Path) -> None:
    asked = options(tmp_path)
    finish(asked, ACCURACIES, tested={"mn": 300})
    with pytest.raises(ConfigError, match="'vanilla' and 'mn' were not tested on the same examples"):
        compared(asked)


def test_a_run_killed_before_its_configuration_counts_as_missing(tmp_path: Path) -> None:
    folder = tmp_path / "digits-mn-seed1"
    folder.mkdir()
    (folder / ".config.yaml.x1").write_text("name")
    assert {run.state() for run in plan_runs(options(tmp_path))} == {"missing"}


@pytest.mark.parametrize("figure", ["parameters", "epochs", "train_seconds", "test"])
def test_a_result_without_a_figure_is_named(figure: str, tmp_path: Path) -> None:
    asked = options(tmp_path)
    finish(asked, ACCURACIES)
    file = tmp_path / "digits-vanilla-seed0" / "metrics.json"
    file.write_text(json.dumps({key: value for key, value in json.loads(file.read_text()).items() if key != figure}))
    with pytest.raises(ConfigError, match=f"does not say {figure}.*remove"):
        compared(asked)


@pytest.mark.parametrize("content", ["", "[1, 2", "name: x\nflavour: 3\n"])
def test_a_folder_that_is_no_readable_run_is_left_alone(tmp_path: Path, content: str) -> None:
    folder = tmp_path / "digits-mn-seed1"
    folder.mkdir()
    (folder / "config.yaml").write_text(content)
    with pytest.raises(ConfigError, match="digits-mn-seed1 holds no run"):
        plan_runs(options(tmp_path))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"baseline": "maxl"}, "--baseline is 'maxl'"),
        ({"seeds": ()}, "--seeds"),
        ({"seeds": (1, 1)}, "none twice"),
        ({"jobs": 0}, "--jobs is 0"),
        ({"overrides": ("--seed=3",)}, "--seed is not for"),
        ({"variants": built_in(["vanilla", "vanilla"])}, "Two variants"),
        ({"variants": ()}, "nothing to compare"),
        ({"variants": (*built_in(["vanilla"]), custom("x=--family vanilla --seed 7"))}, "'x' sets --seed"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        options(tmp_path, **fields)


def test_a_result_without_a_known_metric_is_refused() -> None:
    with pytest.raises(ArtifactError, match="reports loss on the test split, expected accuracy"):
        metric_of({"loss": 1.0}, "a")


def test_several_targets_are_compared_one_by_one(tmp_path: Path) -> None:
    asked = options(tmp_path, seeds=(0, 1))
    finish(asked, {"vanilla": (0.5, 0.6), "mn": (0.4, 0.5)})
    errors = {"vanilla": [(0.8, 0.2), (0.7, 0.5)], "mn": [(0.5, 0.3), (0.6, 0.4)]}
    for run in plan_runs(asked):
        file = run.folder / "metrics.json"
        east, north = errors[run.variant.name][run.seed]
        before = None if run.variant.name == "vanilla" else 1.0
        targets = {name: {"mse": mse, "unadapted_mse": before} for name, mse in (("east", east), ("north", north))}
        test = {"examples": 359, "mse": (east + north) / 2, "unadapted_mse": before, "loss": 1.0, "targets": targets}
        file.write_text(json.dumps(json.loads(file.read_text()) | {"test": test}))
    comparison = compared(asked)

    assert [row.mean for row in comparison.rows] == [pytest.approx(0.55), pytest.approx(0.45)]
    assert list(comparison.targets) == ["east", "north"]
    vanilla, mn = comparison.targets["north"]
    assert (vanilla.mean, mn.mean, mn.unadapted_mean) == (pytest.approx(0.35), pytest.approx(0.35), 1.0)
    assert mn.difference is not None
    assert mn.difference.mean == pytest.approx(0.0)
    plain = comparison.to_json()
    (_, of_mn) = plain["targets"]["east"]
    assert (of_mn["variant"], of_mn["mean"], of_mn["gain_mean"]) == ("mn", pytest.approx(0.55), pytest.approx(-0.45))
    assert of_mn["difference"]["mean"] == pytest.approx(-0.2)
    assert plain["variants"][1]["runs"][0]["targets"]["east"] == {"score": 0.5, "unadapted": 1.0}
    lines = result_table(comparison).markdown().splitlines()
    rows = [line.split(" | ")[0] for line in lines if line.startswith(("| vanilla", "| mn"))]
    assert rows == ["| vanilla", "| mn", "| vanilla: east", "| mn: east", "| vanilla: north", "| mn: north"]
    assert "several targets" in lines[-1]
    ElementTree.fromstring(draw_comparison(comparison))


def test_one_target_has_no_part_of_its_own(tmp_path: Path) -> None:
    asked = options(tmp_path, seeds=(0,))
    finish(asked, ACCURACIES)
    plain = compared(asked).to_json()
    assert "targets" not in plain
    assert all("targets" not in run for variant in plain["variants"] for run in variant["runs"])
