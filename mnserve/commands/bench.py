"""``mnserve bench``: interleaved latency of one model against another."""

from __future__ import annotations

from mnserve.bench.settings import BenchSettings


def run(settings: BenchSettings) -> int:
    """Measures and reports.

    Returns:
        0; whatever goes wrong is an MnServeError.

    Raises:
        MnServeError: the measurement cannot be made, or a file cannot be written.
    """
    from mnserve.bench.session import bench  # loads the engine and gRPC, which --help can do without

    return bench(settings)
