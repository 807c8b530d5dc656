"""Targets that would mix a model with another model, a repository or an artifact."""

from pathlib import Path

import pytest

from mnexport.errors import PublishError, UsageError
from mnexport.repository.place import check_place
from mnexport.repository.target import Target


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with our model ``img``, another one without config.pbtxt, and an artifact beside it."""
    for name in (
        *("repo/img/config.pbtxt", "repo/img/1/model.onnx", "repo/img/1/export.json"),
        *("repo/other/7/model.onnx", "run/artifact/config.json", "run/artifact/model.safetensors"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path / "repo"


def target(path: Path, version: int | None = None, *, overwrite: bool = False) -> Target:
    return Target(repository=path.parent, name=path.name, version=version, overwrite=overwrite)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        (
            "img/1",
            "mnexport ARTIFACT {repo}/img; to replace a version: mnexport ARTIFACT {repo}/img --version 1 --over",
        ),
        (
            "img/2",
            "mnexport ARTIFACT {repo}/img; to replace a version: mnexport ARTIFACT {repo}/img --version 2 --over",
        ),
        ("img/more", "mnexport ARTIFACT {repo}/img"),
        ("img/1/more", "mnexport ARTIFACT {repo}/img"),
        ("img/1/new/more", "mnexport ARTIFACT {repo}/img"),
        ("other/7", "mnexport ARTIFACT {repo}/other"),
        ("other/7/m", "mnexport ARTIFACT {repo}/other"),
        ("link/1", "mnexport ARTIFACT {repo}/img"),
        (".", "mnexport ARTIFACT {repo}/NAME"),
        ("../run/artifact", "mnexport ARTIFACT repository/NAME"),
        ("../run/artifact/m", "mnexport ARTIFACT repository/NAME"),
    ],
)
def test_a_target_inside_something_else_is_refused_with_the_right_command(
    repository: Path, name: str, command: str
) -> None:
    (repository / "link").symlink_to(repository / "img")
    with pytest.raises(UsageError) as caught:
        check_place(target(repository / name))
    assert command.format(repo=repository) in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_relative_target_inside_a_model_is_refused(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository / "img")
    with pytest.raises(UsageError, match="is a model, not a repository"):
        check_place(target(Path("1")))


@pytest.mark.parametrize("name", ["img", "new", "7", "sub/new", "other"])
def test_models_new_and_old_may_be_targets(repository: Path, name: str) -> None:
    check_place(target(repository / name))
    check_place(target(repository / name, 1, overwrite=True))


def test_a_model_that_an_earlier_version_published_inside_a_version_is_not_deleted(repository: Path) -> None:
    (repository / "img" / "1" / "1").mkdir()
    check_place(target(repository / "img"))
    with pytest.raises(PublishError, match=r"img/1 holds the folder 1, which .* --overwrite would delete; move it"):
        check_place(target(repository / "img", 1, overwrite=True))


def test_the_folder_of_a_run_is_no_model(repository: Path) -> None:
    """Version folders and config.pbtxt would lie among its checkpoints."""
    with pytest.raises(UsageError, match=r"is the folder of a run .* mnexport ARTIFACT repository/run\."):
        check_place(target(repository.parent / "run"))
    check_place(target(repository.parent / "run" / "exported"))
