"""Services beside inference that the settings of a server ask for."""

from __future__ import annotations

from mnserve.access.rate_limits import RateLimits
from mnserve.access.refused_calls import RefusedCalls
from mnserve.access.shared_rate_limits import RateTable, SharedRateLimits
from mnserve.codec.shared_memory import Regions
from mnserve.observability.log_settings import LogControl
from mnserve.observability.trace_counts import TraceCounts
from mnserve.observability.trace_settings import TraceChoice, TraceSettings
from mnserve.observability.tracing import Tracing
from mnserve.rpc.control_calls import ServiceOptions
from mnserve.rpc.streaming import StreamMemory
from mnserve.settings import ServeSettings


def rate_limits(settings: ServeSettings, table: RateTable | None = None) -> RateLimits | None:
    """Makes the limits of requests of each caller that the settings ask for; None for no limit.

    Args:
        settings: Settings of the command line.
        table: Callers of all processes of the server; None where this is the only one.
    """
    if not settings.rate_limit:
        return None
    burst = settings.rate_burst or max(1, round(settings.rate_limit))
    if table is None:
        return RateLimits(settings.rate_limit, burst)
    return SharedRateLimits(settings.rate_limit, burst, table)


def open_tracing(settings: ServeSettings, counts: TraceCounts | None = None) -> Tracing | None:
    """Connects to the collector of spans; None without one.

    Args:
        settings: Settings of the command line.
        counts: Traced requests of all processes of the server; None where this is the only one.

    Raises:
        StartError: OpenTelemetry is not installed.
    """
    if not settings.trace_endpoint:
        return None
    return Tracing.to_collector(settings.trace_endpoint, TraceSettings(TraceChoice(rate=settings.trace_rate), counts))


def offered_services(
    settings: ServeSettings, tracing: Tracing | None, limits: RateLimits | None, refused: RefusedCalls
) -> ServiceOptions:
    """Returns the services that a process offers which takes calls in.

    Args:
        settings: Settings of the command line.
        tracing: Sends spans of requests; None where nothing is traced.
        limits: Limits of requests of each caller; None for no limit.
        refused: Counts the calls that no model was asked for.
    """
    return ServiceOptions(
        name=settings.server_name,
        control=settings.model_control,
        regions=Regions(max_bytes=settings.max_queue_bytes) if settings.offers_shared_memory else None,
        log=LogControl(settings.log_format),
        tracing=tracing,
        limits=limits,
        by_token=settings.security.token_file is not None,
        refused=refused,
        stream_memory=StreamMemory(settings.max_queue_bytes),
    )
