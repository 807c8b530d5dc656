"""Push to and pull from folders: the same checks as with a hub, and nothing else is ever replaced."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mntrain.errors import ArtifactError, ConfigError
from mntrain.hub.contents import may_belong, read_contents
from mntrain.hub.place import HubRepository, read_place
from mntrain.hub.session import PullOptions, PushOptions, pull, push


def names(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def test_an_artifact_goes_to_a_folder_and_back(artifact: Path, tmp_path: Path) -> None:
    target = tmp_path / "a share" / "artifact"
    push(PushOptions(folder=artifact, target=f"file://{tmp_path}/a%20share/artifact"))
    assert names(target) == {*names(artifact), "README.md"}
    push(PushOptions(folder=artifact, target=str(target)))
    pull(PullOptions(source=str(target), folder=tmp_path / "back"))
    assert names(tmp_path / "back") == names(target)


def test_a_target_that_is_taken_stays_as_it_is(artifact: Path, models: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "thesis.tex").write_text("all of it")
    options = PullOptions(source=str(artifact), folder=target)
    with pytest.raises(ConfigError, match=r"is not empty.*--overwrite"):
        pull(options)
    with pytest.raises(ConfigError, match="is not an artifact"):
        pull(PullOptions(source=str(artifact), folder=target, overwrite=True))
    assert names(target) == {"thesis.tex"}
    with pytest.raises(ConfigError, match="is a model repository, and not an artifact"):
        pull(PullOptions(source=str(artifact), folder=models, overwrite=True))
    with pytest.raises(ConfigError, match="is a file"):
        pull(PullOptions(source=str(artifact), folder=target / "thesis.tex", overwrite=True))
    with pytest.raises(ConfigError, match=r"lies in .*which is an artifact or a model"):
        pull(PullOptions(source=str(artifact), folder=models / "digits-mn" / "2"))


@pytest.mark.parametrize("name", ["notes.txt", ".git/config"])
def test_an_artifact_with_more_in_it_is_not_replaced(artifact: Path, tmp_path: Path, name: str) -> None:
    target = tmp_path / "target"
    pull(PullOptions(source=str(artifact), folder=target))
    (target / name).parent.mkdir(exist_ok=True)
    (target / name).write_text("mine")
    with pytest.raises(ConfigError, match=r"holds \S+, which does not belong to it"):
        pull(PullOptions(source=str(artifact), folder=target, overwrite=True))
    assert name in names(target)


def test_models_are_added_beside_others(models: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    push(PushOptions(folder=models / "digits-mn", target=str(target / "digits-mn")))
    (target / "own").mkdir()
    (target / "own" / "config.pbtxt").write_text("input {}")
    push(PushOptions(folder=models, target=str(target)))
    assert {item.name for item in target.iterdir()} == {"digits-mn", "digits-plain", "own"}


def test_links_are_not_followed(artifact: Path, tmp_path: Path) -> None:
    (artifact / "model.safetensors").rename(tmp_path / "weights")
    (artifact / "model.safetensors").symlink_to(tmp_path / "weights")
    with pytest.raises(ArtifactError, match=r"model\.safetensors is a link"):
        push(PushOptions(folder=artifact, target=str(tmp_path / "out")))
    assert not (tmp_path / "out").exists()


def test_a_record_does_not_name_files_elsewhere(models: Path) -> None:
    record = models / "digits-mn" / "1" / "export.json"
    values = json.loads(record.read_text())
    values["sha256"]["../../secret"] = "0"
    record.write_text(json.dumps(values))
    with pytest.raises(ArtifactError, match="does not tell which files belong"):
        read_contents(models)


@pytest.mark.parametrize(
    ("kind", "name", "belongs"),
    [
        ("artifact", "config.json", True),
        ("artifact", "../config.json", False),
        ("artifact", ".env", False),
        ("artifact", "token.txt", False),
        ("model", "1/model.onnx", True),
        ("model", "0/model.onnx", False),
        ("model", "1/.hidden", False),
        ("model", "1/a/b", False),
        ("repository", "name/1/model.onnx", True),
        ("repository", "../1/model.onnx", False),
        ("repository", "README.md", True),
        ("repository", "name", False),
    ],
)
def test_only_files_of_ours_belong(kind: str, name: str, belongs: bool) -> None:
    assert may_belong(kind, name) == belongs  # type: ignore[arg-type]


def test_words_for_places(tmp_path: Path) -> None:
    assert read_place("me/digits", "next") == HubRepository(name="me/digits", revision="next")
    assert read_place("./me/digits") == Path("me/digits")
    for word in ("me/a/b", "a--b", "me/..", "-x", "file://elsewhere/x", "file:x"):
        with pytest.raises(ConfigError):
            read_place(word)
    with pytest.raises(ConfigError, match=r"did you mean me/digits\?"):
        read_place("https://huggingface.co/me/digits")
    with pytest.raises(ConfigError, match="no revisions"):
        read_place(str(tmp_path), "next")


@pytest.mark.parametrize("given", [{"private": True}, {"message": "x"}])
def test_options_of_the_hub_are_not_for_folders(artifact: Path, tmp_path: Path, given: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="is for repositories of the hub"):
        push(PushOptions(folder=artifact, target=str(tmp_path / "out"), **given))  # type: ignore[arg-type]
