"""Description of one command: help texts, settings class and function. Nothing heavy is imported to show help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Settings = TypeVar("Settings")


@dataclass(frozen=True, kw_only=True)
class CommandSpec(Generic[Settings]):
    """A command of the command line.

    Attributes:
        name: Word that selects the command.
        summary: Purpose in one clause, without a capital letter or a full stop.
        examples: Lines of the help text, the most important first.
        settings: Imports and returns the dataclass whose fields are the options.
        run: Does the work and returns the exit code.
        reads_environment: Options are also environment variables (``MNSERVE_…``) and keys of a file (``--config``).
        env_prefix: What the names of those variables begin with.
        configure_log: Sends the log where the settings say, before anything is logged; None for a command without one.
    """

    name: str
    summary: str
    examples: str
    settings: Callable[[], type[Settings]]
    run: Callable[[Settings], int]
    reads_environment: bool = False
    env_prefix: str = "MNSERVE"
    configure_log: Callable[[Settings], None] | None = None
