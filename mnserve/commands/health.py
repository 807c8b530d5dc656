"""``mnserve health``: the health of a running server as an exit code, for probes that run a command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mnserve.commands.command import CommandSpec

if TYPE_CHECKING:
    from mnserve.client.health_settings import HealthSettings


def settings_class() -> type[HealthSettings]:
    """Imports the settings; the overview of all commands does without."""
    from mnserve.client.health_settings import HealthSettings

    return HealthSettings


def run(settings: HealthSettings) -> int:
    """Asks the server, and prints the state.

    Returns:
        0 if the service can be used, 1 otherwise.

    Raises:
        MnServeError: The server gives no usable answer.
    """
    from mnserve.client.health import print_health  # loads gRPC, which --help can do without

    return print_health(settings)


HEALTH: Final = CommandSpec(
    name="health",
    summary="ask a running server for its health, as a probe does",
    examples="""\
  mnserve health
  mnserve health --service digits-mn --url gpu-box:8001
  mnserve health --service inference.GRPCInferenceService/ServerLive
  mnserve health --url grpcs://localhost:8001 --tls-ca ca.pem
  MNSERVE_HEALTH_URL=grpcs://localhost:8001 MNSERVE_HEALTH_TLS_CA=ca.pem mnserve health""",
    settings=settings_class,
    run=run,
    reads_environment=True,
    env_prefix="MNSERVE_HEALTH",  # those of the server, in the same container, have other meanings
)
