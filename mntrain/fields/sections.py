"""Reading of settings in sections that are no recipe, such as those of ``mntrain fewshot`` and ``mntrain head``."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar, get_type_hints

from mntrain.errors import ConfigError
from mntrain.fields.listing import RecipeField
from mntrain.fields.parsing import FieldParser
from mntrain.fields.suggestion import nearest

Sections = TypeVar("Sections")


def parse_sections(defaults: Sections, words: Sequence[str], command: str) -> Sections:
    """Read settings such as ``--finetune.epochs 50``.

    Args:
        defaults: dataclass whose fields are sections, which are dataclasses themselves.
        words: of a command line.
        command: that they were given to, for messages.

    Raises:
        ConfigError: a word is no setting, or its value cannot be.
    """
    described: Any = defaults
    sections = {section.name: getattr(defaults, section.name) for section in fields(described)}
    known = [f"--{name}.{setting.name}" for name, section in sections.items() for setting in fields(section)]
    for word in words:
        name = word.partition("=")[0]
        if word.startswith("--") and name not in known:
            meant = nearest(name, known)
            hint = f"did you mean {meant}?" if meant else f"settings are {', '.join(known)}."
            raise ConfigError(f"{name} is no setting of `{command}`; {hint}")
    parser = FieldParser(command, {field.path: field for name in sections for field in _fields(name, sections[name])})
    for name, section in sections.items():
        parser.add_class_arguments(type(section), name, instantiate=False)
    given: dict[str, Any] = parser.parse_args(list(words), defaults=False).as_dict()
    changed: Any = {name: replace(sections[name], **values) for name, values in given.items() if values}
    return replace(described, **changed)  # type: ignore[no-any-return]


def _fields(name: str, section: Any) -> list[RecipeField]:
    hints = get_type_hints(type(section))
    return [
        RecipeField(
            path=f"{name}.{field.name}", kind=hints[field.name], default=getattr(section, field.name), meaning=""
        )
        for field in fields(section)
    ]
