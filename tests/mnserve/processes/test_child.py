"""Children: they hear messages, end with the supervisor, and no signal of its group reaches them."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mnserve.processes.child import Child
from mnserve.processes.control import Message

CHILD = """
import asyncio
from mnserve.processes.child_side import supervised

async def main(supervision):
    done = asyncio.Event()
    def take(message, fds):
        supervision.send("echo", text=message["text"])
        if message["text"] == "end":
            done.set()
    supervision.open(take)
    await done.wait()
    return 7

supervised(main)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "a_child.py").write_text(CHILD)
    monkeypatch.syspath_prepend(tmp_path)
    return "a_child"


async def test_a_child_answers_and_its_end_is_told(module: str) -> None:
    texts: asyncio.Queue[str] = asyncio.Queue()
    died: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def take(message: Message, fds: list[int]) -> None:
        texts.put_nowait(message["text"])

    child = Child(module, "child", take, died.set_result)
    async with asyncio.timeout(20):
        child.send("say", text="a")
        assert await texts.get() == "a"
        os.kill(child.pid, signal.SIGTERM)  # as for every process of a group
        os.kill(child.pid, signal.SIGINT)
        child.send("say", text="end")
        assert await texts.get() == "end"
        assert await died == 7
        assert await child.ended(1)
        other = Child(module, "child", take, lambda code: pytest.fail("was asked for"))
        other.kill()
        assert await other.ended()


async def test_files_with_names_of_modules_do_not_keep_a_child_from_starting(module: str, tmp_path: Path) -> None:
    (tmp_path / "re.py").write_text("raise RuntimeError('another re')")
    died: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    child = Child(module, "child", lambda message, fds: None, died.set_result)
    child.send("say", text="end")
    async with asyncio.timeout(20):
        assert await died == 7


@pytest.mark.parametrize("stuck", [False, True])
def test_a_child_ends_with_its_supervisor_however_busy_it_is(tmp_path: Path, stuck: bool) -> None:
    (tmp_path / "a_child.py").write_text(
        CHILD.replace("supervision.open(take)", "import time; open('busy', 'w'); time.sleep(1000)") if stuck else CHILD
    )
    supervisor = (
        "import asyncio, os\nfrom mnserve.processes.child import Child\n"
        "async def main():\n"
        " child = Child('a_child', 'child', lambda message, fds: print(child.pid, flush=True), print)\n"
        " child.send('say', text='a')\n"
        f" if {stuck}:\n"
        "  while not os.path.exists('busy'): await asyncio.sleep(0.01)\n"
        "  print(child.pid, flush=True)\n"
        " await asyncio.sleep(1000)\n"
        "asyncio.run(main())\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", supervisor],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
    )
    with process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        handle = os.pidfd_open(pid)
        process.kill()
        process.wait()
        assert select.select([handle], [], [], 20)[0] == [handle]
        os.close(handle)
