"""Help on every field: how it is written, what it may hold, its default, and what it means."""

import textwrap
from typing import Any

import docstring_parser

from mntrain.fields.kinds import kind_in_words, literal_choices
from mntrain.fields.listing import RecipeField, nested_sections, recipe_fields
from mntrain.models.families import FAMILIES

WIDTH = 100
_INDENT = " " * 6


def describe_fields() -> str:
    """Format the help of every field that a recipe or the command line may set, grouped by section."""
    lines = [
        "Fields of a recipe. In a YAML file a field stands in its section (`training:`, then `  epochs: 3`);",
        "on the command line it is an option (`--training.epochs 3`).",
        *_group("the run", "", [field for field in recipe_fields().values() if not field.section]),
    ]
    for section, kind in nested_sections().items():
        summary = docstring_parser.parse_from_object(kind).short_description or ""
        of = f" (used with --family {section})" if section in FAMILIES else ""
        fields = [field for field in recipe_fields().values() if field.section == section]
        lines += _group(section, f"{summary.rstrip('.')}{of}", fields)
    return "\n".join(lines)


def _group(title: str, summary: str, fields: list[RecipeField]) -> list[str]:
    heading = textwrap.wrap(
        f"{title}: {' '.join(summary.split())}" if summary else title, WIDTH, subsequent_indent="  "
    )
    return ["", *heading, *(line for field in fields for line in _described(field))]


def _described(field: RecipeField) -> list[str]:
    choices = field.choices or literal_choices(field.kind)
    kind = " | ".join(choices) if choices else kind_in_words(field.kind)
    first = textwrap.wrap(
        f"--{field.path}  {kind}  (default: {_spelled(field.default)})",
        WIDTH,
        initial_indent="  ",
        subsequent_indent=_INDENT,
        break_on_hyphens=False,
    )
    return first + textwrap.wrap(field.meaning, WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)


def _spelled(default: Any) -> str:
    if isinstance(default, tuple):
        return f"[{', '.join(map(str, default))}]"
    return {"None": "null", "True": "true", "False": "false"}.get(str(default), str(default))
