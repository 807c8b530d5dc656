"""``mnserve serve``: a repository over gRPC until SIGTERM or SIGINT."""

from __future__ import annotations

from mnserve.settings import ServeSettings


def run(settings: ServeSettings) -> int:
    """Serves until a signal comes.

    Returns:
        0 if every admitted request was answered, 1 if some had to be given up.

    Raises:
        MnServeError: The server cannot start.
    """
    from mnserve.process import serve  # loads the engine and gRPC, which --help can do without

    return serve(settings)
