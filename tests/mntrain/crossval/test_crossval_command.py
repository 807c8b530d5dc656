"""`mntrain crossval`: trained runs, runs that are read again, results and messages."""

import json
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from mntrain.commands.cli import main
from mntrain.errors import TrainingError
from mntrain.result_folder import result_folder

ROWS = 90
SMALL = ["--training.epochs", "3", "--meta_neighborhoods.entries", "10", "--training.batch_size", "16"]
SEARCH = ["--layers", "1,2", "--units", "4,8", "--folds", "3", "--decays", "0,9"]
NETWORKS = ("vanilla", "meta_neighborhoods")


def write_table(file: Path, seed: int = 0) -> Path:
    random = np.random.default_rng(seed)
    x = random.normal(size=(ROWS, 2))
    y = np.sin(x[:, 0]) * 40 + x[:, 1] + 100
    lines = ["a,b,y", *(f"{a:.6f},{b:.6f},{c:.6f}" for (a, b), c in zip(x, y, strict=True))]
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cross-validate two tables with a search, into ``runs``."""
    path = tmp_path_factory.mktemp("crossval")
    for seed, name in enumerate(("one", "two")):
        write_table(path / f"{name}.csv", seed)
        recipe = {"family": "vanilla", "backbone": {"name": "mlp"}, "data": {"source": "table", "path": f"{name}.csv"}}
        (path / f"{name}.yaml").write_text(yaml.safe_dump(recipe))
    errors = StringIO()
    with redirect_stderr(errors):
        assert main(command(path)) == 0
    told = [line for line in errors.getvalue().splitlines() if line.startswith("data ")]
    assert told == [f"data       {ROWS} rows from {path / name}.csv" for name in ("one", "two")]
    return path


def command(path: Path, *words: str) -> list[str]:
    recipes = [str(path / "one.yaml"), str(path / "two.yaml")]
    return ["crossval", *recipes, "--data-root", str(path), "--runs", str(path / "runs"), *SEARCH, *SMALL, *words]


def results(path: Path) -> dict[str, Any]:
    found = json.loads((path / "runs" / "crossval" / "crossval.json").read_text())
    assert isinstance(found, dict)
    return found


def test_every_family_has_an_error_for_every_fold(folder: Path) -> None:
    found = results(folder)
    assert [one["name"] for one in found["sets"]] == ["one", "two"]
    for one in found["sets"]:
        assert (one["rows"], one["features"]) == (ROWS, 2)
        for family in ("knn", "gradient_boosting", "vanilla", "meta_neighborhoods"):
            scores = one["families"][family]
            assert len(scores["mse"]) == 3
            assert scores["mean"] == pytest.approx(np.mean(scores["mse"]))
            assert scores["std"] == pytest.approx(np.std(scores["mse"], ddof=1))
        assert one["families"]["knn"]["mean"] < 0.5, "neighbors of a smooth curve are near it"
        tests = one["meta_neighborhoods_against"]
        assert set(tests) == {"knn", "gradient_boosting", "vanilla"}
        assert all(test["significant"] == (test["p_value"] < 0.05) for test in tests.values())


def test_the_architecture_is_chosen_by_validation_and_used_by_all_networks(folder: Path) -> None:
    for one in results(folder)["sets"]:
        assert set(one["search"]) == {"1x4", "1x8", "2x4", "2x8"}
        chosen = min(one["search"], key=one["search"].get)
        assert f"{one['architecture']['layers']}x{one['architecture']['units']}" == chosen
        runs = {item.name for item in (folder / "runs" / f"{one['name']}-crossval").iterdir()}
        searched = {f"vanilla-{shape}-fold0" for shape in one["search"]}
        assert {name.split("-decay")[0] for name in runs - searched} == {
            f"{f.replace('_', '-')}-{chosen}" for f in NETWORKS
        }
        for name in searched:
            stored = json.loads((folder / "runs" / f"{one['name']}-crossval" / name / "metrics.json").read_text())
            assert stored["validation"]["mse"] == one["search"][name.split("-")[1]]


def test_every_network_gets_the_weight_decay_with_its_smallest_validation_error(folder: Path) -> None:
    for one in results(folder)["sets"]:
        runs = folder / "runs" / f"{one['name']}-crossval"
        shape = f"{one['architecture']['layers']}x{one['architecture']['units']}"
        for family in NETWORKS:
            decays = one["decays"][family]
            first = f"{family.replace('_', '-')}-{shape}-decay"
            for decay in ("0.0", "9.0"):
                stored = json.loads((runs / f"{first}{decay}-fold0" / "metrics.json").read_text())
                assert stored["validation"]["mse"] == decays["searched"][decay]
                config = yaml.safe_load((runs / f"{first}{decay}-fold0" / "config.yaml").read_text())
                assert config["training"]["weight_decay"] == float(decay)
            assert repr(decays["chosen"]) == min(decays["searched"], key=decays["searched"].get)
            tested = [run.name for run in runs.glob(f"{first}*-fold[12]")]
            assert sorted(tested) == [f"{first}{decays['chosen']!r}-fold{fold}" for fold in (1, 2)]


def test_folds_are_the_same_rows_for_every_family(folder: Path) -> None:
    runs = folder / "runs" / "one-crossval"
    tested = []
    for fold in range(3):
        splits = [json.loads((run / "split.json").read_text()) for run in runs.glob(f"*-fold{fold}")]
        assert len({split["sha256"] for split in splits}) == 1
        tested += splits[0]["splits"]["test"]["indices"]
    assert sorted(tested) == list(range(ROWS))


def test_the_table_has_a_row_for_each_set(folder: Path) -> None:
    lines = (folder / "runs" / "crossval" / "crossval.md").read_text().splitlines()
    assert lines[0].startswith(
        "| data set | n | d | layers × units | weight decay (vanilla, MN) | kNN | boosting | vanilla | MN | p ("
    )
    assert [line.split(" | ")[0] for line in lines[2:4]] == ["| one", "| two"]
    assert all(line.count(r"\*") >= 1 for line in lines[2:4]), "the smallest mean is marked"
    picture = (folder / "runs" / "crossval" / "crossval.svg").read_text()
    assert ">one<" in picture
    assert ">MN<" in picture


def test_finished_runs_are_read_and_broken_off_ones_go_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = results(folder)
    broken = next((folder / "runs" / "two-crossval").glob("meta*-fold1"))
    (broken / "metrics.json").unlink()
    trained: list[str] = []
    module = __import__("mntrain.crossval.training", fromlist=["fit"])
    original = module.fit
    monkeypatch.setattr(module, "fit", lambda config, options: trained.append(config.name) or original(config, options))
    assert main(command(folder, "--json")) == 0
    output = capsys.readouterr()
    assert json.loads(output.out) == before
    assert output.err == ""
    assert trained == [broken.name]


def test_a_run_of_another_configuration_is_not_taken(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(folder, "--training.learning_rate", "0.5")) == 2
    err = capsys.readouterr().err
    assert "was trained with another configuration" in err
    assert "learning_rate" in err


def test_two_jobs_train_the_recipes_own_architecture(folder: Path, tmp_path: Path) -> None:
    words = ["crossval", "uci", "--data.path", str(folder / "one.csv"), "--no-search", "--folds", "2", *SMALL]
    words += [
        "--decays",
        "own",
        "--backbone.units",
        "6",
        "--runs",
        str(tmp_path),
        "--jobs",
        "2",
        "--families",
        "vanilla",
    ]
    assert main([*words, "--json"]) == 0
    found = json.loads((tmp_path / "crossval" / "crossval.json").read_text())["sets"][0]
    assert found["architecture"] == {"layers": 3, "units": 6}
    assert found["search"] == found["decays"] == {}
    assert found["meta_neighborhoods_against"] == {}


@pytest.mark.parametrize(
    ("words", "code", "parts"),
    [
        (["digits"], 2, ["'digits'", "takes tables of values"]),
        (["nothing"], 2, ["There is no recipe 'nothing'"]),
        (
            ["uci", "--families", "maxl"],
            2,
            ["--families is 'maxl'", "knn,gradient_boosting,vanilla,meta_neighborhoods"],
        ),
        (["uci", "--families", "knn,vanila"], 2, ["--families is", "Did you mean 'vanilla'?"]),
        (["uci", "--folds", "1"], 2, ["--folds is 1"]),
        (["uci", "--layers", "two"], 2, ["--layers is 'two'", "separated by commas"]),
        (["uci", "--decays", "-1"], 2, ["--decays is '-1.0'", "0 to below 100"]),
        (["uci", "--decays", "none"], 2, ["--decays is 'none'", "must be numbers"]),
        (["uci", "--training.weight_decay", "2"], 2, ["--training.weight_decay", "--decays own"]),
        (["uci", "--units", "0"], 2, ["--units is '0'"]),
        (["uci", "--jobs", "0"], 2, ["--jobs is 0"]),
        (["uci", "uci"], 2, ["Two recipes are called 'uci'"]),
        (["uci", "--data.fold", "2"], 2, ["--data.fold is not for", "leave it out"]),
        (["uci", "--backbone.layers", "2"], 2, ["--backbone.layers", "--no-search"]),
        (["uci", "--training.epohcs", "2"], 2, ["Recipe 'uci'", "training.epochs"]),
        (["uci", "--data.path", "nowhere.csv"], 1, ["nowhere.csv", "does not exist"]),
    ],
)
def test_wrong_usage_is_refused_in_one_sentence(
    words: list[str], code: int, parts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["crossval", *words, "--runs", str(tmp_path / "runs")]) == code
    err = capsys.readouterr().err
    assert all(part in err for part in parts), err
    assert err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_fewer_rows_than_folds_and_classes_are_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["crossval", "uci", "--data.path", str(folder / "one.csv"), "--folds", "91"]) == 1
    assert "data.folds is 91, but there are 90 rows" in capsys.readouterr().err
    labels = tmp_path / "labels.csv"
    labels.write_text("a,y\n" + "".join(f"{n},{'pq'[n % 2]}\n" for n in range(40)))
    assert main(["crossval", "uci", "--data.path", str(labels)]) == 2
    assert "holds classes" in capsys.readouterr().err


def test_a_run_that_fails_is_named_and_the_others_are_kept(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One setting of the search and one fold cannot be trained; the others are, and the exit code is 1."""
    module = __import__("mntrain.crossval.training", fromlist=["fit"])
    original = module.fit

    def fit(config: Any, options: Any) -> Any:
        if config.name in ("vanilla-1x4-fold0", "meta-neighborhoods-2x4-fold1"):
            raise TrainingError("The loss is nan.")
        return original(config, options)

    monkeypatch.setattr(module, "fit", fit)
    words = [str(folder / "one.yaml"), str(folder / "two.yaml"), "--data-root", str(folder), "--runs", str(tmp_path)]
    words += ["--layers", "1,2", "--units", "4", "--folds", "2", "--decays", "own", *SMALL]
    assert main(["crossval", *words]) == 1
    out = capsys.readouterr().out
    found = json.loads((tmp_path / "crossval" / "crossval.json").read_text())["sets"]
    assert [one["search"]["1x4"] for one in found] == [None, None]
    assert [one["architecture"] for one in found] == [{"layers": 2, "units": 4}] * 2
    assert [set(one["families"]) for one in found] == [{"knn", "gradient_boosting", "vanilla"}] * 2
    assert [one["failures"] for one in found] == [
        [f"{name} meta-neighborhoods-2x4-fold1: The loss is nan."] for name in ("one", "two")
    ]
    assert out.count("failed: ") == 2
    assert (tmp_path / "one-crossval" / "meta-neighborhoods-2x4-fold0" / "metrics.json").is_file()
    monkeypatch.setattr(module, "fit", original)
    assert main(["crossval", *words]) == 0


def test_another_table_in_the_place_of_the_first_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["crossval", "uci", "--no-search", "--folds", "2", "--decays", "own", *SMALL, "--runs", str(tmp_path)]
    words += ["--families", "vanilla", "--backbone.units", "4", "--data.path"]
    assert main([*words, str(folder / "one.csv")]) == 0
    assert main([*words, str(folder / "two.csv")]) == 2
    assert "was trained with other data" in capsys.readouterr().err


def test_a_second_cross_validation_in_the_same_folder_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with result_folder(folder / "runs" / "crossval"):
        assert main(command(folder)) == 2
    assert "Another process works on" in capsys.readouterr().err


def test_several_targets_are_told_apart_and_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 2))
    table = np.column_stack([x, 90 + np.sin(x[:, 0]), 5000 * x[:, 1]])
    np.savetxt(tmp_path / "two.csv", table, delimiter=",", header="a,b,east,north", comments="")
    words = ["uci", "--data.path", str(tmp_path / "two.csv"), "--data.target_column", "[east, north]", "--no-search"]
    words += ["--decays", "own", "--folds", "2", *SMALL, "--backbone.units", "4", "--runs", str(tmp_path / "runs")]
    words += ["--families", "knn,vanilla,meta_neighborhoods"]
    assert main(["crossval", *words, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["sets"]
    assert list(found["targets"]) == ["east", "north"]
    for family in ("knn", *NETWORKS):
        of_targets = [found["targets"][name]["families"][family]["mse"] for name in ("east", "north")]
        assert found["families"][family]["mse"] == pytest.approx(np.mean(of_targets, axis=0), rel=1e-5)
        assert of_targets[0] != of_targets[1]
    folds = found["families"]["meta_neighborhoods"]["folds"]
    assert folds[0]["targets"]["north"]["rmse"] > 100 * folds[0]["targets"]["east"]["rmse"], "each in its own units"
    assert set(found["targets"]["east"]["meta_neighborhoods_against"]) == {"knn", "vanilla"}
    lines = (tmp_path / "runs" / "crossval" / "crossval.md").read_text().splitlines()
    assert [line.split(" | ")[0] for line in lines[2:5]] == ["| uci", "| uci: east", "| uci: north"]


def test_both_starts_are_compared_beside_each_other(tmp_path: Path) -> None:
    table = write_table(tmp_path / "one.csv")
    words = ["crossval", "uci", "--data.path", str(table), "--no-search", "--folds", "2", "--backbone.units", "4"]
    words += [*SMALL, "--decays", "0,9", "--families", "mn-paper,mn-data", "--runs", str(tmp_path / "runs")]
    assert main([*words, "--training.epochs", "1", "--json"]) == 0
    (found,) = results(tmp_path)["sets"]
    assert (found["tested"], list(found["meta_neighborhoods_against"])) == ("mn-data", ["mn-paper"])
    assert found["families"]["mn-paper"]["mse"] != found["families"]["mn-data"]["mse"]
    for start in ("paper", "data"):
        decay = found["decays"][f"mn-{start}"]["chosen"]
        run = tmp_path / "runs" / "uci-crossval" / f"mn-{start}-decay{decay!r}-fold1"
        config = yaml.safe_load((run / "config.yaml").read_text())
        assert (config["family"], config["meta_neighborhoods"]["init"]) == ("meta_neighborhoods", start)
    text = (tmp_path / "runs" / "crossval" / "crossval.md").read_text()
    assert "weight decay (MN paper, MN data) | MN paper | MN data | p (MN data, MN paper) |" in text
    picture = (tmp_path / "runs" / "crossval" / "crossval.svg").read_text()
    assert ">MN paper<" in picture
    assert ">MN data<" in picture
