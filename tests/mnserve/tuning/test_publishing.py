"""The file in its place: whole, checked, with the old one kept; and the repository in which candidates are tried."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mnserve.engines.base import EngineOptions
from mnserve.errors import OutputError, TuningError
from mnserve.models.loading import LoadOptions, load
from mnserve.tuning.candidate_repository import CandidateRepository
from mnserve.tuning.publishing import publish, read_text

OPTIONS = EngineOptions(intra_op_threads=1)
OLD, NEW = "# mine\nmax_batch_size: 8\n", "max_batch_size: 16\n"


@pytest.fixture
def model(repository: Path, double_model: Callable[..., Path]) -> Path:
    """Folder of the model ``m``, whose configuration says OLD."""
    return double_model("m", config=OLD)


def put(model: Path, before: str | None, text: str) -> Path | None:
    with CandidateRepository.of(model.parent, model.name) as candidates:
        return publish(model, before, text, candidates, OPTIONS)


def files(model: Path) -> list[str]:
    return sorted(entry.name for entry in model.iterdir())


def test_the_old_file_is_kept_with_its_comments(model: Path) -> None:
    (model / "config.pbtxt").chmod(0o640)
    kept = put(model, OLD, NEW)
    assert kept is not None
    assert (kept.name, kept.read_text()) == ("config.pbtxt.before-tune", OLD)
    assert (model / "config.pbtxt").read_text() == NEW
    assert stat.S_IMODE((model / "config.pbtxt").stat().st_mode) == 0o640
    again = put(model, NEW, OLD)
    assert again is not None
    assert (again.name, again.read_text(), kept.read_text()) == ("config.pbtxt.before-tune-2", NEW, OLD)
    assert files(model) == ["1", "config.pbtxt", "config.pbtxt.before-tune", "config.pbtxt.before-tune-2"]


def test_a_file_that_was_not_there_is_made(model: Path) -> None:
    (model / "config.pbtxt").unlink()
    assert read_text(model) is None
    assert put(model, None, NEW) is None
    assert read_text(model) == NEW
    assert files(model) == ["1", "config.pbtxt"]


def test_line_ends_are_kept_to_the_last_byte(model: Path) -> None:
    (model / "config.pbtxt").write_bytes(b"# a\r\nmax_batch_size: 8")
    kept = put(model, read_text(model), NEW)
    assert kept is not None
    assert kept.read_bytes() == b"# a\r\nmax_batch_size: 8"


@pytest.mark.parametrize(
    "text",
    [
        "max_batch_size: -1",
        "max_batch_size: 8 instance_group { count: 99 }",
        'max_batch_size: 8 name: "other"',
        "}",
    ],
)
def test_a_configuration_that_a_server_would_refuse_is_never_written(model: Path, text: str) -> None:
    with pytest.raises(
        TuningError, match=r"the configuration that was found would be refused \(model 'm'.*\); nothing was written"
    ):
        put(model, OLD, text)
    assert (files(model), read_text(model)) == (["1", "config.pbtxt"], OLD)


@pytest.mark.parametrize("now", ["max_batch_size: 9", None])
def test_a_file_that_changed_meanwhile_is_left_alone(model: Path, now: str | None) -> None:
    (model / "config.pbtxt").unlink()
    if now is not None:
        (model / "config.pbtxt").write_text(now)
    with pytest.raises(TuningError, match="was changed while this measured"):
        put(model, OLD, NEW)
    assert read_text(model) == now


def test_a_failed_write_leaves_the_old_file(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(OutputError, match="No space left on device"):
        put(model, OLD, NEW)
    assert (files(model), read_text(model)) == (["1", "config.pbtxt"], OLD)


def test_a_file_that_is_no_text_is_a_sentence(model: Path) -> None:
    (model / "config.pbtxt").write_bytes(b"\xff")
    with pytest.raises(TuningError, match=r"cannot read .*config\.pbtxt .*; repair it"):
        read_text(model)


def test_candidates_are_tried_on_the_same_files_with_another_configuration(model: Path) -> None:
    (model / "labels.txt").write_text("a\n")
    (model / ".hidden").write_text("a\n")
    with CandidateRepository.of(model.parent, "m") as candidates:
        assert files(candidates.root / "m") == ["1", "labels.txt"]
        candidates.configure(NEW)
        assert load(candidates.root, "m", 1, LoadOptions(engine=OPTIONS)).config.max_batch_size == 16
        candidates.configure(None)
        assert load(candidates.root, "m", 1, LoadOptions(engine=OPTIONS)).config.max_batch_size == 32
    assert not candidates.root.exists()
    assert read_text(model) == OLD
    assert (model / "1" / "model.onnx").exists()


def test_candidates_bring_copies_of_the_warm_up_samples(model: Path) -> None:
    """Servers refuse samples that are links out of the model's folder."""
    sample = 'inputs { key: "x" value { data_type: TYPE_FP32 dims: 4 input_data_file: "x.raw" } }'
    (model / "warmup").mkdir()
    (model / "warmup" / "x.raw").write_bytes(np.ones(4, np.float32).tobytes())
    with CandidateRepository.of(model.parent, "m") as candidates:
        candidates.configure(f'max_batch_size: 8 model_warmup {{ name: "one" batch_size: 1 {sample} }}')
        load(candidates.root, "m", 1, LoadOptions(engine=OPTIONS)).engine.close()


def test_a_full_disk_under_the_temporary_repository_is_a_sentence(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkdtemp", full)
    with (
        pytest.raises(OutputError, match=r"cannot make a temporary repository in .*: No space left on device"),
        CandidateRepository.of(model.parent, "m"),
    ):
        pass
