"""The configuration of one run: a YAML recipe, then overrides from the command line."""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import Namespace

from mntrain.backbones.config import BackboneConfig
from mntrain.data.augmentation import AugmentationConfig
from mntrain.data.config import DataConfig
from mntrain.errors import ConfigError
from mntrain.fields.listing import SECTIONS, Normalization, section_from, sections
from mntrain.fields.parsing import check_values, check_words, recipe_parser
from mntrain.fields.short_names import expand_values, expand_words
from mntrain.fields.suggestion import nearest
from mntrain.models.families import DEFAULT_FAMILY, SHORT_NAMES, FamilyChoice, family_named
from mntrain.regular_files import read_text
from mntrain.training_config import TrainingConfig

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, kw_only=True)
class ExperimentConfig:
    """Configuration of a run.

    Args:
        name: the run is kept under ``runs/NAME``.
        family: model family.
        model: settings of that family (an instance of its configuration class).
        seed: of initialisation, order of batches, augmentation and dropout.
        normalization: per_channel normalises by mean and deviation of each channel of the training images, or each
            column of the training rows; none only scales images to 0..1, and leaves rows as they are.
        data: where the images or rows come from and how they are split.
        augmentation: what is done to training images.
        backbone: feature extractor.
        training: optimisation.
    """

    name: str
    family: str
    model: Any
    seed: int = 0
    normalization: Normalization = "per_channel"
    data: DataConfig = field(default_factory=DataConfig)
    augmentation: AugmentationConfig = field(default_factory=AugmentationConfig)
    backbone: BackboneConfig = field(default_factory=BackboneConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def __post_init__(self) -> None:
        check_run_name(self.name)
        if not 0 <= self.seed < 2**31:
            raise ConfigError(f"seed is {self.seed}; it must be from 0 to {2**31 - 1}.")
        expected = family_named(self.family).config
        if not isinstance(self.model, expected):
            raise ConfigError(
                f"model is a {type(self.model).__name__}, but family {self.family!r} takes a {expected.__name__}."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that a recipe file may hold; the family's settings stand under its own name."""
        plain = dataclasses.asdict(self) | {"data": self.data.to_dict()}
        for name in ("milestones", "loggers"):  # as a file has them
            plain["training"][name] = list(plain["training"][name])
        plain[self.family] = plain.pop("model")
        return plain

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "ExperimentConfig":
        """Read plain values, the inverse of :meth:`to_dict`; every field is checked again.

        Runs from before ``training.last_batch`` existed left out what filled no batch, and are read as such.

        Raises:
            ConfigError: a field is unknown or has a value it cannot have.
        """
        training = values.get("training")
        if isinstance(training, dict) and "last_batch" not in training:
            values = values | {"training": training | {"last_batch": "drop"}}
        return _assemble(recipe_parser().parse_object(values), values.get("name", "run"))


def check_run_name(name: str) -> None:
    """Check the name of a run, which is that of its folder.

    Raises:
        ConfigError: it has other characters, or is too long.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"name is {name!r}; it must be 1 to 100 letters, digits, '.', '_' or '-', starting with a letter or digit."
        )


def recipe_names() -> list[str]:
    """List the recipes that come with the package."""
    folder = resources.files("mntrain") / "recipes"
    return sorted(item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml"))


def load_experiment(recipe: str | Path, overrides: Sequence[str] = ()) -> ExperimentConfig:
    """Read a recipe and apply command-line overrides such as ``--training.epochs 3``.

    Short names of families (``mn``, ``ifilm``, ``mn+ifilm``) are read as the families' own, with iFiLM in the backbone.

    Args:
        recipe: name of a packaged recipe, or path of a YAML file.
        overrides: command-line words; later ones win.

    Raises:
        ConfigError: unknown recipe or field, unreadable YAML, or a value that a field cannot have.
    """
    recipe = str(recipe)
    words, chosen = expand_words(overrides)
    check_words(words, DEFAULT_FAMILY if chosen is None else chosen.family)
    return _experiment(recipe, *_read_recipe(recipe), tuple(words), chosen)


@lru_cache(maxsize=1024)  # plans of many runs ask for the same ones, and each takes 25 ms
def _experiment(
    recipe: str, text: str, default_name: str, words: tuple[str, ...], chosen: FamilyChoice | None
) -> ExperimentConfig:
    """Read the text of a recipe, and words without short names; ``chosen`` is the family that they name."""
    parser = recipe_parser()
    with _naming(recipe):
        values, own = expand_values(_parse(recipe, text))
        check_values(values, str(values.get("family", DEFAULT_FAMILY)))
        choice = chosen or own  # a family of the command line replaces that of the recipe, with its iFiLM
        if choice is not None and choice.ifilm and choice is own:
            values["backbone"] = {"ifilm": True} | values.get("backbone", {})
        alone = parser.parse_object(values)
    suffix = "-ifilm" if choice is not None and choice.ifilm else ""
    try:
        return _assemble(parser.parse_args(list(words), alone.clone()), default_name, suffix)
    except ConfigError as error:
        if str(error) == _fault(alone, default_name):
            with _naming(recipe):
                raise
        raise


def _fault(namespace: Namespace, default_name: str) -> str | None:
    """Return the message about values that cannot be; None where they can."""
    try:
        _assemble(namespace, default_name)
    except ConfigError as error:
        return str(error)
    return None


@contextmanager
def _naming(recipe: str) -> Iterator[None]:
    """Put the name of a recipe file before errors about its content; recipes of this package are not at fault."""
    try:
        yield
    except ConfigError as error:
        if recipe in recipe_names():
            raise
        raise ConfigError(f"{recipe}: {error}") from error


def _assemble(namespace: Namespace, default_name: str, suffix: str = "") -> ExperimentConfig:
    family = str(namespace.family)
    description = family_named(family)
    model = description.config(**namespace[family].as_dict())
    if description.complete is not None:
        model = description.complete(model, namespace.as_dict())
    sections = {key: section_from(kind, namespace[key].as_dict()) for key, kind in SECTIONS.items()}
    own_name = f"{default_name}-{family.replace('_', '-')}{suffix}"
    return ExperimentConfig(
        name=own_name if namespace.name is None else namespace.name,
        family=family,
        model=model,
        seed=namespace.seed,
        normalization=namespace.normalization,
        **sections,
    )


class _RecipeLoader(yaml.SafeLoader):
    """Loader of plain data; aliases are refused, since a few lines of them can stand for billions of values."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not supported")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise yaml.YAMLError(f"{twice} stands there twice; leave one of them")
        return super().construct_mapping(node, deep)


def _parse(recipe: str, text: str) -> dict[str, Any]:
    """Read the fields of a recipe; an empty section counts as left out."""
    try:
        values = yaml.load(text, _RecipeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split()) if isinstance(error, yaml.YAMLError) else "it is nested too deeply"
        raise ConfigError(f"Recipe {recipe!r} is not valid YAML: {reason}.") from error
    if not isinstance(values, dict):
        found = "nothing" if values is None else f"a {type(values).__name__}"
        raise ConfigError(f"Recipe {recipe!r} holds {found}; it must hold fields, as `field: value`.")
    for section in [*sections(), *SHORT_NAMES]:
        content = values.get(section, {})
        if content is None:
            del values[section]
        elif not isinstance(content, dict):
            raise ConfigError(f"{section} is {content!r} in recipe {recipe!r}; it must hold fields, as `field: value`.")
    return values


def recipe_stem(recipe: str) -> str:
    """Name of a recipe without folder and ending."""
    return Path(recipe).stem if recipe.endswith((".yaml", ".yml")) else Path(recipe).name


def _read_recipe(recipe: str) -> tuple[str, str]:
    path = Path(recipe)
    packaged = resources.files("mntrain") / "recipes" / f"{recipe}.yaml"
    if recipe in recipe_names():
        return packaged.read_text(encoding="utf-8"), recipe
    if path.suffix in (".yaml", ".yml") or path.is_file():
        try:
            return read_text(path), path.stem
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            hint = ""
            if isinstance(error, FileNotFoundError):
                near = nearest(path.name, [item.name for item in path.parent.glob("*.y*ml")])
                hint = "" if near is None else f" Did you mean {str(path.with_name(near))!r}?"
            raise ConfigError(f"Recipe file {recipe!r} cannot be read: {reason}.{hint}") from error
    near = nearest(recipe, recipe_names())
    hint = "" if near is None else f" Did you mean {near!r}?"
    raise ConfigError(
        f"There is no recipe {recipe!r}; choose from {', '.join(recipe_names())}, or give the path "
        f"of a YAML file.{hint}"
    )
