"""Lines about long work, now and then."""

import time

from mntrain.run_progress import RunProgress

_SECONDS_BETWEEN_LINES = 20.0


class Teller:
    """Prints a line about long work now and then.

    Args:
        progress: where to.
        line: with a place for the count, and one for a figure.
    """

    def __init__(self, progress: RunProgress, line: str) -> None:
        self._progress, self._line = progress, line
        self._last = time.monotonic()

    def __call__(self, count: int, figure: float) -> None:
        """Print the line, unless another was printed a moment ago."""
        if time.monotonic() - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = time.monotonic()
            self._progress.say(self._line.format(count, figure))
