"""``mnserve ray``: a repository by replicas on a Ray cluster, until SIGTERM or SIGINT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mnserve.commands.command import CommandSpec
from mnserve.commands.serve import configure_log
from mnserve.errors import SettingsError
from mnserve.missing_packages import missing_extra

if TYPE_CHECKING:
    from mnserve.distributed.settings import RaySettings


def settings_class() -> type[RaySettings]:
    """Imports the settings; the overview of all commands does without."""
    from mnserve.distributed.settings import RaySettings

    return RaySettings


def run(settings: RaySettings) -> int:
    """Serves until a signal comes, or leaves the application on its cluster.

    Returns:
        0; every fault is an MnServeError.

    Raises:
        MnServeError: Ray is not installed, or the application does not start.
    """
    try:
        from mnserve.distributed.session import serve_on_ray
    except ModuleNotFoundError as error:
        sentence = missing_extra(error, "mnserve ray", "ray")
        if sentence is None:
            raise
        raise SettingsError(sentence) from error
    return serve_on_ray(settings)


RAY: Final = CommandSpec(
    name="ray",
    summary="serve a repository by replicas on a Ray cluster",
    examples="""\
  mnserve ray build/demo/repository --replicas 2
  mnserve ray models --address auto --detach --replicas 2 --max-replicas 8
  mnserve ray models --separate --gpus 1 --providers cuda cpu""",
    settings=settings_class,
    run=run,
    reads_environment=True,
    configure_log=configure_log,
)
