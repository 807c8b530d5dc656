"""Measure the memory that a server of gRPC for Python keeps of cancelled calls, without our code.

    PYTHONPATH=benchmarks python -m soaking.grpc_cancels
    PYTHONPATH=benchmarks python -m soaking.grpc_cancels --rounds 20 --calls 2500

Starts a grpc.aio server in a process of its own whose only method sleeps and answers a few bytes. Then cancels calls of
12,000 bytes to it, and prints the resident memory after every round. Memory that grows here grows in every server that
is built on grpc.aio.
"""

import asyncio
import contextlib
import subprocess
import sys
import time

import grpc
from common.loopback import exempt_loopback
from common.options import positive_integer, script_parser

from soaking.memory import resident_bytes

_SERVE = "--serve"
_AT_A_TIME = 4
_METHOD = "/m/call"


async def _serve() -> None:
    async def call(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        time.sleep(0.002)  # as a busy server does
        return b"answer"

    server = grpc.aio.server()
    method: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(call)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("m", {"call": method}),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await server.wait_for_termination()


async def _cancel(call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes], count: int) -> None:
    for _ in range(count):
        running = call(b"x" * 12_000)
        await asyncio.sleep(0.0005)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def _measure(port: str, pid: int, rounds: int, calls: int) -> None:
    before = 0
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(_METHOD)
        for number in range(rounds):
            await asyncio.gather(*[_cancel(call, calls // _AT_A_TIME) for _ in range(_AT_A_TIME)])
            resident = resident_bytes([pid])
            grown = f", {(resident - before) / calls:+.0f} bytes a cancelled call" if number else ""
            print(f"round {number + 1}: {resident / 2**20:.1f} MiB resident{grown}", flush=True)
            before = resident


def main() -> int:
    """Run the benchmark; returns the exit code."""
    if sys.argv[1:] == [_SERVE]:
        asyncio.run(_serve())
        return 0
    exempt_loopback()
    parser = script_parser(__doc__)
    parser.add_argument("--rounds", type=positive_integer, default=8, help="(8)")
    parser.add_argument("--calls", type=positive_integer, default=10_000, help="of each round (10000)")
    arguments = parser.parse_args()
    with subprocess.Popen([sys.executable, __file__, _SERVE], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        try:
            asyncio.run(_measure(port, server.pid, arguments.rounds, arguments.calls))
        finally:
            server.kill()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
