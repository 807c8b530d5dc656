"""Signals during a measurement: they unwind, and wait until there is something to clean up."""

from __future__ import annotations

import signal
import threading

import pytest

from mnserve.bench.termination import signals_unwind


def raised(number: int) -> tuple[type[BaseException], int | None]:
    return (KeyboardInterrupt, None) if number == signal.SIGINT else (SystemExit, 128 + number)


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM])
def number(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


def test_a_signal_waits_until_there_is_something_to_clean_up(number: int) -> None:
    before = signal.getsignal(number)
    kind, code = raised(number)
    steps: list[str] = []
    with pytest.raises(kind) as caught, signals_unwind() as arm:  # noqa: PT012
        signal.raise_signal(number)
        steps.append("started")
        arm()
        steps.append("never")
    assert steps == ["started"]
    assert getattr(caught.value, "code", None) == code
    assert signal.getsignal(number) is before


def test_a_signal_afterwards_takes_effect_at_once_and_every_time(number: int) -> None:
    kind, _ = raised(number)
    with signals_unwind() as arm:
        arm()
        for _ in range(2):
            with pytest.raises(kind):
                signal.raise_signal(number)


def test_blocks_may_be_nested(number: int) -> None:
    """The inner one has started nothing yet, whatever the outer one has."""
    kind, _ = raised(number)
    with signals_unwind() as outer:
        outer()
        with signals_unwind() as inner:
            signal.raise_signal(number)
            with pytest.raises(kind):
                inner()
        with pytest.raises(kind):
            signal.raise_signal(number)


def test_ignored_signals_stay_ignored(number: int) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with signals_unwind() as arm:
            arm()
            signal.raise_signal(number)
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_other_threads_leave_signals_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    found: list[object] = []

    def run() -> None:
        with signals_unwind() as arm:
            arm()
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [before]
