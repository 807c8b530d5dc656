"""Life of ``mnserve ray``: a cluster, an application on it, a signal, and the end of both."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
from importlib import import_module
from types import FrameType
from typing import Any, Final, NoReturn

from rich.console import Console

from mnserve.distributed.application import INGRESS, application, options_of
from mnserve.distributed.replica import RELOAD_SECONDS
from mnserve.distributed.runtime import ray, serve
from mnserve.distributed.settings import RaySettings
from mnserve.errors import LoadFailedError, StartError
from mnserve.text.names import shortened

_log = logging.getLogger(__name__)

SERVICER: Final = "mnserve.distributed.ingress.add_to_server"
"""Import path of the function that adds the protocol to a proxy."""
_SECOND_SIGNAL: Final = 130
_LIST_SECONDS: Final = 30.0
_OUR_ERROR: Final = re.compile(r"^.*?mnserve\.errors\.\w+: (?P<sentence>.+)$", re.MULTILINE)
_REASON_CHARACTERS: Final = 300


class _Stopped(BaseException):
    """A signal asks for the end."""


def serve_on_ray(settings: RaySettings) -> int:
    """Runs the application until a signal comes, or leaves it on its cluster where the settings say so.

    Returns:
        0.

    Raises:
        StartError: There is no such cluster, or the application does not become ready.
        MnServeError: The repository cannot be served.
    """
    target = application(settings)  # before anything is started
    _connect(settings)
    keep = False
    try:
        _handle_signals()
        keep = bool(settings.cluster.address) and runs(settings.cluster.app)  # what goes wrong now ends nothing
        if not (keep and _reload(settings)):
            _start(settings, target)
        _announce(settings)
        keep = settings.cluster.detach
        if not keep:
            while True:
                signal.pause()
    except _Stopped:
        _log.info("stopping: finishing what was admitted")
    finally:
        _end(settings, keep)
    return 0


def _connect(settings: RaySettings) -> None:
    address = settings.cluster.address
    try:
        if address:
            ray.init(address=address, logging_level=logging.WARNING)
        else:
            ray.init(include_dashboard=False, logging_level=logging.WARNING)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        where = f"to the Ray cluster at {address}" if address else "a Ray cluster on this machine"
        raise StartError(f"cannot {'connect' if address else 'start'} {where}: {_first_line(error)}") from error


def _start(settings: RaySettings, target: Any) -> None:
    cluster = settings.cluster
    serve.start(
        http_options={"port": cluster.list_port},
        grpc_options={
            "port": settings.grpc_port,
            "grpc_servicer_functions": [SERVICER],
            "enable_reflection": False,  # it would describe what is in protobuf's default pool, and ours is in another
        },
    )
    _check_proxies(settings)
    try:
        serve.run(target, name=cluster.app, route_prefix=f"/{cluster.app}")
    except (RuntimeError, ValueError) as error:
        match = _OUR_ERROR.search(str(error))
        reason = match["sentence"] if match else _first_line(error)
        raise StartError(f"the application '{cluster.app}' does not start: {reason}") from error


def _check_proxies(settings: RaySettings) -> None:
    """Checks that the proxies are as asked for: Ray Serve keeps those that were started before with other options.

    Raises:
        StartError: They have other ports, or do not know the protocol.
    """
    details = import_module("ray.serve.context")._get_global_client().get_serve_details()
    grpc, http = details["grpc_options"], details["http_options"]
    remedy = "or end it for all applications with `serve shutdown`, and run this command again"
    if SERVICER not in grpc["grpc_servicer_functions"]:
        raise StartError(
            "Ray Serve runs on this cluster already, and its proxies do not know the protocol; start it with "
            f"grpc_servicer_functions: [{SERVICER}], {remedy}"
        )
    if (grpc["port"], http["port"]) != (settings.grpc_port, settings.cluster.list_port):
        raise StartError(
            "Ray Serve runs on this cluster already, and its proxies keep their ports; give "
            f"--grpc-port {grpc['port']} --list-port {http['port']}, {remedy}"
        )


def _reload(settings: RaySettings) -> bool:
    """Has the running application load its models again; False where it has other options.

    Raises:
        LoadFailedError: Models were not loaded again, and are served as before.
        StartError: The proxies are others than those that the settings ask for.
    """
    _check_proxies(settings)
    app = settings.cluster.app
    handle = serve.get_deployment_handle(INGRESS, app)
    replicas = handle.replicas.remote().result(timeout_s=_LIST_SECONDS)
    if not replicas or {replica["options"] for replica in replicas} != {options_of(settings)}:
        return False
    if faults := handle.reload_all.remote().result(timeout_s=RELOAD_SECONDS):
        raise LoadFailedError("; ".join(faults))
    return True


def runs(app: str) -> bool:
    """Tells if an application runs on the cluster."""
    found = serve.status().applications.get(app)
    return found is not None and str(found.status.value) == "RUNNING"


def _first_line(error: Exception) -> str:
    return shortened(" ".join(str(error).split()), _REASON_CHARACTERS) or type(error).__name__


def _announce(settings: RaySettings) -> None:
    placement = settings.placement
    count = str(placement.replicas)
    if placement.max_replicas > placement.replicas:
        count += f" to {placement.max_replicas}"
    what = "replica of each model" if placement.separate else "replica"
    plural = what.replace("replica", "replicas") if count != "1" else what
    host = ray.util.get_node_ip_address()
    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"serving by {count} {plural} on grpc://{host}:{settings.grpc_port}, "
        f"list of replicas http://127.0.0.1:{settings.cluster.list_port}/{settings.cluster.app}",
        markup=False,
    )
    console.file.flush()


def _handle_signals() -> None:
    """Handles signals: the first one ends the application, the second this process at once."""
    seen = False

    def on_signal(_number: int, _frame: FrameType | None) -> NoReturn:
        nonlocal seen
        if seen:
            os._exit(_SECOND_SIGNAL)
        seen = True
        raise _Stopped

    signal.signal(signal.SIGTERM, on_signal)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, on_signal)


def _end(settings: RaySettings, keep: bool) -> None:
    if not keep:
        with contextlib.suppress(Exception):  # what ends by itself meanwhile is ended
            serve.delete(settings.cluster.app)
        if not settings.cluster.address:
            with contextlib.suppress(Exception):
                serve.shutdown()
    ray.shutdown()
