"""List of all fields that a recipe or a command line may set."""

import dataclasses
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, get_type_hints

import docstring_parser

from mntrain.backbones.config import BACKBONES, BackboneConfig
from mntrain.data.augmentation import AugmentationConfig
from mntrain.data.config import DataConfig
from mntrain.data.registry import SOURCES
from mntrain.models.families import DEFAULT_FAMILY, FAMILIES, family_words
from mntrain.training_config import TrainingConfig

Normalization = Literal["per_channel", "none"]

SECTIONS = MappingProxyType[str, type[Any]](
    {"data": DataConfig, "augmentation": AugmentationConfig, "backbone": BackboneConfig, "training": TrainingConfig}
)
"""Sections of a recipe beside those of the families."""


@dataclass(frozen=True, kw_only=True)
class RecipeField:
    """A field of a recipe.

    Args:
        path: its name, after that of its section and a dot.
        kind: type of its value.
        default: its value where a recipe does not set it.
        meaning: one or more sentences.
        choices: values that a text may have; empty for any.
    """

    path: str
    kind: Any
    default: Any
    meaning: str
    choices: tuple[str, ...] = ()

    @property
    def section(self) -> str:
        """The section; empty for a field of the run."""
        return self.path.rpartition(".")[0]


RUN_FIELDS = (
    RecipeField(
        path="name",
        kind=str | None,
        default=None,
        meaning="The run is kept under runs/NAME; null takes the names of recipe and family.",
    ),
    RecipeField(
        path="family",
        kind=str,
        default=DEFAULT_FAMILY,
        meaning="Model family; with +ifilm it has iFiLM, as with backbone.ifilm.",
        choices=family_words(),
    ),
    RecipeField(
        path="seed",
        kind=int,
        default=0,
        meaning="Seed of weights, order of batches, augmentation and dropout.",
    ),
    RecipeField(
        path="normalization",
        kind=Normalization,
        default="per_channel",
        meaning="per_channel subtracts the mean and divides by the deviation, of each channel of the training images "
        "or each column of the training rows; none leaves pixels in 0..1 and rows as they are.",
    ),
)
# Registered names that a field of text takes.
_CHOICES = {
    "data.source": tuple(SOURCES),
    "backbone.name": BACKBONES,
    "training.accelerator": ("auto", "cpu", "cuda", "mps"),
}


def sections() -> dict[str, type[Any]]:
    """Return the dataclass of every section, those of the families last."""
    return {**SECTIONS, **{name: family.config for name, family in FAMILIES.items()}}


def nested_sections() -> dict[str, type[Any]]:
    """Return the dataclass of every section, each followed by those within it, such as ``backbone.similarity``."""
    found: dict[str, type[Any]] = {}
    for section, kind in sections().items():
        found[section] = kind
        found |= {f"{section}.{name}": inner for name, inner in inner_sections(kind).items()}
    return found


def inner_sections(kind: type[Any]) -> dict[str, type[Any]]:
    """Return the fields of a section that are sections of their own, with their dataclasses."""
    hints = get_type_hints(kind)
    return {
        field.name: hints[field.name]
        for field in dataclasses.fields(kind)
        if dataclasses.is_dataclass(hints[field.name])
    }


def section_from(kind: type[Any], values: Mapping[str, Any]) -> Any:
    """Build the dataclass of a section from plain values, with the sections within it; an empty one is left out."""
    inner = {name: own(**(values[name] or {})) for name, own in inner_sections(kind).items() if name in values}
    return kind(**{**values, **inner})


@cache
def recipe_fields() -> MappingProxyType[str, RecipeField]:
    """Return all fields by their paths: those of the run, then those of each section."""
    fields = {field.path: field for field in RUN_FIELDS}
    for section, kind in nested_sections().items():
        meanings = {item.arg_name: item.description for item in docstring_parser.parse_from_object(kind).params}
        hints, inner = get_type_hints(kind), inner_sections(kind)
        for field in dataclasses.fields(kind):
            if field.name in inner:
                continue
            path = f"{section}.{field.name}"
            fields[path] = RecipeField(
                path=path,
                kind=hints[field.name],
                default=field.default if field.default_factory is MISSING else field.default_factory(),
                meaning=" ".join((meanings.get(field.name) or "").replace("``", "").replace("None", "null").split()),
                choices=_CHOICES.get(path, ()),
            )
    return MappingProxyType(fields)
