"""``mntrain recipes``: what comes with the package."""

from typing import Any


def add(commands: Any) -> None:
    """Join the command line."""
    commands.add_parser("recipes", help="list the recipes that come with the package")


def run() -> int:
    """Run the command; returns the exit code."""
    from mntrain.config import recipe_names

    print("\n".join(recipe_names()))
    return 0
