"""A repository that changes while it is served."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mnserve.engines.base import EngineOptions
from mnserve.engines.fake import FakeEngine
from mnserve.errors import RepositoryNotFoundError, SettingsError, UnknownModelError
from mnserve.models.loading import LoadOptions
from mnserve.models.polling import Poller
from mnserve.models.registry import Models
from mnserve.settings import ServeSettings

WriteModel = Callable[..., Path]


async def test_changes_on_disk_load_and_unload_models(repository: Path, double_model: WriteModel) -> None:
    stays, goes = double_model("stays"), double_model("goes")
    models = Models(repository, LoadOptions(engine=EngineOptions(intra_op_threads=1)))
    poller = Poller(repository, models, 1)
    await poller.look()
    await models.load_all()
    first = models.find("stays")
    await poller.poll()
    assert models.find("stays") is first, "nothing has changed"

    double_model("new")
    double_model("stays", version=2)
    shutil.rmtree(goes)
    await poller.poll()
    assert sorted(state.name for state in models.states()) == ["new", "stays"]
    assert models.find("stays").model.version == 2

    second = models.find("stays")
    (stays / "3").mkdir()
    (stays / "3" / "model.onnx").write_bytes(b"garbage")
    (stays / ".publishing").mkdir()
    await poller.poll()
    assert models.find("stays") is second
    (stays / "3" / "model.onnx").write_bytes((stays / "2" / "model.onnx").read_bytes())
    await poller.poll()
    assert models.find("stays").model.version == 3

    third = models.find("stays")
    config = stays / "config.pbtxt"
    text = config.read_text() if config.exists() else ""
    config.write_text(text + "max_batch_size: 3\n")
    os.utime(config, ns=(1, 1))
    await poller.poll()
    assert models.find("stays") is not third
    assert models.find("stays").model.signature.max_batch_size == 3

    (stays / "4" / "model.onnx").mkdir(parents=True)
    (stays / "3" / "model.onnx").rename(stays / "4" / "model.onnx" / "model.onnx")
    await poller.poll()
    fourth = models.find("stays")
    assert fourth.model.version == 4
    (stays / "4" / "model.onnx" / "weights.bin").write_bytes(b"external data")
    await poller.poll()
    assert models.find("stays") is not fourth
    assert await models.drain(20)


async def test_a_model_that_cannot_be_loaded_is_tried_once_a_change(
    repository: Path, double_model: WriteModel, caplog: pytest.LogCaptureFixture
) -> None:
    models = Models(repository, LoadOptions(engine=EngineOptions(intra_op_threads=1)))
    poller = Poller(repository, models, 1)
    await poller.look()
    await models.load_all()
    (double_model("m") / "1" / "model.onnx").write_bytes(b"garbage")
    for _ in range(3):
        await poller.poll()
    assert caplog.text.count("model 'm' version 1 cannot be served") == 1
    assert [state.ready for state in models.states()] == [False]


async def test_a_repository_that_is_gone_keeps_what_is_served(repository: Path, double_model: WriteModel) -> None:
    double_model("m")
    models = Models(repository, LoadOptions(engine=EngineOptions(intra_op_threads=1)))
    poller = Poller(repository, models, 1)
    await poller.look()
    await models.load_all()
    shutil.rmtree(repository)
    with pytest.raises(RepositoryNotFoundError):
        await poller.poll()
    assert models.is_ready("m")
    assert await models.drain(20)


async def test_an_unexpected_fault_of_one_model_leaves_the_others(
    repository: Path, double_model: WriteModel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    models = Models(repository, LoadOptions(engine=EngineOptions(intra_op_threads=1)))
    poller = Poller(repository, models, 1)
    await poller.look()
    for name in ("bad", "good"):
        double_model(name)
    load = models.load

    async def fail_once(name: str) -> None:
        if name == "bad":
            raise RuntimeError("nobody thought of this")
        await load(name)

    monkeypatch.setattr(models, "load", fail_once)
    await poller.poll()
    assert models.is_ready("good")
    assert "nobody thought of this" in caplog.text
    assert await models.drain(20)


async def test_an_unmounted_drive_keeps_what_is_served(
    repository: Path, double_model: WriteModel, caplog: pytest.LogCaptureFixture
) -> None:
    double_model("m")
    models = Models(repository, LoadOptions(engine=EngineOptions(intra_op_threads=1)), empty_is_ready=False)
    poller = Poller(repository, models, 1)
    await poller.look()
    await models.load_all()
    served = models.find("m")
    mounted = repository.rename(repository.with_name("drive"))
    repository.mkdir()
    (repository / "lost+found").mkdir()
    for _ in range(2):
        await poller.poll()
    assert models.ready
    assert models.find("m") is served
    assert caplog.text.count("no model is left in the repository") == 2
    assert caplog.text.count("left out of the model repository: 'lost+found'") == 1
    (repository / "lost+found").rmdir()
    repository.rmdir()
    mounted.rename(repository)
    await poller.poll()
    assert models.find("m") is served, "the same files are not loaded again"
    assert await models.drain(20)


@pytest.mark.parametrize("kind", ["folder", "link"])
async def test_a_model_on_an_unmounted_drive_stays(
    repository: Path, double_model: WriteModel, kind: str, tmp_path: Path
) -> None:
    double_model("other")
    drive = double_model("m").rename(tmp_path / "drive")
    (repository / "m").symlink_to(drive)
    models = Models(repository, LoadOptions(engine=EngineOptions(intra_op_threads=1)))
    poller = Poller(repository, models, 1)
    await poller.look()
    await models.load_all()
    drive.rename(tmp_path / "elsewhere")
    if kind == "folder":
        drive.mkdir()
    await poller.poll()
    await poller.poll()
    assert models.ready
    assert models.is_ready("m")
    (repository / "m").unlink()
    await poller.poll()
    assert [state.name for state in models.states()] == ["other"]
    assert await models.drain(20)


async def test_the_last_models_go_where_an_empty_repository_is_allowed_or_none_is_served(
    repository: Path, double_model: WriteModel
) -> None:
    for allow_empty, write in (
        (True, double_model),
        (False, lambda name: (repository / name / "1").mkdir(parents=True)),
    ):
        write("m")
        models = Models(repository, LoadOptions(engine=EngineOptions(intra_op_threads=1)), empty_is_ready=allow_empty)
        poller = Poller(repository, models, 1, allow_empty=allow_empty)
        await poller.look()
        await models.load_all()
        assert models.ready is allow_empty
        shutil.rmtree(repository / "m")
        await poller.poll()
        assert not models.states()
        assert models.ready is allow_empty
        assert await models.drain(20)


async def test_a_stray_folder_is_no_model_before_or_after_it_appears(
    repository: Path, double_model: WriteModel, caplog: pytest.LogCaptureFixture
) -> None:
    double_model("m")
    (repository / "__pycache__").mkdir()
    models = Models(repository, LoadOptions(engine=EngineOptions(intra_op_threads=1)))
    poller = Poller(repository, models, 1)
    await poller.look()
    await models.load_all()
    (repository / "notes").mkdir()
    for _ in range(2):
        await poller.poll()
    assert [state.name for state in models.states()] == ["m"]
    assert models.ready
    assert [record.getMessage() for record in caplog.records if "left out" in record.getMessage()] == [
        "left out of the model repository: '__pycache__' (a folder of the system)",
        "left out of the model repository: 'notes' (neither a version folder, such as notes/1, nor a config.pbtxt)",
    ]
    with pytest.raises(UnknownModelError, match="neither a version folder nor a"):
        await models.load("notes")
    assert models.ready
    assert await models.drain(20)


async def test_polling_goes_on_after_a_fault(
    repository: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    poller, looks = Poller(repository, Models(repository, LoadOptions()), 0.001), asyncio.Semaphore(0)

    async def poll() -> None:
        looks.release()
        raise OSError("a disk that stumbles")

    monkeypatch.setattr(poller, "poll", poll)
    polling = asyncio.ensure_future(poller.run())
    async with asyncio.timeout(10):
        for _ in range(3):
            await looks.acquire()
    polling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await polling
    assert "a disk that stumbles" in caplog.text


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"load_model": ("m",)}, "--load-model goes with --model-control explicit"),
        ({"model_control": "poll", "poll_seconds": 0.0}, "--poll-seconds is 0.0"),
        (
            {"model_control": "explicit", "providers": ("cuda", "cpu"), "cuda_graph_batches": (1,)},
            "--cuda-graph-batches goes with --model-control none",
        ),
    ],
)
def test_contradictory_options_of_model_control_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        ServeSettings(repository="r", **fields)


async def test_a_model_deleted_during_a_poll_is_unloaded_by_the_next(
    repository: Path, double_model: WriteModel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The model is deleted after the poll lists the models and before it lists the files of this one."""
    double_model("stays")
    goes = double_model("goes")
    models = Models(repository, LoadOptions(engine=EngineOptions(intra_op_threads=1)))
    poller = Poller(repository, models, 1)
    await poller.look()
    await models.load_all()
    scan = os.scandir

    def scan_late(path: Any) -> Any:
        if not isinstance(path, int) and Path(path) == goes and goes.exists():
            goes.rename(goes.with_name(".deleted"))
        return scan(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", scan_late)
        await poller.poll()
    assert models.is_ready("goes"), "half a look is no reason to unload it"
    assert models.is_ready("stays")
    await poller.poll()
    assert sorted(state.name for state in models.states()) == ["stays"]
    assert "Traceback" not in caplog.text
    assert await models.drain(20)


async def test_a_load_that_takes_long_keeps_no_change_of_the_others_away(
    repository: Path, double_model: WriteModel, caplog: pytest.LogCaptureFixture
) -> None:
    gate, config = threading.Event(), "max_batch_size: 2"
    double_model("served", config=config)

    def engine(path: Path, options: EngineOptions) -> FakeEngine:
        return FakeEngine(gate=gate if "hangs" in path.parts else None)

    models = Models(repository, LoadOptions(factory=engine))
    poller = Poller(repository, models, 1, patience=0.1)
    await poller.look()
    await models.load_all()
    hangs = double_model("hangs", config=config)
    double_model("new", config=config)
    await poller.poll()
    assert models.is_ready("new")
    assert "model 'hangs' is still being loaded" in caplog.text
    shutil.rmtree(hangs)
    shutil.rmtree(repository / "served")
    await poller.poll()
    assert [(state.name, state.ready) for state in models.states()] == [("hangs", False), ("new", True)]
    gate.set()
    async with asyncio.timeout(20):
        while not models.is_ready("hangs"):
            await asyncio.sleep(0.01)
    await poller.poll()
    assert [state.name for state in models.states()] == ["new"], "what came meanwhile is seen afterwards"
    assert await models.drain(20)
