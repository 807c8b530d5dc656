"""Predictions of the page: their bounds, and their end."""

from __future__ import annotations

import asyncio
import base64
import io
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from mnserve.client.images import decode_image
from mnserve.console import image_trial, trial
from mnserve.console.waiting import Waiting

OpenConsole = Callable[..., Awaitable[httpx.AsyncClient]]
PREDICT = "/console/api/predict"


def file_of(width: int, height: int, name: str = "a.png", **options: Any) -> dict[str, str]:
    """A black image as the page sends it."""
    stream = io.BytesIO()
    Image.new("RGB", (width, height)).save(stream, "PNG", **options)
    return {"name": name, "data": base64.b64encode(stream.getvalue()).decode()}


@pytest.mark.parametrize(
    ("dims", "datatype", "size", "status"),
    [
        ((3, -1, -1), "UINT8", (300, 300), 200),
        ((3, -1, -1), "UINT8", (400, 400), 413),  # 480,000 bytes
        ((3, -1, -1), "FP32", (160, 160), 413),  # 307,200 bytes
        ((3, -1, -1), "FP32", (150, 150), 200),
        ((3, 4, -1), "UINT8", (4000, 4), 200),
        ((3, 4, 6), "UINT8", (4000, 4000), 200),
    ],
)
async def test_an_image_makes_no_larger_tensor_than_a_request_has(
    open_console: OpenConsole,
    colour_model: Callable[..., Path],
    dims: tuple[int, ...],
    datatype: str,
    size: tuple[int, int],
    status: int,
) -> None:
    colour_model("colors", dims=dims, datatype=datatype)
    console = await open_console(max_message_bytes=300_000)
    files = [file_of(6, 4, "small.png"), file_of(*size, "large.png")]
    answer = await console.post(PREDICT, json={"model": "colors", "images": files})
    assert answer.status_code == status, answer.text
    if status == 413:
        assert all(part in answer.json()["error"] for part in ("large.png", "at most 300,000", "scale the image down"))
    else:
        assert [result.get("error") for result in answer.json()["results"]] == [None, None]


async def test_a_bomb_is_refused_before_it_is_decoded(
    open_console: OpenConsole, colour_model: Callable[..., Path]
) -> None:
    colour_model("colors", dims=(3, -1, -1), datatype="FP32")
    console = await open_console()
    bomb = file_of(4096, 4096, optimize=True)  # 201 MB as floats
    tracemalloc.start()
    try:
        answer = await console.post(PREDICT, json={"model": "colors", "images": [bomb]})
        assert answer.status_code == 413
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


async def test_no_image_is_read_once_the_client_has_left(
    open_console: OpenConsole, colour_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, begun, ended = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    read: list[str] = []

    def slow(content: bytes, name: str, *arguments: Any, **options: Any) -> Any:
        read.append(name)
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(ended.wait(), loop).result(60)
        return decode_image(content, name, *arguments, **options)

    class Watched(Waiting):
        def end(self) -> None:
            super().end()
            ended.set()

    monkeypatch.setattr(image_trial, "decode_image", slow)
    monkeypatch.setattr(trial, "Waiting", Watched)
    colour_model("colors")
    console = await open_console()
    files = [file_of(6, 4, f"{number}.png") for number in range(8)]
    call = asyncio.create_task(console.post(PREDICT, json={"model": "colors", "images": files}))
    await begun.wait()
    call.cancel()
    await ended.wait()
    await asyncio.sleep(0.3)
    assert read == ["0.png"]
