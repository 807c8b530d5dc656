"""Settings of ``mnserve ray``: those of ``mnserve serve``, and what Ray has to know beside."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, fields
from typing import Any, Final

from mnserve.errors import SettingsError
from mnserve.object_store.url import is_url
from mnserve.settings import OFF, ServeSettings

NODE_HOST: Final = "node"
"""Host that means the address by which a cluster knows the machine of a replica."""
_APP: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Names that are the same in metadata of gRPC, in a path of HTTP and in the names of Ray's actors."""
_MAX_REPLICAS: Final = 10_000


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """The cluster, and the application on it.

    Raises:
        SettingsError: A value cannot work.
    """

    address: str = ""
    """Address of a Ray cluster, such as auto or HOST:6379; empty starts one on this machine, which ends with us."""
    app: str = "mnserve"
    """Name of the application; an application of that name is updated."""
    list_port: int = 8000
    """Port of Ray Serve's HTTP proxies, which list the replicas and their addresses."""
    detach: bool = False
    """Leave the application running on the cluster, and return once it is ready."""

    def __post_init__(self) -> None:
        if not _APP.fullmatch(self.app):
            raise SettingsError(
                f"--app is {self.app[:80]!r}; it must have 1 to 64 of A-Z a-z 0-9 . _ - and no sign in front"
            )
        if not 1 <= self.list_port <= 65_535:
            raise SettingsError(f"--list-port is {self.list_port}; it must be from 1 to 65535")
        if self.detach and not self.address:
            raise SettingsError(
                "--detach leaves an application on a cluster, and without --address the cluster ends with this "
                "command; give --address auto or HOST:6379"
            )


@dataclass(frozen=True, kw_only=True)
class PlacementSettings:
    """Replicas and their places.

    Raises:
        SettingsError: A value cannot work.
    """

    replicas: int = 1
    """Replicas of the models; the least of them where --max-replicas lets their number change."""
    max_replicas: int = 0
    """Most replicas; above --replicas their number follows the rows that wait. 0 keeps it as it is."""
    target_queued_rows: int = 32
    """With --max-replicas: rows that may wait at each replica before there are more."""
    separate: bool = False
    """Give each model replicas of its own, which are placed, counted and scaled apart from those of others."""
    cpus: float = 1.0
    """CPUs that the scheduler sets aside for a replica, and its threads where --intra-op-threads is 0."""
    gpus: float = 0.0
    """GPUs that the scheduler sets aside for a replica; a part of one is shared."""
    direct: bool = True
    """Have each replica take calls on a port of its own, too, for clients that balance over them."""
    direct_port: int = 0
    """With --direct: that port, one replica on each machine; 0 takes a free one, and any number fits."""
    revision: str = ""
    """Text that tells one state of the repository from another: where it changes, replicas load their models again.
    Empty takes names, versions and times of the files."""

    def __post_init__(self) -> None:
        if not 1 <= self.replicas <= _MAX_REPLICAS:
            raise SettingsError(f"--replicas is {self.replicas}; it must be from 1 to {_MAX_REPLICAS}")
        if self.max_replicas and not self.replicas <= self.max_replicas <= _MAX_REPLICAS:
            raise SettingsError(
                f"--max-replicas is {self.max_replicas}; it must be 0 (as many as --replicas, {self.replicas}) or from "
                f"there to {_MAX_REPLICAS}"
            )
        if self.target_queued_rows < 1:
            raise SettingsError(f"--target-queued-rows is {self.target_queued_rows}; it must be at least 1")
        for option, count in (("--cpus", self.cpus), ("--gpus", self.gpus)):
            if not 0 <= count <= 1024:
                raise SettingsError(f"{option} is {count}; it must be from 0 to 1024")
        if not 0 <= self.direct_port <= 65_535:
            raise SettingsError(f"--direct-port is {self.direct_port}; it must be from 0 to 65535")


@dataclass(frozen=True, kw_only=True)
class RaySettings(ServeSettings):
    """Serves a repository by replicas on a Ray cluster.

    Raises:
        SettingsError: A value cannot work, or goes with ``mnserve serve`` alone.
    """

    host: str = NODE_HOST
    """Address that replicas listen on for direct calls and metrics; node is that of their machine in the cluster."""
    grpc_port: int = 8001
    """Port of Ray Serve's gRPC proxies, on every machine that has a replica."""
    metrics_port: int = 0
    """Port of the metrics of a replica; 0 takes a free one, which the list of replicas has."""
    front_ends: int = 0
    """Always 0: a replica is one process."""
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    placement: PlacementSettings = field(default_factory=PlacementSettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.grpc_port:
            raise SettingsError("--grpc-port is 0; Ray Serve's proxies need a port from 1 to 65535")
        if self.grpc_port == self.cluster.list_port:
            raise SettingsError(f"--grpc-port and --list-port are both {self.grpc_port}; choose two")
        if is_url(self.repository):
            raise SettingsError(
                "REPOSITORY is a URL, and replicas read a folder that every machine of the cluster has; copy or mount "
                "it there, or serve the URL with `mnserve serve`"
            )
        if self.http_port != OFF:
            raise SettingsError(
                "--http-port and --console are for `mnserve serve`; replicas answer gRPC, by Ray Serve's proxies or "
                "directly"
            )
        if self.front_ends or self.engine_processes != 1:
            raise SettingsError(
                "--front-ends and --engine-processes are for `mnserve serve`, and a replica is one process; give more "
                "--replicas"
            )
        if self.model_control == "explicit":
            raise SettingsError(
                "--model-control explicit has callers load models, and a call reaches one replica of several; give "
                "none or poll"
            )
        if self.placement.separate and self.model_control == "poll":
            raise SettingsError(
                "--separate gives the models of the start replicas of their own, and --model-control poll finds others "
                "later; leave one out, or run the command again after a change"
            )
        if self.security.token_file is not None and not (self.security.insecure_tokens or _proxies_encrypt()):
            raise SettingsError(
                "--token-file: Ray Serve's proxies take calls as plain text, tokens too; start the cluster with "
                "RAY_USE_TLS=1, or give --insecure-tokens where something else encrypts"
            )
        if self.shared_memory == "on":
            raise SettingsError("--shared-memory on needs callers on the machine of the replica; leave it out")

    @property
    def is_local(self) -> bool:
        """Never: Ray Serve's proxies listen on every network interface."""
        return False

    def of_replica(self, host: str) -> ServeSettings:
        """Returns the settings of the server in one replica.

        Args:
            host: Address of its machine in the cluster.
        """
        values: dict[str, Any] = {item.name: getattr(self, item.name) for item in fields(ServeSettings)}
        placement = self.placement
        values |= {
            "host": (host if self.host == NODE_HOST else self.host) if placement.direct else "127.0.0.1",
            "grpc_port": placement.direct_port if placement.direct else 0,
            "shared_memory": "off",
        }
        if not self.intra_op_threads and not placement.gpus:
            values["intra_op_threads"] = max(1, int(placement.cpus))
        return ServeSettings(**values)


def _proxies_encrypt() -> bool:
    """True where Ray encrypts what goes between its processes, and the proxies what comes from outside."""
    return os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true")
