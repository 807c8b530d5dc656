"""The application that Ray Serve runs: ``serve run mnserve.distributed.application:build repository=FOLDER``."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from mnserve.distributed.arguments import settings_from_arguments
from mnserve.distributed.replica import Replica
from mnserve.distributed.revision import revision_of
from mnserve.distributed.router import Router
from mnserve.distributed.runtime import serve
from mnserve.distributed.settings import ClusterSettings, RaySettings
from mnserve.errors import SettingsError, StartError
from mnserve.repository.listing import list_models
from mnserve.text.names import listed, printable

INGRESS: Final = "mnserve"
"""Name of the deployment that has the calls from the proxies, and with the models together all of them."""
_SEPARATOR: Final = "#"
"""Stands between the parts of a name in Ray Serve."""
_NO_LIMIT: Final = 65_536
"""Most calls of a replica in Ray Serve's count, where ours has no limit."""
_WAIT_LOOP_SECONDS: Final = 0.2
"""How often Ray Serve looks if a replica that ends has calls in progress."""
_HEALTH_SECONDS: Final = 2.0
"""Time between two looks at the health of a replica, which take no time; the third failure has it replaced."""
_ROUTER_CPUS: Final = 0.1
"""Set aside for a replica that only hands calls over."""


def build(arguments: dict[str, Any]) -> Any:
    """Builds the application from the arguments of ``serve run``, or of a configuration file of Ray Serve.

    Args:
        arguments: Options of ``mnserve ray``, such as ``repository`` and ``replicas``.

    Raises:
        SettingsError: An argument cannot work.
        RepositoryNotFoundError: The repository is no folder on this machine.
    """
    return application(settings_from_arguments(arguments))


def application(settings: RaySettings) -> Any:
    """Builds the application from settings; see :func:`build`."""
    if not settings.placement.separate:
        return _deployment(INGRESS, settings).bind(settings, options_of(settings))
    names = _names(settings)
    options = options_of(settings)
    models = {name: _deployment(name, settings).bind(settings, options, (name,)) for name in names}
    router = serve.deployment(
        name=INGRESS,
        num_replicas=settings.placement.replicas,
        max_ongoing_requests=_NO_LIMIT,
        ray_actor_options={"num_cpus": _ROUTER_CPUS},
        graceful_shutdown_wait_loop_s=_WAIT_LOOP_SECONDS,
    )(Router)
    return router.bind(models, settings)


def options_of(settings: RaySettings) -> str:
    """Sums up the options that an application runs with; others need other replicas, and the same ones a reload alone.

    Raises:
        MnServeError: The models need deployments of their own, and cannot have them.
    """
    names = _names(settings) if settings.placement.separate else []
    same = replace(settings, cluster=ClusterSettings(), placement=replace(settings.placement, revision=""))
    return hashlib.sha256(f"{same!r} {names}".encode()).hexdigest()[:16]


def _names(settings: RaySettings) -> Sequence[str]:
    names = list_models(Path(settings.repository))
    if not names:
        raise StartError(
            f"model repository '{settings.repository}' has no models; put each one into a folder NAME/1/model.onnx"
        )
    if INGRESS in names:
        raise SettingsError(
            f"--separate names a deployment after each model, and '{INGRESS}' is that of the calls; rename the model"
        )
    if odd := [name for name in names if _SEPARATOR in name]:
        raise SettingsError(
            f"--separate names a deployment after each model, and Ray takes none with '{_SEPARATOR}'; rename "
            f"{listed([printable(name) for name in odd])}"
        )
    return names


def _deployment(name: str, settings: RaySettings) -> Any:
    placement = settings.placement
    options: dict[str, Any] = {"num_replicas": placement.replicas}
    if placement.max_replicas > placement.replicas:
        options = {
            "autoscaling_config": {
                "min_replicas": placement.replicas,
                "max_replicas": placement.max_replicas,
                "policy": {
                    "policy_function": "mnserve.distributed.scaling:QueuedRowsPolicy",
                    "policy_kwargs": {"target": placement.target_queued_rows},
                },
            }
        }
    if placement.direct and placement.direct_port:
        options["max_replicas_per_node"] = 1
    return serve.deployment(
        name=name,
        user_config={"revision": placement.revision or revision_of(Path(settings.repository))},
        max_ongoing_requests=settings.max_concurrent_requests or _NO_LIMIT,
        ray_actor_options={"num_cpus": placement.cpus, "num_gpus": placement.gpus},
        health_check_period_s=_HEALTH_SECONDS,
        graceful_shutdown_timeout_s=settings.drain_delay + settings.drain_timeout + 10.0,
        graceful_shutdown_wait_loop_s=_WAIT_LOOP_SECONDS,
        **options,
    )(Replica)
