"""Connections go to the process that has the fewest, by a filter that the kernel asks."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from mnserve.access.connection_balance import ConnectionBalance, count_connections, steer_connections


def test_who_has_fewer_connections_gets_more_of_the_next() -> None:
    balance = ConnectionBalance()
    assert balance.shares() is None
    for process in (10, 11, 12):
        balance.joined(process)
    assert balance.shares() is None
    balance.report(10, 1)
    assert balance.shares() == pytest.approx((1 / 7, 3 / 7, 3 / 7))
    assert balance.shares(silent=[11]) == pytest.approx((1 / 5, 1 / 5, 3 / 5))
    balance.report(11, 1)
    balance.report(12, 1)
    assert balance.shares() is None
    balance.report(12, 0)
    balance.left(10)  # the last one takes its place
    assert balance.shares() == pytest.approx((3 / 4, 1 / 4))
    balance.joined(13)
    balance.report(12, 2)
    assert balance.shares() == pytest.approx((1 / 13, 3 / 13, 9 / 13))
    balance.left(99)
    balance.report(99, 0)
    assert balance.shares() == pytest.approx((1 / 13, 3 / 13, 9 / 13))


def test_the_kernel_follows() -> None:
    with ExitStack() as stack:

        def listen(port: int) -> socket.socket:
            listener = stack.enter_context(socket.socket())
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind(("127.0.0.1", port))
            listener.listen()
            listener.setblocking(False)
            return listener

        listeners = [listen(0)]
        port = listeners[0].getsockname()[1]
        listeners += [listen(port), listen(port)]

        def connect() -> int:
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            for place, listener in enumerate(listeners):
                try:
                    stack.enter_context(listener.accept()[0])
                except BlockingIOError:
                    continue
                return place
            raise AssertionError("nobody has the connection")

        for place in (2, 0, 1):
            steer_connections(port, [float(place == number) for number in range(3)])
            assert [connect() for _ in range(4)] == [place] * 4
        assert count_connections(port) == 12
        listeners.pop(0).close()
        steer_connections(port, (1.0, 0.0))
        assert connect() == 1  # the last one took the place of the first
        steer_connections(port, (0.25, 0.75))
        reached = [connect() for _ in range(64)]
        assert 36 <= reached.count(0) <= 60  # the last one took that place
        steer_connections(port, None)
        assert {connect() for _ in range(64)} == {0, 1}
