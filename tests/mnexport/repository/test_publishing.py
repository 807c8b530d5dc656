"""Publishing without tracing: versions, the lock, and the state of the repository after a failure."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from mnexport.errors import PublishError, UsageError
from mnexport.repository.model_card import ModelCard
from mnexport.repository.publishing import locked, publishing
from mnexport.repository.target import MAX_VERSION, Target, check_target, versions
from mnexport.signature import InputType, image_signature
from mntrain import atomic_files
from mntrain.artifact_config import InputSpec


def card(
    *,
    input_type: InputType = "uint8",
    labels: tuple[str, ...] = ("a", "b"),
    form: str = "vanilla",
    max_batch_size: int = 4,
    description: dict[str, Any] | None = None,
) -> ModelCard:
    signature = image_signature(InputSpec(channels=1, height=8, width=8), labels, input_type)
    if description is not None:
        signature = replace(signature, description=description)
    return ModelCard(signature=signature, max_batch_size=max_batch_size, family="vanilla", form=form)


def publish(target: Target, what: ModelCard, *, before: Callable[[], object] = lambda: None) -> int:
    """Publish a model as the pipeline does; ``before`` runs when the files are written."""
    with locked(target):
        number = check_target(target, what)
        with publishing(target, number, what) as folder:
            (folder / "model.onnx").write_text(f"{what.signature.input_type} {what.form}")
            (folder / "export.json").write_text(json.dumps(what.to_dict()))
            before()
    return number


def everything_below(folder: Path) -> set[str]:
    return {str(item.relative_to(folder)) for item in folder.rglob("*")}


def content(folder: Path) -> dict[str, bytes]:
    return {str(item.relative_to(folder)): item.read_bytes() for item in folder.rglob("*") if item.is_file()}


@pytest.fixture
def target(repository: Path) -> Target:
    return Target(repository=repository, name="m")


@pytest.fixture
def broken_rename(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """``broken_rename("config.pbtxt")``: from now on nothing can be put there."""

    def breaks(name: str) -> None:
        replace, rename = Path.replace, Path.rename

        def fail(original: Callable[[Path, Path], Path]) -> Callable[[Path, Path], Path]:
            def run(self: Path, to: Path) -> Path:
                if Path(to).name == name:
                    raise OSError(5, "Input/output error")
                return original(self, to)

            return run

        monkeypatch.setattr(Path, "replace", fail(replace))
        monkeypatch.setattr(Path, "rename", fail(rename))

    return breaks


def test_exports_at_once_get_a_version_each(tmp_path: Path) -> None:
    target = Target(repository=tmp_path / "new" / "repository", name="m")
    count = 24
    start = threading.Barrier(count)

    def run(index: int) -> tuple[int, str]:
        start.wait()
        return publish(target, card(form=f"form{index}")), f"uint8 form{index}"

    with ThreadPoolExecutor(count) as pool:
        found = dict(pool.map(run, range(count)))
    assert sorted(found) == list(range(1, count + 1))
    assert {number: (target.folder / str(number) / "model.onnx").read_text() for number in found} == found
    assert [item.name for item in target.repository.iterdir()] == ["m"], "no lock and no half-done folder is left"


def test_an_export_that_fails_leaves_not_even_the_repository(tmp_path: Path) -> None:
    target = Target(repository=tmp_path / "new" / "repository", name="m")

    def fail() -> None:
        assert everything_below(tmp_path / "new") > {"repository", "repository/.m.lock"}
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        publish(target, card(), before=fail)
    assert everything_below(tmp_path) == set()


def test_the_lock_admits_one_at_a_time(tmp_path: Path) -> None:
    target = Target(repository=tmp_path / "new" / "repository", name="m")
    inside, most = [0], [0]

    def run(_: int) -> None:
        with locked(target):
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            assert (target.repository / ".m.lock").exists()
            threading.Event().wait(0.001)
            inside[0] -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(200)))
    assert most == [1]
    assert everything_below(tmp_path) <= {"new", "new/repository"}, "no lock is left"


def test_models_do_not_wait_for_each_other(repository: Path) -> None:
    with locked(Target(repository=repository, name="a")), locked(Target(repository=repository, name="b")):
        assert everything_below(repository) == {".a.lock", ".b.lock"}


def test_a_repository_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for repository, words in (
        (Path("/proc"), r"/proc/m cannot be written: .*\. Nothing was published"),
        (file, "is a file, not a model repository"),
        (file / "below", "cannot be written: Not a directory"),
    ):
        with pytest.raises(PublishError, match=words), locked(Target(repository=repository, name="m")):
            pytest.fail("locked what cannot be locked")


def test_a_model_that_cannot_be_written_is_noticed_before_the_work(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(target, card())
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != target.folder)
    with pytest.raises(PublishError, match=r"cannot be written: Permission denied"):
        check_target(target, card())


def test_a_file_in_place_of_the_model_is_noticed_before_the_work(target: Target) -> None:
    target.folder.write_text("")
    with pytest.raises(PublishError, match="is a file, not the folder of a model"):
        check_target(target, card())


def config_parameter(target: Target, parameter: str) -> str:
    """Read a parameter of ``config.pbtxt``."""
    config = (target.folder / "config.pbtxt").read_text()
    return text_format.Parse(config, model_config_pb2.ModelConfig()).parameters[parameter].string_value


def test_the_description_is_true_of_every_version(target: Target) -> None:
    publish(target, card(form="explicit"))
    assert (config_parameter(target, "mn.family"), config_parameter(target, "mn.form")) == ("vanilla", "explicit")
    assert publish(target, card(form="factored")) == 2
    assert (config_parameter(target, "mn.family"), config_parameter(target, "mn.form")) == (
        "vanilla", "explicit (version 1), factored (version 2)",
    )  # fmt: skip
    publish(Target(repository=target.repository, name="m", version=1, overwrite=True), card(form="factored"))
    assert (target.folder / "config.pbtxt").read_text() == card(form="factored").config_pbtxt("m")
    assert everything_below(target.folder) == {
        "config.pbtxt", "labels.txt", "1", "1/model.onnx", "1/export.json", "2", "2/model.onnx", "2/export.json",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_batch_size": 9}, r"version 1 has max_batch_size 4, this export 9;.*give --max-batch-size 4, or"),
        ({"description": {"layout": "x"}}, r"version 1 has input .*NCHW.*, this export .*another name"),
        ({"labels": ("x", "y")}, r"version 1 has labels \['a', 'b'\], .*another name"),
        ({"input_type": "float32"}, r"version 1 has inputs .*UINT8.*FP32.*another name"),
    ],
)
@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "of an export.json without max_batch_size"])
def test_a_version_that_the_description_would_not_fit_is_refused(
    target: Target, changes: dict[str, Any], words: str, recorded: bool
) -> None:
    publish(target, card())
    if not recorded:
        file = target.folder / "1" / "export.json"
        file.write_text(json.dumps({key: value for key, value in card().to_dict().items() if key != "max_batch_size"}))
    before = content(target.repository)
    with pytest.raises(PublishError, match=words):
        check_target(target, card(**changes))
    with pytest.raises(PublishError, match=words):
        publish(Target(repository=target.repository, name="m", version=5, overwrite=True), card(**changes))
    assert content(target.repository) == before
    publish(Target(repository=target.repository, name="m", version=1, overwrite=True), card(**changes))
    assert (target.folder / "config.pbtxt").read_text() == card(**changes).config_pbtxt("m")


def test_all_files_are_there_before_the_first_of_them_appears(target: Target) -> None:
    publish(target, card())
    before = content(target.folder)

    def seen() -> None:
        visible = {name: text for name, text in content(target.folder).items() if not name.startswith(".")}
        assert visible == before
        staged = {Path(name).name for name in content(target.folder) if name.startswith(".")}
        assert staged == {"model.onnx", "export.json", "config.pbtxt"}, "labels.txt has not changed"

    publish(target, card(form="factored"), before=seen)


@pytest.mark.parametrize("changes", [{"input_type": "float32"}, {"labels": ("x", "y", "z")}, {"max_batch_size": 9}])
def test_another_interface_replaces_the_whole_model_in_one_step(
    target: Target, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(target, card())
    (target.folder / "warmup").mkdir()
    (target.folder / "warmup" / "input").write_text("theirs")
    old, new = card(), card(**changes)
    rename, replace = Path.rename, Path.replace
    states = []

    def watched(original: Callable[[Path, Path], Any]) -> Callable[[Path, Path], Any]:
        def run(self: Path, to: Path) -> Any:
            done = original(self, to)
            files = content(target.folder) if target.folder.exists() else {}
            if "1/model.onnx" in files:
                states.append((files["1/model.onnx"].decode(), files["config.pbtxt"].decode(), files["labels.txt"]))
            return done

        return run

    monkeypatch.setattr(Path, "rename", watched(rename))
    monkeypatch.setattr(Path, "replace", watched(replace))
    monkeypatch.setattr(atomic_files, "_exchange", watched(atomic_files._exchange))
    publish(Target(repository=target.repository, name="m", version=1, overwrite=True), new)
    whole = [
        (f"{item.signature.input_type} {item.form}", item.config_pbtxt("m"), item.labels_txt().encode())
        for item in (old, new)
    ]
    assert states
    assert all(state in whole for state in states), "a model stood under a description that is not its own"
    assert states[-1] == whole[1]
    assert (target.folder / "warmup" / "input").read_text() == "theirs"
    assert {item.name for item in target.repository.iterdir()} == {"m"}


def test_files_of_others_in_the_folder_are_kept_whatever_their_names(target: Target) -> None:
    """Names may have dots; files whose names start with a dot are work in progress, and stay behind."""
    publish(target, card())
    theirs = {"notes.v1.2.txt": "a", "warmup.data/images.tar.gz": "b", "LICENSE": "c", "trailing.": "d"}
    hidden = {".1.half": "e", ".cache/f.txt": "f"}
    for name, text in (theirs | hidden).items():
        (target.folder / name).parent.mkdir(exist_ok=True)
        (target.folder / name).write_text(text)
    (target.folder / "link.txt").symlink_to("notes.v1.2.txt")

    publish(Target(repository=target.repository, name="m", version=1, overwrite=True), card(input_type="float32"))

    found = content(target.folder)
    assert {name: found[name].decode() for name in theirs} == theirs
    assert (target.folder / "link.txt").readlink() == Path("notes.v1.2.txt")
    own = {"config.pbtxt", "labels.txt", "1/model.onnx", "1/export.json", "link.txt"}
    assert found.keys() == theirs.keys() | own


@pytest.mark.parametrize("changes", [{}, {"input_type": "float32"}])
def test_a_crash_while_overwriting_leaves_the_model_as_it_was(target: Target, changes: dict[str, Any]) -> None:
    def crash() -> None:
        raise OSError(28, "No space left on device")

    publish(target, card())
    before = content(target.repository)
    again = Target(repository=target.repository, name="m", version=1, overwrite=True)
    with pytest.raises(PublishError, match=r"No space left on device\. Nothing was published"):
        publish(again, card(form="factored", **changes), before=crash)
    assert content(target.repository) == before
    assert everything_below(target.repository) == {"m", "m/1", *(f"{name}" for name in before)}


def test_a_version_that_cannot_appear_leaves_its_description_as_it_was(
    target: Target, broken_rename: Callable[[str], None]
) -> None:
    publish(target, card())
    before = content(target.repository)
    broken_rename("2")
    with pytest.raises(PublishError, match="Nothing was published"):
        publish(target, card(form="factored"))
    assert content(target.repository) == before


def test_a_description_that_cannot_be_replaced_is_reported(
    target: Target, broken_rename: Callable[[str], None]
) -> None:
    publish(target, card())
    broken_rename("config.pbtxt")
    with pytest.raises(PublishError) as caught:
        publish(target, card(form="factored"))
    message = str(caught.value)
    assert "version 2 was published, but not its config.pbtxt (Input/output error)" in message
    assert "--version 2 --overwrite" in message
    assert "Nothing" not in message
    assert versions(target.folder) == [1, 2]
    assert all(not item.name.startswith(".") for item in target.folder.iterdir())


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    "files",
    [
        {"config.pbtxt": 'name: "m"'},
        {"1/model.onnx": "theirs"},
        {"config.pbtxt": 'name: "m"', "1/model.onnx": "theirs"},
        {"1/model.onnx": "theirs", "1/export.json": "{"},
        {"1/model.onnx": "theirs", "1/export.json": "[" * 100_000},
        {"1/model.onnx": "theirs", "1/export.json": '"text"'},
        {"1/model.onnx": "theirs", "1/export.json": "{}"},
        {
            "1/model.onnx": "theirs",
            "7/export.json": json.dumps(card().to_dict()),
        },
    ],
)
def test_a_model_of_another_origin_is_never_touched(target: Target, files: dict[str, str], overwrite: bool) -> None:
    for name, text in files.items():
        (target.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (target.folder / name).write_text(text)
    before = content(target.repository)
    again = Target(repository=target.repository, name="m", version=1 if overwrite else None, overwrite=overwrite)
    with pytest.raises(PublishError, match=r"did not write.*another name"):
        publish(again, card())
    assert content(target.repository) == before


def test_an_empty_folder_becomes_the_model(target: Target) -> None:
    target.folder.mkdir()
    (target.folder / "README").write_text("notes")
    assert publish(target, card()) == 1
    assert set(content(target.folder)) == {"README", "config.pbtxt", "labels.txt", "1/model.onnx", "1/export.json"}


@pytest.mark.parametrize("number", [0, -1, MAX_VERSION + 1, 99999999999999999999999])
def test_a_version_that_no_server_counts_to_is_wrong_usage(repository: Path, number: int) -> None:
    with pytest.raises(UsageError, match=f"Version {number} is not possible"):
        Target(repository=repository, name="m", version=number)


def test_folders_that_are_no_versions_are_ignored(target: Target) -> None:
    for name in ("0", "01", "٣", "-1", "1.5", "99999999999999999999999", str(MAX_VERSION + 1), "12"):
        (target.folder / name).mkdir(parents=True)
    (target.folder / "5").write_text("a file")
    assert versions(target.folder) == [12]


def test_after_the_highest_version_there_is_no_next_one(repository: Path) -> None:
    publish(Target(repository=repository, name="m", version=MAX_VERSION), card())
    with pytest.raises(PublishError, match="highest version"):
        publish(Target(repository=repository, name="m"), card())


@pytest.mark.parametrize("label", ["", " ", "\n", "\t\u2028", "\0", "\u200b"])
def test_a_label_without_visible_letters_is_refused(label: str) -> None:
    with pytest.raises(PublishError, match=r"Class 1 is called .*visible name"):
        card(labels=("a", label))


@pytest.mark.parametrize("label", ["cat\x1b[31m", "a\0b", "\x7fa", "a\x9b2J"])
def test_a_label_that_steers_a_terminal_is_refused(label: str) -> None:
    with pytest.raises(PublishError, match=r"Class 1 is called .* control character .* without it"):
        card(labels=("a", label))
