"""Channel to the replicas of an application on Ray, whose addresses its proxies list.

Calls go to the replicas themselves, past the proxies. The list is asked for again now and then, and once a connection
fails, so that new replicas get their share and those that ended are forgotten.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, cast

import grpc

from mnserve.client.balancing import BALANCED_OPTIONS, balanced_target
from mnserve.errors import ClientError, RequestRefusedError, ServerUnreachableError

_LIST: Final = "/mnserve.Replicas/ListReplicas"
_LIST_SECONDS: Final = 5.0
_TOKEN_CODES: Final = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
_SHORTEST_WAIT: Final = 0.5
"""Shortest time between two looks at the list."""
_CLOSING_SECONDS: Final = 60.0
"""Time for the calls on a channel that another one has replaced."""

Connect: TypeAlias = Callable[[str, Sequence[tuple[str, Any]]], grpc.Channel]
"""Opens a channel from its target and options."""


def list_replicas(channel: grpc.Channel, metadata: Sequence[tuple[str, str]] = ()) -> list[str]:
    """Asks a proxy for the addresses of the replicas.

    Args:
        channel: Channel to a proxy of Ray Serve.
        metadata: Metadata of the call: ``("authorization", "Bearer TOKEN")`` where the replicas have a file of tokens,
            ``("application", NAME)`` where there are several applications.

    Returns:
        URLs of those that take calls.

    Raises:
        RequestRefusedError: The replicas want a token, or another one.
        ServerUnreachableError: No proxy answers, or no replica takes calls of its own.
    """
    try:
        call: Any = channel.unary_unary(_LIST)
        data: bytes = call(b"", timeout=_LIST_SECONDS, metadata=tuple(metadata))
        urls = [replica["grpc"] for replica in json.loads(data)["replicas"] if replica.get("grpc")]
    except grpc.RpcError as error:
        ended = cast("grpc.Call", error)  # the error of a call is the call itself
        details = ended.details()
        if ended.code() in _TOKEN_CODES:
            raise RequestRefusedError(
                f"the list of replicas needs a token ({details}); give metadata=[('authorization', 'Bearer TOKEN')]"
            ) from error
        if ended.code() is grpc.StatusCode.NOT_FOUND:
            raise ServerUnreachableError(
                f"the proxy does not know whose replicas to list ({details}); give metadata=[('application', NAME)], "
                "the --app of `mnserve ray`"
            ) from error
        raise ServerUnreachableError(
            f"the list of replicas is not to be had ({details}); give the gRPC address of a proxy of `mnserve ray`"
        ) from error
    if not urls:
        raise ServerUnreachableError("no replica takes calls of its own; start `mnserve ray` without --no-direct")
    return urls


class ReplicaChannel(grpc.Channel):
    """Channel over all replicas, for stubs of generated code; it follows the list of replicas until it is closed.

    Args:
        proxies: ``HOST:PORT`` of one or more proxies of Ray Serve.
        refresh_seconds: Time between two looks at the list while all goes well.
        connect: Opens a channel from its target and options; None opens a plain one. Replicas with TLS need one with
            the authorities of their certificates.
        connect_proxies: The same for the proxies, which encrypt on a cluster with ``RAY_USE_TLS=1``.
        metadata: Metadata of the calls that ask for the list, such as a token; see :func:`list_replicas`. Calls to the
            replicas bring their own.

    Raises:
        RequestRefusedError: The replicas want a token, or another one.
        ServerUnreachableError: No proxy answers, or no replica takes calls of its own.
    """

    def __init__(
        self,
        proxies: Sequence[str],
        *,
        refresh_seconds: float = 10.0,
        connect: Connect | None = None,
        connect_proxies: Connect | None = None,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._refresh_seconds = refresh_seconds
        self._connect = connect or _plain
        self._metadata = tuple(metadata)
        self._proxies = (connect_proxies or _plain)(balanced_target(proxies), BALANCED_OPTIONS)
        self._urls: list[str] = []
        self._channel = self._proxies
        self._replaced: list[tuple[float, grpc.Channel]] = []
        self._wake = threading.Event()
        self._closed = False
        try:
            self._follow(list_replicas(self._proxies, self._metadata))
        except ClientError:
            self._proxies.close()
            raise
        self._follower = threading.Thread(target=self._run, name="replica-list", daemon=True)
        self._follower.start()

    @property
    def urls(self) -> list[str]:
        """URLs of the replicas that calls go to."""
        return list(self._urls)

    @property
    def current(self) -> grpc.Channel:
        """Channel of gRPC over these replicas."""
        return self._channel

    def _run(self) -> None:
        while True:
            self._wake.wait(self._refresh_seconds)
            if self._closed:
                return
            self._wake.clear()
            try:
                self._follow(list_replicas(self._proxies, self._metadata))
            except ServerUnreachableError:
                self._wake.set()  # the replicas that are known stay; ask again soon
            except RequestRefusedError:
                pass  # the token was taken away: the replicas that are known stay, and tell callers why
            while self._replaced and self._replaced[0][0] < time.monotonic():
                self._replaced.pop(0)[1].close()
            time.sleep(_SHORTEST_WAIT)

    def _follow(self, urls: list[str]) -> None:
        if sorted(urls) == self._urls:
            return
        channel = self._connect(balanced_target(urls), BALANCED_OPTIONS)
        channel.subscribe(self._on_state)
        if self._urls:
            self._replaced.append((time.monotonic() + _CLOSING_SECONDS, self._channel))
        self._urls, self._channel = sorted(urls), channel

    def _on_state(self, state: grpc.ChannelConnectivity) -> None:
        if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            self._wake.set()

    def subscribe(self, callback: Any, try_to_connect: bool = False) -> None:
        """See :meth:`grpc.Channel.subscribe`: the states of the channel as it is now."""
        self._channel.subscribe(callback, try_to_connect)

    def unsubscribe(self, callback: Any) -> None:
        """See :meth:`grpc.Channel.unsubscribe`."""
        self._channel.unsubscribe(callback)

    def unary_unary(self, *args: Any, **kwargs: Any) -> Any:
        """See :meth:`grpc.Channel.unary_unary`."""
        return _Method(self, "unary_unary", args, kwargs)

    def unary_stream(self, *args: Any, **kwargs: Any) -> Any:
        """See :meth:`grpc.Channel.unary_stream`."""
        return _Method(self, "unary_stream", args, kwargs)

    def stream_unary(self, *args: Any, **kwargs: Any) -> Any:
        """See :meth:`grpc.Channel.stream_unary`."""
        return _Method(self, "stream_unary", args, kwargs)

    def stream_stream(self, *args: Any, **kwargs: Any) -> Any:
        """See :meth:`grpc.Channel.stream_stream`."""
        return _Method(self, "stream_stream", args, kwargs)

    def close(self) -> None:
        """Closes the connections; no call may follow."""
        self._closed = True
        self._wake.set()
        self._follower.join(_LIST_SECONDS + 2 * _SHORTEST_WAIT)
        for channel in (self._proxies, self._channel, *(channel for _, channel in self._replaced)):
            channel.close()

    def __enter__(self) -> ReplicaChannel:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def _plain(target: str, options: Sequence[tuple[str, Any]]) -> grpc.Channel:
    return grpc.insecure_channel(target, options=options)


class _Method:
    """A method of a stub, on the channel as it is when a call begins."""

    def __init__(self, channel: ReplicaChannel, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._channel = channel
        self._make = kind, args, kwargs
        self._made: tuple[grpc.Channel, Any] | None = None

    def _now(self) -> Any:
        current, made = self._channel.current, self._made
        if made is None or made[0] is not current:
            kind, args, kwargs = self._make
            self._made = made = current, getattr(current, kind)(*args, **kwargs)
        return made[1]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._now()(*args, **kwargs)

    def with_call(self, *args: Any, **kwargs: Any) -> Any:
        return self._now().with_call(*args, **kwargs)

    def future(self, *args: Any, **kwargs: Any) -> Any:
        return self._now().future(*args, **kwargs)
