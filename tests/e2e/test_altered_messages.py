"""Messages with bytes changed, cut and doubled, sent to a real server: each gets an answer or a refusal of its own."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2

METHOD: Final = "/inference.GRPCInferenceService/ModelInfer"
REFUSED: Final = {"INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"}
MESSAGES: Final = 3000
TOGETHER: Final = 16


def message(model: str, datatype: str, raw: bytes, shape: list[int], **fields: Any) -> bytes:
    request = service_pb2.ModelInferRequest(model_name=model, raw_input_contents=[raw], **fields)
    request.inputs.add(name="x", datatype=datatype, shape=shape)
    return bytes(request.SerializeToString())


def good_messages() -> list[bytes]:
    """Requests that are answered: of known forms, with ids, strings, priorities and typed contents."""
    ones = np.ones((2, 4), np.float32).tobytes()
    typed = service_pb2.ModelInferRequest(model_name="double", id="typed")
    item = typed.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    item.contents.fp32_contents.extend([1, 2, 3, 4])
    limited = service_pb2.ModelInferRequest.FromString(message("double", "FP32", ones, [2, 4], id="limited"))
    limited.parameters["timeout"].int64_param = 5_000_000
    return [
        message("double", "FP32", ones, [2, 4]),
        message("double", "FP32", ones, [2, 4], id="seven"),
        message("text", "BYTES", b"\x03\0\0\0abc\x00\0\0\0", [2, 1]),
        typed.SerializeToString(),
        limited.SerializeToString(),
    ]


def altered(source: bytes, dice: random.Random) -> bytes:
    """A message with one to three changes."""
    data = bytearray(source)
    for _ in range(dice.randint(1, 3)):
        place = dice.randrange(len(data) + 1)
        other = min(len(data), place + dice.randint(1, 12))
        match dice.randrange(6):
            case 0 if place < len(data):
                data[place] ^= 1 << dice.randrange(8)
            case 1 if place < len(data):
                data[place] = dice.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                del data[place:other]
            case 3:
                data[place:place] = data[place:other]
            case 4:
                data[place:place] = dice.randbytes(dice.randint(1, 9))
            case _:
                data[place:place] = b"\xff" * 9 + b"\x01"
    return bytes(data)


@pytest.mark.parametrize("seed", [1, 2])
async def test_altered_messages_are_answered_or_refused_and_others_hear_nothing_of_it(
    seed: int, start_server: Callable[..., Any], write_models: Callable[[Path], None], tmp_path: Path
) -> None:
    write_models(tmp_path)
    server = start_server(tmp_path, "--model-control", "explicit", "--load-model", "double", "text")
    dice, sources, ends = random.Random(seed), good_messages(), Counter[str]()
    texts: dict[str, str] = {}
    async with grpc.aio.insecure_channel(server.address) as channel:
        call: Any = channel.unary_unary(METHOD)
        right = [
            await call(source, timeout=20) for source in sources for _ in range(2)
        ]  # the second is of a known form

        async def send_some(count: int) -> None:
            for _ in range(count):
                number = dice.randrange(len(sources))
                try:
                    await call(altered(sources[number], dice), timeout=20)
                    ends["answered"] += 1
                except grpc.aio.AioRpcError as error:
                    ends[error.code().name] += 1
                    texts[error.code().name] = error.details() or ""
                if not dice.randrange(8):
                    assert await call(sources[number], timeout=20) == right[2 * number]

        await asyncio.gather(*(send_some(MESSAGES // TOGETHER) for _ in range(TOGETHER)))
    assert set(texts) <= REFUSED, texts
    assert not any("Traceback" in text for text in texts.values())
    assert ends["answered"] > 100
    assert ends["INVALID_ARGUMENT"] > 1000
    assert server.process.poll() is None
    log = server.log()
    assert not any(word in log for word in ("Traceback", "ended", "started again")), log
