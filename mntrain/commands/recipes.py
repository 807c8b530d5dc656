"""Command ``mntrain recipes``: list the recipes that come with the package."""

from dataclasses import dataclass

from mntrain.commands.command import Command


@dataclass(frozen=True, kw_only=True)
class RecipesCommand:
    """Options of ``mntrain recipes``, which has none."""


def run(command: RecipesCommand) -> int:
    """Print the names of the recipes; returns the exit code."""
    from mntrain.config import recipe_names

    print("\n".join(recipe_names()))
    return 0


COMMAND = Command(options=RecipesCommand, run=run, summary="list the recipes that come with the package")
