"""``mnserve serve``: a repository over gRPC until SIGTERM or SIGINT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mnserve.commands.command import CommandSpec

if TYPE_CHECKING:
    from mnserve.settings import ServeSettings


def settings_class() -> type[ServeSettings]:
    """Imports the settings; the overview of all commands does without."""
    from mnserve.settings import ServeSettings

    return ServeSettings


def configure_log(settings: ServeSettings) -> None:
    """Sends the log to standard error, in the format and from the level that the settings say."""
    from mnserve.observability.logs import configure

    configure(settings.log_level, settings.log_format)


def run(settings: ServeSettings) -> int:
    """Serves until a signal comes.

    Returns:
        0 if every admitted request was answered, 1 if requests were given up.

    Raises:
        MnServeError: The server cannot start.
    """
    from mnserve.process import serve  # loads the engine and gRPC, which --help can do without

    return serve(settings)


SERVE: Final = CommandSpec(
    name="serve",
    summary="serve every model of a repository over gRPC",
    examples="""\
  mnserve serve build/demo/repository
  mnserve serve models --host 0.0.0.0 --grpc-port 9001 --strict
  mnserve serve models --config serve.yaml
  MNSERVE_LOG_FORMAT=json mnserve serve models --drain-delay 5""",
    settings=settings_class,
    run=run,
    reads_environment=True,
    configure_log=configure_log,
)
