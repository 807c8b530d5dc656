"""A process for each of two GPUs, which are CPUs here: each loads the models whose groups name its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from mnserve.processes.engine_place import EngineEvents, EnginePlace, StartOrders
from mnserve.processes.engine_shares import engine_shares
from mnserve.processes.settings_message import settings_message
from mnserve.settings import ServeSettings


async def test_each_process_tells_of_the_models_of_its_gpu(repository: Path, double_model: Callable[..., Path]) -> None:
    for name, text in (("both", ""), ("second", "instance_group { gpus: 1 }"), ("none", "instance_group { gpus: 9 }")):
        double_model(name, config=f"max_batch_size: 4 {text}")
    settings = ServeSettings(
        repository=str(repository), providers=("cuda", "cpu"), allow_fallback=True, warm_up=False, log_level="error"
    )
    told: dict[int, dict[str, bool]] = {0: {}, 1: {}}
    events = EngineEvents(
        on_up=lambda engine: None,
        on_model=lambda engine, message: told[engine.number].update({message["name"]: bool(message["versions"])}),
        on_loaded=lambda engine: None,
        on_lost=lambda engine: None,
    )
    orders = StartOrders(settings=settings_message(settings))
    engines = [EnginePlace(number, orders, events, share) for number, share in enumerate(engine_shares(1, (0, 1)))]
    try:
        async with asyncio.timeout(60):
            await asyncio.gather(*(engine.loaded for engine in engines))
    finally:
        for engine in engines:
            engine.close()
            engine.child.kill()
        await asyncio.gather(*(engine.child.ended() for engine in engines))
    assert told == {0: {"both": True, "none": False}, 1: {"both": True, "second": True, "none": False}}
