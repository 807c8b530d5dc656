"""``mnserve tune``: the configuration of a model with the highest throughput under a bound on latency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mnserve.commands.command import CommandSpec

if TYPE_CHECKING:
    from mnserve.tuning.settings import TuneSettings


def settings_class() -> type[TuneSettings]:
    """Imports the settings; the overview of all commands does without."""
    from mnserve.tuning.settings import TuneSettings

    return TuneSettings


def run(settings: TuneSettings) -> int:
    """Measures, writes and reports.

    Returns:
        0; every fault is an MnServeError.

    Raises:
        MnServeError: The model cannot be measured, no configuration keeps the bound, or a file cannot be written.
    """
    from mnserve.tuning.session import tune  # loads the engine and gRPC, which --help can do without

    return tune(settings)


TUNE: Final = CommandSpec(
    name="tune",
    summary="find batch size, delay, threads and instances for a bound on latency",
    examples="""\
  mnserve tune build/demo/repository digits-mn --latency-ms 20
  mnserve tune build/demo/repository digits-mn --latency-ms 20 --callers 1,16,64 --dry-run
  mnserve tune models resnet --latency-ms 50 --percentile 95 --rows 4 --json tuning.json --plot tuning.svg""",
    settings=settings_class,
    run=run,
)
