"""``mntrain fewshot``: from an artifact and a folder of new classes to a table, JSON and a plot."""

import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

from mntrain.commands.cli import main

QUICK = ["--ways", "3", "--queries", "4", "--episodes", "4"]
FITS = ["--finetune.epochs", "3"]
TRAINS = ["--episodic.episodes", "3"]
ALL = ["nearest", "protonet", "matching", "finetune", "static-nsn", "maml", "meta-static-nsn", "relationnet"]


def results(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["fewshot", *words, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


def test_every_method_answers_episodes_of_new_classes(
    plain_path: Path, novel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = [str(plain_path), "--data.path", str(novel), *QUICK]
    found = results(capsys, *where, *FITS, *TRAINS, "--method", ",".join(ALL))
    assert list(found["methods"]) == ALL
    assert (found["ways"], found["shots"], found["queries"], found["episodes"]) == (3, 1, 4, 4)
    assert (found["classes"], found["images"], found["trained_classes"]) == (6, 54, [])
    for method in found["methods"].values():
        assert 0 <= method["accuracy"]["mean"] <= 1
        assert method["accuracy"]["interval"] >= 0
        assert method["accuracy"]["mean"] == pytest.approx(sum(method["by_episode"]) / 4)
        assert method["trained"] == (method["training_seconds"] is not None)
    trained = [name for name, method in found["methods"].items() if method["training_seconds"] is not None]
    assert trained == ["maml", "meta-static-nsn", "relationnet"]
    assert found["methods"]["nearest"]["accuracy"] == found["methods"]["protonet"]["accuracy"], "the same at one shot"
    settings = {name: list(method["settings"]) for name, method in found["methods"].items()}
    assert settings["static-nsn"] == ["finetune"]
    assert (settings["nearest"], settings["maml"], settings["relationnet"]) == ([], ["maml", "episodic"], ["episodic"])
    assert found["methods"]["finetune"]["settings"]["finetune"]["epochs"] == 3
    alone = results(capsys, *where, *FITS, "--method", "static-nsn")
    assert alone["methods"]["static-nsn"]["accuracy"] == found["methods"]["static-nsn"]["accuracy"]
    with_training = results(capsys, *where, *TRAINS, "--method", "nearest,protonet,matching", "--train")
    methods = with_training["methods"]
    assert [methods[name]["training_seconds"] is not None for name in methods] == [False, True, True]
    assert methods["nearest"]["accuracy"] == found["methods"]["nearest"]["accuracy"], "training changes no other"


def test_colours_are_told_apart(plain_path: Path, novel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--ways", "4", "--shots", "4", "--queries", "5", "--episodes", "20", "--method", "protonet"]
    found = results(capsys, str(plain_path), "--data.path", str(novel), *words)
    assert found["methods"]["protonet"]["accuracy"]["mean"] > 0.5


def test_dynamic_nsn_takes_a_network_with_dynamic_similarity(
    dynamic_path: Path, novel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(dynamic_path), "--data.path", str(novel), *QUICK, *FITS, "--method", "dynamic-nsn,finetune"]
    found = results(capsys, *words)["methods"]
    assert found["dynamic-nsn"]["accuracy"] == found["finetune"]["accuracy"]


def test_table_progress_and_plot(
    plain_path: Path, novel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plot = tmp_path / "plots" / "fewshot.svg"
    words = ["--data.path", str(novel), *QUICK, "--method", "nearest,protonet", "--plot", str(plot)]
    assert main(["fewshot", str(plain_path), *words]) == 0
    out, err = capsys.readouterr()
    assert "3-way 1-shot accuracy on 6 new classes" in out
    assert "Mean over 4 episodes with its 95 % interval (Student's t); 4 queries of each class, seed 0." in out
    assert [line.split(" in ")[0].split(":")[0] for line in err.splitlines()] == ["1/2  nearest", "2/2  protonet"]
    assert ElementTree.fromstring(plot.read_text()).tag.endswith("svg")
    assert "protonet" in plot.read_text()


def test_classes_that_are_not_new_are_told(
    plain_path: Path, base: Path, novel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mixed = Path(shutil.copytree(novel, tmp_path / "mixed"))
    shutil.copytree(base / "b", mixed / "b")
    words = [str(plain_path), "--data.path", str(mixed), *QUICK, "--method", "nearest"]
    assert results(capsys, *words)["trained_classes"] == ["b"]
    assert main(["fewshot", *words]) == 0
    out = capsys.readouterr().out
    assert "note: 1 of 7 classes have names that the artifact was trained on ('b')" in out
    assert "3-way 1-shot accuracy on 7 classes, 1 of which the network was trained on" in " ".join(out.split())


DIVERGES = ["--finetune.learning_rate", "100", "--finetune.similarity_rate", "100", "--finetune.epochs", "30"]


def test_a_method_that_fails_does_not_stop_the_others(
    plain_path: Path, novel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["fewshot", str(plain_path), "--data.path", str(novel), *QUICK, *DIVERGES, "--method"]
    names = "static-nsn,protonet"
    assert main([*words, names, "--json", "--plot", str(tmp_path / "a.svg")]) == 1
    methods = json.loads(capsys.readouterr().out)["methods"]
    assert list(methods["static-nsn"]) == ["error"]
    assert "are not finite; lower the learning rate" in methods["static-nsn"]["error"]
    assert len(methods["protonet"]["by_episode"]) == 4
    assert "static-nsn" not in (tmp_path / "a.svg").read_text()
    assert main([*words, names]) == 1
    out, err = capsys.readouterr()
    assert "failed: static-nsn: Answers to episode 0 are not finite" in out
    assert "1/2  static-nsn failed: Answers" in err
    assert main([*words, "static-nsn", "--json", "--plot", str(tmp_path / "none.svg")]) == 1
    assert not (tmp_path / "none.svg").exists()


def test_an_interrupt_keeps_what_is_finished(
    plain_path: Path, novel: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mntrain.fewshot.finetuning import FinetunedClassifier

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(FinetunedClassifier, "classify", interrupted)
    words = ["fewshot", str(plain_path), "--data.path", str(novel), *QUICK, "--json", "--method"]
    assert main([*words, "protonet,finetune,nearest"]) == 130
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (list(found["methods"]), found["interrupted"]) == (["protonet"], True)
    assert err == "mntrain: interrupted.\n"
    assert main([*words, "finetune,protonet"]) == 130
    assert capsys.readouterr().out == ""


def test_the_place_of_a_plot_is_checked_before_the_work(
    plain_path: Path, novel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    words = ["fewshot", str(plain_path), "--data.path", str(novel), *QUICK, "--method", "nearest", "--json", "--plot"]
    with monkeypatch.context() as patch:
        patch.setattr("mntrain.fewshot.session.evaluate_few_shot", lambda options: pytest.fail("it ran"))
        assert main([*words, str(tmp_path / "file" / "a.svg")]) == 1
    assert "cannot be written" in capsys.readouterr().err

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mntrain.analysis.page_file.write_text_atomically", full)
    assert main([*words, str(tmp_path / "a.svg")]) == 1
    out, err = capsys.readouterr()
    assert len(json.loads(out)["methods"]["nearest"]["by_episode"]) == 4
    assert "No space left on device" in err


def test_one_episode_has_no_interval(plain_path: Path, novel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--data.path", str(novel), *QUICK, "--episodes", "1", "--method", "nearest"]
    assert main(["fewshot", str(plain_path), *words]) == 0
    assert "One episode, so that there is no interval; 4 queries" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (
            ["--method", "nearest", "--finetune.epochs", "3"],
            2,
            "--finetune.* is given, but nearest has no use for it; leave it out.",
        ),
        (
            ["--method", "protonet,nearest", "--maml.steps", "3"],
            2,
            "--maml.* is given, but protonet and nearest have no use for it; leave it out.",
        ),
        (
            ["--method", "protonet", "--episodic.episodes", "50"],
            2,
            "--episodic.* is given, but protonet is not trained on episodes without --train; add it, or leave it out.",
        ),
        (["--method", "nearest", "--train"], 2, "--train is given, but nearest is not trained on episodes"),
        (
            ["--method", "nearest", "--data-path", "x"],
            2,
            "--data-path is given, which is read for training on episodes alone, but nearest is not trained on",
        ),
        (
            ["--method", "relationnet", "--shots", "1", "--queries", "8", "--ways", "5"],
            2,
            "--ways is 5, but the artifact's own training images are of 4 class(es)",
        ),
        (["--method", "protonett"], 2, "--method is 'protonett'; choose from nearest, protonet"),
        (["--method", ","], 2, "--method names no method"),
        (["--method", "nearest,nearest"], 2, "names a method twice"),
        (["--queries", "4", "--method", "dynamic-nsn"], 2, "has backbone.similarity.mode 'none'; train one with"),
        (["--ways", "7"], 2, "--ways is 7, but the images are of 6 class(es)"),
        (["--shots", "5"], 1, "takes 20 images of a class (5 shots and 15 queries), but among the images there are"),
        (["--episodes", "0"], 2, "--episodes is 0"),
        (["--plot", "x.png"], 2, "--plot is 'x.png'; its name must end in .svg"),
        (["--training.epochs", "3"], 2, "--training.epochs is no setting of `mntrain fewshot`"),
        (["--data.train_limit", "3"], 2, "data.train_limit has no use for new data"),
        (["--queries", "4", "--method", "relationnet", "--data-path", "nowhere"], 1, "nowhere"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(
    words: list[str], code: int, sentence: str, plain_path: Path, novel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fewshot", str(plain_path), "--data.path", str(novel), "--json", *words]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err
    assert len(err.splitlines()) == 1


def test_images_and_artifacts_that_do_not_fit_are_refused(
    plain_path: Path, novel: Path, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refusal(*words: str) -> str:
        assert main(["fewshot", *words, "--json"]) in (1, 2)
        return capsys.readouterr().err

    assert "--data.path is not given; it must name images of classes" in refusal(str(plain_path))
    assert "There is no artifact folder nowhere" in refusal("nowhere", "--data.path", str(novel))
    recipe = refusal("mini-imagenet", "--data.path", str(novel))
    assert "'mini-imagenet' is a recipe, and few-shot methods start from a trained network: run `mntrain fit" in recipe
    words = ["--data.rows", "60", "--training.epochs", "1", "--family", "vanilla", "--name", "a"]
    assert main(["fit", "spiral", *words, "--runs", str(tmp_path), "--json"]) == 0
    capsys.readouterr()
    rows = refusal(str(tmp_path / "a" / "artifact"), "--data.path", str(novel))
    assert "holds a model of rows; few-shot learning takes an artifact of images" in rows
    Image.new("RGB", (20, 10)).save(tmp_path / "wide.png")
    (tmp_path / "wide" / "a").mkdir(parents=True)
    (tmp_path / "wide" / "b").mkdir()
    for number in range(20):
        for name in "ab":
            shutil.copy(tmp_path / "wide.png", tmp_path / "wide" / name / f"{number}.png")
    squeezed = ["--data.path", str(tmp_path / "wide"), "--ways", "2", "--method", "nearest"]
    assert main(["fewshot", str(plain_path), *squeezed, "--episodes", "1", "--json"]) == 0, (
        "brought to the input's size"
    )
    capsys.readouterr()
