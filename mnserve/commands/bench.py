"""``mnserve bench``: interleaved latency of one model against another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mnserve.commands.command import CommandSpec

if TYPE_CHECKING:
    from mnserve.bench.settings import BenchSettings


def settings_class() -> type[BenchSettings]:
    """Imports the settings; the overview of all commands does without."""
    from mnserve.bench.settings import BenchSettings

    return BenchSettings


def run(settings: BenchSettings) -> int:
    """Measures and reports.

    Returns:
        0; every fault is an MnServeError.

    Raises:
        MnServeError: The measurement cannot be made, or a file cannot be written.
    """
    from mnserve.bench.session import bench  # loads the engine and gRPC, which --help can do without

    return bench(settings)


BENCH: Final = CommandSpec(
    name="bench",
    summary="time a model, against another one if asked",
    examples="""\
  mnserve bench build/demo/repository digits-mn --against digits-vanilla --batch 1,8,32
  mnserve bench build/demo/repository digits-mn --grpc --concurrency 8""",
    settings=settings_class,
    run=run,
)
