"""``mnserve check``: what a server would find on this machine and in a repository."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mnserve.commands.command import CommandSpec

if TYPE_CHECKING:
    from mnserve.checking.settings import CheckSettings


def settings_class() -> type[CheckSettings]:
    """Imports the settings; the overview of all commands does without."""
    from mnserve.checking.settings import CheckSettings

    return CheckSettings


def run(settings: CheckSettings) -> int:
    """Looks and reports.

    Returns:
        0, or 1 where something that was asked for is missing.

    Raises:
        MnServeError: The repository is no folder.
    """
    from mnserve.checking.session import check  # loads the engine, which --help can do without

    return check(settings)


CHECK: Final = CommandSpec(
    name="check",
    summary="tell versions, CPUs, execution providers and what becomes of each model",
    examples="""\
  mnserve check
  mnserve check build/demo/repository
  mnserve check models --providers cuda cpu --json""",
    settings=settings_class,
    run=run,
)
