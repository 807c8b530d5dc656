"""Reader of a repository: models and versions that are found, and files that are refused."""

from __future__ import annotations

import codecs
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from google.protobuf import text_format

from mnserve.engines.base import EngineOptions
from mnserve.errors import (
    CorruptModelError,
    EngineLoadError,
    ModelConfigError,
    ModelNotFoundError,
    RepositoryNotFoundError,
    VersionNotFoundError,
)
from mnserve.models.loading import LoadOptions, load
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository import reader
from mnserve.repository.listing import list_models
from mnserve.repository.model_files import verify
from mnserve.repository.reader import list_versions, read_model, served_versions
from mnserve.text.text_files import MAX_BYTES

WriteModel = Callable[..., Path]


def test_models_and_versions_are_listed_in_order(repository: Path, double_model: WriteModel) -> None:
    double_model("b")
    double_model("a")
    double_model("a", version=10)
    double_model("a", version=2)
    for name in (".staging", "a/.3", "a/03", "a/0", "a/-1", "a/latest"):
        (repository / name).mkdir()
    (repository / "README.txt").write_text("not a model")
    (repository / "a" / "7").write_text("not a folder")
    assert list_models(repository) == ["a", "b"]
    assert list_versions(repository, "a") == [1, 2, 10]
    files = read_model(repository, "a")
    assert (files.name, files.version, files.config.name) == ("a", 10, "a")
    assert files.model_path == repository / "a" / "10" / "model.onnx"
    assert files.export is None
    assert read_model(repository, "a", 2).version == 2


def test_configuration_and_export_are_read(repository: Path, double_model: WriteModel) -> None:
    folder = double_model("m", config='max_batch_size: 8 parameters { key: "k" value { string_value: "v" } }')
    (folder / "1" / "export.json").write_text('{"schema": 1}')
    files = read_model(repository, "m")
    assert files.config.max_batch_size == 8
    assert files.config.parameters["k"].string_value == "v"
    assert files.export == {"schema": 1}


def test_the_configuration_can_name_the_model_file(repository: Path, double_model: WriteModel) -> None:
    folder = double_model("m", config='default_model_filename: "net.onnx"')
    (folder / "1" / "model.onnx").rename(folder / "1" / "net.onnx")
    assert read_model(repository, "m").model_path.name == "net.onnx"


@pytest.mark.parametrize("file", ["model.onnx", "net.onnx"])
def test_a_model_may_be_a_folder_with_its_external_data(repository: Path, double_model: WriteModel, file: str) -> None:
    folder = double_model("m", config=f'default_model_filename: "{file}"') / "1"
    weights = onnx.numpy_helper.from_array(np.full(4, 2, np.float32), "two")
    model = onnx.load(folder / "model.onnx")
    model.graph.initializer.append(weights)
    model.graph.node[0].op_type = "Mul"
    model.graph.node[0].input[1] = "two"
    (folder / "model.onnx").unlink()
    (folder / file).mkdir()
    (folder / file / "readme").touch()
    with pytest.raises(CorruptModelError, match=rf"{file}/model\.onnx is missing; there is readme; put"):
        read_model(repository, "m")
    (folder / file / "other.onnx").touch()
    with pytest.raises(CorruptModelError, match=r"but there is other\.onnx: rename it to model\.onnx"):
        read_model(repository, "m")
    onnx.save(model, folder / file / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    (folder / "export.json").write_text('{"schema": 1}')
    files = read_model(repository, "m")
    assert files.model_path == folder / file / "model.onnx"
    assert (files.version_folder, files.export) == (folder, {"schema": 1})
    loaded = load(repository, "m", 1, LoadOptions(engine=EngineOptions(intra_op_threads=1)))
    (y,) = loaded.engine.run({"x": np.ones((1, 4), np.float32)}, ["y"])
    assert y.tolist() == [[2.0] * 4]
    loaded.engine.close()
    (folder / file / "weights.bin").unlink()
    with pytest.raises(EngineLoadError):
        load(repository, "m", 1, LoadOptions(engine=EngineOptions(intra_op_threads=1)))


def test_a_model_file_of_another_name_is_pointed_out(repository: Path, double_model: WriteModel) -> None:
    folder = double_model("m")
    (folder / "1" / "model.onnx").rename(folder / "1" / "net.onnx")
    with pytest.raises(CorruptModelError, match=r"is missing, but there is net\.onnx: name it with default_model_file"):
        read_model(repository, "m")
    (folder / "config.pbtxt").write_text('default_model_filename: "net.onnx"')
    assert read_model(repository, "m").model_path.name == "net.onnx"


def test_a_missing_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RepositoryNotFoundError, match="does not exist"):
        list_models(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(RepositoryNotFoundError, match="is not a folder"):
        read_model(tmp_path / "file", "m")


@pytest.mark.parametrize("name", ["c", "", ".", "..", "../m", "m/1", ".hidden", "m\0"])
def test_names_that_are_no_models_are_not_found(repository: Path, double_model: WriteModel, name: str) -> None:
    double_model("m")
    (repository / ".hidden" / "1").mkdir(parents=True)
    with pytest.raises(ModelNotFoundError, match="it has m"):
        read_model(repository, name)


def test_a_missing_version_is_refused(repository: Path, double_model: WriteModel) -> None:
    double_model("m")
    with pytest.raises(VersionNotFoundError, match="no version 4; it has 1"):
        read_model(repository, "m", 4)
    (repository / "empty").mkdir()
    with pytest.raises(ModelNotFoundError, match="empty/1/"):
        read_model(repository, "empty")
    (repository / "empty" / "config.pbtxt").touch()
    with pytest.raises(VersionNotFoundError, match="empty/1/"):
        read_model(repository, "empty")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("max_batch_size: many", "does not parse"),
        ("no_such_field: 1", "no_such_field"),
        ('name: "other"', "'other'"),
    ],
)
def test_a_malformed_configuration_is_refused(
    repository: Path, double_model: WriteModel, config: str, words: str
) -> None:
    double_model("m", config=config)
    with pytest.raises(ModelConfigError, match=words):
        read_model(repository, "m")


def test_a_line_of_any_length_leaves_the_message_short(repository: Path, double_model: WriteModel) -> None:
    double_model("m", config="max_batch_size: " + "{" * 100_000)
    with pytest.raises(ModelConfigError, match="does not parse: 1:17 : ") as fault:
        read_model(repository, "m", 1)
    assert len(str(fault.value)) < 500
    assert str(fault.value).endswith("Couldn't parse integer: {")


def test_a_config_pbtxt_that_is_no_text_is_refused(repository: Path, double_model: WriteModel) -> None:
    (double_model("m") / "config.pbtxt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelConfigError, match="cannot be read: it is UTF-16"):
        read_model(repository, "m")


NO_FILES: list[tuple[Callable[[Path], object], str]] = [
    (lambda path: path.symlink_to(path.with_name("gone")), "is a link that points to nothing"),
    (lambda path: path.symlink_to(path), "is a link that points to nothing"),
    (Path.mkdir, "is a folder"),
    (os.mkfifo, "is no regular file"),
]


@pytest.mark.parametrize(("make", "words"), NO_FILES)
def test_a_config_pbtxt_that_is_no_regular_file_is_refused(
    repository: Path, double_model: WriteModel, make: Callable[[Path], object], words: str
) -> None:
    path = double_model("m") / "config.pbtxt"
    path.unlink(missing_ok=True)
    make(path)
    with pytest.raises(ModelConfigError, match=rf"model 'm': .*config\.pbtxt {words}; put the file there"):
        read_model(repository, "m")


@pytest.mark.parametrize(("make", "words"), [case for case in NO_FILES if case[0] is not Path.mkdir])
def test_a_model_file_that_is_no_regular_file_is_refused(
    repository: Path, double_model: WriteModel, make: Callable[[Path], object], words: str
) -> None:
    path = double_model("m") / "1" / "model.onnx"
    path.unlink()
    make(path)
    with pytest.raises(CorruptModelError, match=rf"model 'm' version 1: .*model\.onnx {words}; put the model there"):
        read_model(repository, "m")


@pytest.mark.parametrize(("make", "words"), NO_FILES)
def test_an_export_json_that_is_no_regular_file_is_refused(
    repository: Path, double_model: WriteModel, make: Callable[[Path], object], words: str
) -> None:
    make(double_model("m") / "1" / "export.json")
    with pytest.raises(CorruptModelError, match=rf"model 'm': .*export\.json {words}; restore the file"):
        read_model(repository, "m")


def test_a_configuration_may_be_a_link(repository: Path, double_model: WriteModel, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("max_batch_size: 3")
    path = double_model("m") / "config.pbtxt"
    path.unlink(missing_ok=True)
    path.symlink_to(tmp_path / "elsewhere")
    assert read_model(repository, "m").config.max_batch_size == 3


@pytest.mark.parametrize("text", ["{", "[1]", "\udcff", pytest.param("[" * 100_000, id="deep")])
def test_an_unreadable_export_file_is_refused(repository: Path, double_model: WriteModel, text: str) -> None:
    (double_model("m") / "1" / "export.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(CorruptModelError, match="export it again"):
        read_model(repository, "m")


def test_a_missing_model_file_is_refused(repository: Path, double_model: WriteModel) -> None:
    (double_model("m") / "1" / "model.onnx").unlink()
    with pytest.raises(
        CorruptModelError, match=r"model\.onnx is missing; put the model there as an ONNX file, or export"
    ):
        read_model(repository, "m")


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("", [5]),
        ("latest { num_versions: 1 }", [5]),
        ("latest { num_versions: 2 }", [3, 5]),
        ("latest { num_versions: 9 }", [1, 3, 5]),
        ("all { }", [1, 3, 5]),
        ("specific { versions: [3, 1] }", [1, 3]),
    ],
)
def test_the_version_policy_selects_versions(policy: str, expected: list[int]) -> None:
    config = text_format.Parse(f"version_policy {{ {policy} }}" if policy else "", ModelConfig())
    assert served_versions(config, [1, 3, 5]) == expected
    assert served_versions(ModelConfig(), []) == []


@pytest.mark.parametrize("file_name", ["a\0b", "\ud800", "../model.onnx", ""])
def test_digests_of_names_that_are_no_plain_file_names_are_refused(
    repository: Path, double_model: WriteModel, file_name: str
) -> None:
    folder = double_model("m")
    (folder / "1" / "export.json").write_text(json.dumps({"sha256": {file_name: "0"}}))
    with pytest.raises(CorruptModelError, match="is not a plain file name"):
        verify(read_model(repository, "m"))


def test_a_version_policy_that_names_a_missing_version_is_refused() -> None:
    config = text_format.Parse("version_policy { specific { versions: [2] } }", ModelConfig())
    with pytest.raises(ModelConfigError, match=r"names \[2\]"):
        served_versions(config, [1])


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8], ids=["plain", "marked"])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
def test_text_files_may_have_a_byte_order_mark_and_any_line_ends(
    repository: Path, double_model: WriteModel, mark: bytes, line_end: bytes
) -> None:
    folder = double_model("m")
    (folder / "config.pbtxt").write_bytes(mark + b"# comment" + line_end + b"max_batch_size: 7" + line_end)
    (folder / "1" / "export.json").write_bytes(mark + b'{"form":' + line_end + b'"vanilla"}')
    files = read_model(repository, "m")
    assert files.config.max_batch_size == 7
    assert files.export == {"form": "vanilla"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("max_batch_size: 7".encode("utf-16"), "it is UTF-16; save it as UTF-8"),
        (codecs.BOM_UTF16_BE + "max_batch_size: 7".encode("utf-16-be"), "it is UTF-16; save it as UTF-8"),
        (b"# caf\xe9", "it is not UTF-8 at byte 6; save it as UTF-8"),
        (b"#" * (MAX_BYTES + 1), f"it has more than {MAX_BYTES} bytes"),
    ],
    ids=["UTF-16", "UTF-16BE", "Latin-1", "large"],
)
def test_text_files_that_cannot_be_read_are_refused_with_the_remedy(
    repository: Path, double_model: WriteModel, content: bytes, words: str
) -> None:
    folder = double_model("m")
    (folder / "1" / "export.json").write_bytes(content)
    with pytest.raises(CorruptModelError, match=words):
        read_model(repository, "m")
    (folder / "config.pbtxt").write_bytes(content)
    with pytest.raises(ModelConfigError, match=words):
        read_model(repository, "m")


def test_version_numbers_beyond_18_digits_are_skipped(repository: Path, double_model: WriteModel) -> None:
    double_model("m")
    (repository / "m" / ("9" * 19)).mkdir()
    (repository / "m" / ("9" * 18)).mkdir()
    assert list_versions(repository, "m") == [1, 10**18 - 1]


def test_names_that_are_too_long_are_refused(repository: Path, double_model: WriteModel) -> None:
    long = "a" * 300
    with pytest.raises(RepositoryNotFoundError, match="File name too long"):
        list_models(repository / long)
    with pytest.raises(ModelNotFoundError):
        read_model(repository, long)
    double_model("m", config=f'default_model_filename: "{long}"')
    with pytest.raises(CorruptModelError, match="is missing"):
        read_model(repository, "m")


def test_a_model_that_vanishes_meanwhile_is_not_found(
    repository: Path, double_model: WriteModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(double_model("m"))
    monkeypatch.setattr(reader, "is_folder", lambda path: True)  # it was there a moment ago
    with pytest.raises(ModelNotFoundError, match="is gone; publish it again"):
        list_versions(repository, "m")
