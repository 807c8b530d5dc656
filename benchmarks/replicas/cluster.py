"""A Ray cluster of two small nodes on this machine, for tests and benchmarks; it ends with its context."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import grpc

from mnserve.client.replicas import list_replicas

_STORE_BYTES = 80 * 2**20
"""Memory of shared objects; requests are too small for it."""
_LEFT_OUT = Path(__file__).parent / "left_out"
"""Modules in place of installed ones. One of a tool for bills of materials takes 3 s of every process that imports
jsonschema, as all of Ray's do; none of an installation with the extras `serve` and `ray` alone."""


class RayCluster:
    """Two nodes, each with room for one replica of the default size.

    Attributes:
        address: address of the cluster.
        ports: ports of its proxies.
        proxies: Address of the gRPC proxy of each node.
        http: Address of the HTTP proxy of the first node.
    """

    def __init__(self, address: str, ports: dict[str, int]) -> None:
        self.address = address
        self.ports = ports
        self.proxies = [f"127.0.0.1:{ports['grpc']}", f"127.0.0.1:{ports['other_grpc']}"]
        self.http = f"http://127.0.0.1:{ports['http']}"

    def deploy(self, app: str = "mnserve", **arguments: Any) -> None:
        """Runs an application, or updates it, as `serve run` does; returns once it is ready.

        Args:
            app: name of the application.
            arguments: options of `mnserve ray`; `repository` among them.
        """
        from mnserve.distributed.application import build
        from mnserve.distributed.runtime import serve

        arguments = {"app": app, "replicas": 2, "cpus": 1.5, "direct": True, "log_level": "error", **arguments}
        serve.run(build(arguments), name=app, route_prefix=f"/{app}")

    def reload(self, app: str = "mnserve") -> list[str]:
        """Has all replicas load their models again, as `mnserve ray` does; returns the faults."""
        from mnserve.distributed.application import INGRESS
        from mnserve.distributed.runtime import serve

        faults: list[str] = serve.get_deployment_handle(INGRESS, app).reload_all.remote().result(timeout_s=60)
        return faults

    def replicas(self, app: str = "mnserve") -> list[str]:
        """Returns the addresses of the replicas of an application."""
        with grpc.insecure_channel(self.proxies[0]) as channel:
            return list_replicas(channel, (("application", app),))

    def applications(self) -> list[str]:
        """Returns the names of the applications."""
        from mnserve.distributed.runtime import serve

        return sorted(serve.status().applications)

    def kill(self, replica: str, deployment: str = "mnserve") -> None:
        """Ends the process of a replica at once, as a machine does that fails."""
        from mnserve.distributed.runtime import ray

        actor = ray.get_actor(f"SERVE_REPLICA::mnserve#{deployment}#{replica}", namespace="serve")
        ray.kill(actor, no_restart=True)


@contextmanager
def _quick_imports() -> Iterator[None]:
    """Has this process and those that it starts do without the modules of ``left_out``."""
    path = os.environ.get("PYTHONPATH")
    names = [module.stem for module in _LEFT_OUT.glob("*.py") if module.stem not in sys.modules]
    os.environ["PYTHONPATH"] = f"{_LEFT_OUT}{os.pathsep}{path or ''}".rstrip(os.pathsep)
    sys.modules |= dict.fromkeys(names)  # type: ignore[arg-type]  # None: an import fails
    try:
        yield
    finally:
        if path is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = path
        for name in names:
            sys.modules.pop(name, None)


@contextmanager
def ray_cluster(cpus: int = 2) -> Iterator[RayCluster]:
    """Starts a cluster, with Ray Serve on it, and ends all of its processes afterwards, also on Ctrl-C.

    Args:
        cpus: CPUs that each node says it has.
    """
    with _quick_imports(), _ray_cluster(cpus) as cluster:
        yield cluster


@contextmanager
def _ray_cluster(cpus: int) -> Iterator[RayCluster]:
    ports = dict(zip(("http", "grpc", "other_http", "other_grpc"), _free_ports(4), strict=True))
    # Two nodes of one machine need ports of their own for their proxies.
    os.environ["RAY_SERVE_WORKER_PROXY_HTTP_PORT"] = str(ports["other_http"])
    os.environ["RAY_SERVE_WORKER_PROXY_GRPC_PORT"] = str(ports["other_grpc"])
    os.environ.setdefault("RAY_SERVE_LOG_TO_STDERR", "0")
    # The token of this cluster, which Ray would leave in the folder of the user.
    os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"] = "token", secrets.token_hex(16)

    cluster_class = import_module("ray.cluster_utils").Cluster  # after ours, which switches reports of usage off
    core = import_module("ray._raylet")
    core.Config.initialize("")  # Ray may have been imported before the variables were set
    core.AuthenticationTokenLoader.instance().reset_cache()
    from mnserve.distributed.runtime import ray, serve
    from mnserve.distributed.session import SERVICER

    before = signal.getsignal(signal.SIGTERM)
    # What is left out would compete with the agents of a node, for which the node waits 15 s at most.
    node = {"num_cpus": cpus, "object_store_memory": _STORE_BYTES, "include_dashboard": False, "no_monitor": True}
    cluster = cluster_class()
    try:
        for _ in range(2):
            cluster.add_node(**node, **_agent_ports(), include_log_monitor=False)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
        serve.start(
            proxy_location="EveryNode",
            http_options={"port": ports["http"]},
            grpc_options={
                "port": ports["grpc"],
                "grpc_servicer_functions": [SERVICER],
                "enable_reflection": False,
            },
        )
        yield RayCluster(cluster.address, ports)
    finally:
        folder = None if cluster.head_node is None else cluster.head_node.get_session_dir_path()
        if ray.is_initialized():
            serve.shutdown()
            ray.shutdown()
        cluster.shutdown()
        signal.signal(signal.SIGTERM, before)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _agent_ports() -> dict[str, int]:
    """Ports for the agents of a node."""
    names = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port", "runtime_env_agent_port")
    return dict(zip(names, _free_ports(len(names)), strict=True))


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
