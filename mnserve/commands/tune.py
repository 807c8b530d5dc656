"""``mnserve tune``: the configuration of a model with the highest throughput under a bound on latency."""

from __future__ import annotations

from mnserve.tuning.settings import TuneSettings


def run(settings: TuneSettings) -> int:
    """Measures, writes and reports.

    Returns:
        0; whatever goes wrong is an MnServeError.

    Raises:
        MnServeError: the model cannot be measured, no configuration keeps the bound, or a file cannot be written.
    """
    from mnserve.tuning.session import tune  # loads the engine and gRPC, which --help can do without

    return tune(settings)
