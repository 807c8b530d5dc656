"""Channels over several servers: targets, turns, and another attempt where a server has gone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from mnserve.client.balancing import BALANCED_OPTIONS, balanced_target
from mnserve.client.replicas import ReplicaChannel, list_replicas
from mnserve.errors import RequestRefusedError, ServerUnreachableError, SettingsError

NAME = "/test.Test/Name"


class Named:
    """A server of gRPC that answers with its number, or with a status; it may list others, too."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.status: grpc.StatusCode | None = None
        self.calls = 0
        self.listed: list[str] = []
        self.token = ""
        """Token that the list needs, if any."""
        self._server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
        methods = {"Name": grpc.unary_unary_rpc_method_handler(self._name)}
        listing = {"ListReplicas": grpc.unary_unary_rpc_method_handler(self._list)}
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler("test.Test", methods),
                grpc.method_handlers_generic_handler("mnserve.Replicas", listing),
            )
        )
        self.url = f"grpc://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def _name(self, _request: bytes, context: grpc.ServicerContext) -> bytes:
        self.calls += 1
        if self.status is not None:
            context.abort(self.status, "not now")
        return str(self.number).encode()

    def _list(self, _request: bytes, context: grpc.ServicerContext) -> bytes:
        metadata = dict(context.invocation_metadata())
        if self.token and metadata.get("authorization") != f"Bearer {self.token}":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "the call has no token")
        if metadata.get("application") == "other":
            context.abort(grpc.StatusCode.NOT_FOUND, "Application 'other' not found.")
        return json.dumps({"replicas": [{"grpc": url} for url in self.listed]}).encode()

    def stop(self) -> None:
        self._server.stop(0).wait()


@pytest.fixture
def start() -> Iterator[Callable[[], Named]]:
    """Starts servers that end with the test."""
    servers: list[Named] = []

    def make() -> Named:
        servers.append(Named(len(servers)))
        return servers[-1]

    yield make
    for server in servers:
        server.stop()


def ask(channel: grpc.Channel, times: int) -> list[int]:
    call: Any = channel.unary_unary(NAME)
    return [int(call(b"", timeout=10, wait_for_ready=True)) for _ in range(times)]


@pytest.mark.parametrize(
    ("urls", "target"),
    [
        (["10.0.0.1:9001"], "ipv4:10.0.0.1:9001"),
        (["grpc://10.0.0.1:1", "10.0.0.2"], "ipv4:10.0.0.1:1,10.0.0.2:8001"),
        (["[::1]:5", "[::2]:6"], "ipv6:[::1]:5,[::2]:6"),
        (["models.example:8001"], "dns:///models.example:8001"),
        (["127.0.0.1:1", "127.0.0.1:1"], "ipv4:127.0.0.1:1"),
    ],
)
def test_the_target_has_every_address(urls: list[str], target: str) -> None:
    assert balanced_target(urls) == target


def test_addresses_that_cannot_be_used_are_named() -> None:
    with pytest.raises(SettingsError, match="no address"):
        balanced_target([])
    with pytest.raises(SettingsError, match="http://a"):
        balanced_target(["http://a"])
    with pytest.raises(ServerUnreachableError, match=r"no-such-host\.invalid"):
        balanced_target(["no-such-host.invalid:1", "127.0.0.1:1"])


def test_calls_take_turns(start: Callable[[], Named]) -> None:
    one, two = start(), start()
    with grpc.insecure_channel(balanced_target([one.url, two.url]), options=BALANCED_OPTIONS) as channel:
        deadline = time.monotonic() + 10
        while len(set(ask(channel, 2))) < 2:  # until both are connected
            assert time.monotonic() < deadline
        answers = ask(channel, 20)
    assert answers.count(0) == answers.count(1) == 10


def test_a_server_that_refuses_is_passed_over(start: Callable[[], Named]) -> None:
    one, two = start(), start()
    one.status = grpc.StatusCode.UNAVAILABLE
    with grpc.insecure_channel(balanced_target([one.url, two.url]), options=BALANCED_OPTIONS) as channel:
        assert set(ask(channel, 10)) == {1}
    assert one.calls


def test_other_faults_are_not_tried_again(start: Callable[[], Named]) -> None:
    server = start()
    server.status = grpc.StatusCode.INTERNAL
    channel = grpc.insecure_channel(balanced_target([server.url]), options=BALANCED_OPTIONS)
    with channel, pytest.raises(grpc.RpcError):
        ask(channel, 1)
    assert server.calls == 1


def test_the_channel_follows_the_list(start: Callable[[], Named]) -> None:
    proxy, one, two = start(), start(), start()
    proxy.listed = [one.url]
    with ReplicaChannel([proxy.url], refresh_seconds=0.1) as channel:
        assert channel.urls == [one.url]
        assert set(ask(channel, 5)) == {1}
        method: Any = channel.unary_unary(NAME)
        proxy.listed = [two.url]
        deadline = time.monotonic() + 20
        while int(method(b"", timeout=10, wait_for_ready=True)) != 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert int(method.with_call(b"", timeout=10)[0]) == 2
        assert int(method.future(b"", timeout=10).result()) == 2


def test_a_lost_replica_is_looked_for_at_once(start: Callable[[], Named]) -> None:
    proxy, one, two = start(), start(), start()
    proxy.listed = [one.url]
    with ReplicaChannel([proxy.url], refresh_seconds=3600) as channel:
        assert set(ask(channel, 2)) == {1}
        proxy.listed = [two.url]
        one.stop()
        deadline = time.monotonic() + 20
        while channel.urls != [two.url]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert set(ask(channel, 2)) == {2}


def test_what_lists_no_replicas_is_named(start: Callable[[], Named]) -> None:
    server = start()
    with grpc.insecure_channel(balanced_target([server.url])) as channel:
        with pytest.raises(ServerUnreachableError, match="--no-direct"):
            list_replicas(channel)
        server.stop()
        with pytest.raises(ServerUnreachableError, match="address of a proxy"):
            list_replicas(channel)
    with pytest.raises(ServerUnreachableError):
        ReplicaChannel([server.url])


def test_the_list_is_asked_for_with_a_token(start: Callable[[], Named]) -> None:
    proxy, one = start(), start()
    proxy.listed, proxy.token = [one.url], "secret"
    metadata = (("authorization", "Bearer secret"),)
    with grpc.insecure_channel(balanced_target([proxy.url])) as channel:
        assert list_replicas(channel, metadata) == [one.url]
        with pytest.raises(RequestRefusedError, match=r"the call has no token.*give metadata=.*Bearer TOKEN"):
            list_replicas(channel)
        with pytest.raises(ServerUnreachableError, match=r"'other' not found.*give metadata=.*--app"):
            list_replicas(channel, (*metadata, ("application", "other")))
    with pytest.raises(RequestRefusedError):
        ReplicaChannel([proxy.url])
    with ReplicaChannel([proxy.url], metadata=metadata) as replicas:
        assert set(ask(replicas, 2)) == {1}


def test_a_token_that_is_taken_away_keeps_the_replicas_that_are_known(start: Callable[[], Named]) -> None:
    proxy, one, two = start(), start(), start()
    proxy.listed, proxy.token = [one.url], "secret"
    with ReplicaChannel([proxy.url], refresh_seconds=0.1, metadata=(("authorization", "Bearer secret"),)) as channel:
        proxy.token = "another"
        proxy.listed = [two.url]
        time.sleep(1.5)
        assert channel.urls == [one.url]
        proxy.token = "secret"
        deadline = time.monotonic() + 20
        while channel.urls != [two.url]:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_proxies_may_be_reached_by_channels_of_their_own(start: Callable[[], Named]) -> None:
    proxy, one = start(), start()
    proxy.listed = [one.url]
    targets = []

    def connect(target: str, options: Any) -> grpc.Channel:
        targets.append(target)
        return grpc.insecure_channel(target, options=options)

    with ReplicaChannel(
        ["proxy.invalid:1"], connect_proxies=lambda _, options: connect(proxy.url[7:], options)
    ) as channel:
        assert set(ask(channel, 2)) == {1}
    assert targets == [proxy.url[7:]]
