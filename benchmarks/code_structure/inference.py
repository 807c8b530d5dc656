"""Path of one inference through a server with default options: from the call's arrival to the last bookkeeping.

Shapes: rows float32 [2, WIDTH].
"""

import asyncio
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import numpy as np
from soaking.callers import request
from soaking.models import FACTORS, WIDTH, expected, write_repository

from code_structure.errors import TraceError
from code_structure.tracer import CallPath, CallTracer
from mnserve.protocol import service_pb2 as pb
from mnserve.server import Server
from mnserve.settings import ServeSettings

_CALLER = Path(__file__).with_name("caller.py")
_SETTLE_SECONDS = 0.5
"""For what follows an answer, such as statistics, and for what follows a start."""
_IDLE_SECONDS = 1.5
"""For functions that run without a request, such as the loop of the metrics' HTTP server: left out of the path."""
_ANSWER_SECONDS = 60.0


def trace_inference(tracer: CallTracer) -> CallPath:
    """Starts a server in this process, warms it up with one inference, and traces the next.

    The client is another process. No metrics, health or models are asked for meanwhile, and functions that an idle
    server calls as well are left out.

    Raises:
        TraceError: the client got another answer than the model gives.
    """
    with tempfile.TemporaryDirectory(prefix="structure-") as folder, tracer.installed():
        return asyncio.run(_trace(Path(folder), tracer))


async def _trace(folder: Path, tracer: CallTracer) -> CallPath:
    repository, file = folder / "repository", folder / "request"
    write_repository(repository)
    name = next(iter(FACTORS))
    rows = np.arange(2 * WIDTH, dtype=np.float32).reshape(2, WIDTH)
    file.write_bytes(request(name, rows).SerializeToString())
    server = Server(ServeSettings(repository=str(repository), grpc_port=0, metrics_port=0))
    addresses = await server.start()
    words = (str(_CALLER), addresses.grpc.removeprefix("grpc://"), str(file))
    caller = await asyncio.create_subprocess_exec(sys.executable, *words, stdin=PIPE, stdout=PIPE)
    try:
        await _infer(caller)
        await asyncio.sleep(_SETTLE_SECONDS)
        with tracer.recording():
            await asyncio.sleep(_IDLE_SECONDS)
        idle = tracer.called()
        with tracer.recording():
            answer = await _infer(caller)
            await asyncio.sleep(_SETTLE_SECONDS)
    finally:
        caller.kill()
        await caller.wait()
        await server.stop()
    if answer.raw_output_contents[:1] != [expected(name, rows).tobytes()]:
        raise TraceError("the server answered with other rows than the model gives")
    return tracer.path(idle)


async def _infer(caller: Process) -> pb.ModelInferResponse:
    assert caller.stdin is not None
    assert caller.stdout is not None
    caller.stdin.write(b"\n")
    line = await asyncio.wait_for(caller.stdout.readline(), _ANSWER_SECONDS)
    if not line:
        raise TraceError("the client ended without an answer; its error is printed above")
    return pb.ModelInferResponse.FromString(bytes.fromhex(line.decode()))
