"""The port of the front ends."""

from __future__ import annotations

import socket

import pytest

from mnserve.access.addresses import check_port_free
from mnserve.errors import StartError
from mnserve.processes.port import ReservedPort


def listening(port: int) -> socket.socket:
    item = socket.socket()
    item.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    item.bind(("127.0.0.1", port))
    item.listen()
    return item


def test_front_ends_share_a_reserved_port_and_a_second_server_cannot_have_it() -> None:
    reserved = ReservedPort.reserve("127.0.0.1", 0, "--grpc-port")
    with pytest.raises(StartError, match=f"127.0.0.1:{reserved.number}"):
        check_port_free("127.0.0.1", reserved.number, "--grpc-port")
    with listening(reserved.number), listening(reserved.number):
        with pytest.raises(StartError):
            check_port_free("127.0.0.1", reserved.number, "--grpc-port")
        for _ in range(8):
            socket.create_connection(("127.0.0.1", reserved.number), timeout=5).close()
    reserved.release()
    check_port_free("127.0.0.1", reserved.number, "--grpc-port")


def test_a_port_is_reserved_while_connections_of_an_earlier_server_are_waiting_to_be_forgotten() -> None:
    with socket.socket() as earlier:
        earlier.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        earlier.bind(("127.0.0.1", 0))
        earlier.listen()
        port = earlier.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = earlier.accept()
        accepted.close()  # the side that closes first waits
        client.close()
    reserved = ReservedPort.reserve("127.0.0.1", port, "--grpc-port")
    assert reserved.number == port
    reserved.release()


def test_a_name_has_one_port_on_all_of_its_addresses() -> None:
    reserved = ReservedPort.reserve("localhost", 0, "--grpc-port")
    assert {one.getsockname()[1] for one in reserved._sockets} == {reserved.number}
    reserved.release()
    with pytest.raises(StartError, match=r"no\.such\.host\.invalid"):
        ReservedPort.reserve("no.such.host.invalid", 0, "--grpc-port")
