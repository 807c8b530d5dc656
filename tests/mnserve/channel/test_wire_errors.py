"""Errors between processes: the same class and message arrive; a fault of ours leaves its traceback in the log."""

from __future__ import annotations

import inspect

import pytest

from mnserve import errors
from mnserve.channel.wire_errors import pack_error, unpack_error

ALL = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.MnServeError)]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_errors_arrive_as_they_left(kind: type[errors.MnServeError]) -> None:
    sent = errors.RateLimitedError("später", 250) if kind is errors.RateLimitedError else kind("später")
    arrived = unpack_error(pack_error(sent))
    assert (type(arrived), str(arrived), vars(arrived)) == (kind, "später", vars(sent))


def test_a_fault_of_ours_is_logged_under_the_id_that_arrives(caplog: pytest.LogCaptureFixture) -> None:
    class QueueFullError(Exception):
        """Has the name of an error of ours, and is none."""

    class StoppingError(errors.MnServeError):
        """Belongs to our tree, and is not the one of this name."""

    for fault in (ZeroDivisionError("secret"), QueueFullError("secret"), StoppingError("secret")):
        caplog.clear()
        arrived = unpack_error(pack_error(fault))
        assert type(arrived) is errors.EngineProcessError
        assert "secret" not in str(arrived)
        (record,) = caplog.records
        assert record.exc_info
        assert str(arrived).split()[-1] in record.getMessage()


@pytest.mark.parametrize(
    "text",
    [b"", b"\xff", b"[1]", b'{"error": "SystemExit", "message": "no"}', b'{"error": "Final"}', b'{"error": "__doc__"}'],
)
def test_words_that_make_no_sense_become_an_internal_error(text: bytes) -> None:
    assert type(unpack_error(text)) is errors.EngineProcessError


def test_a_long_message_is_cut() -> None:
    assert len(pack_error(errors.InvalidRequestError("x" * 10**6))) < 10_000
