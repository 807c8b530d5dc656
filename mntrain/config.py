"""The configuration of one run: a YAML recipe, then overrides from the command line."""

import dataclasses
import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NoReturn

import yaml
from jsonargparse import ArgumentParser, Namespace

from mntrain.backbones.config import BackboneConfig
from mntrain.data.augmentation import AugmentationConfig
from mntrain.data.config import DataConfig
from mntrain.errors import ConfigError
from mntrain.models.families import DEFAULT_FAMILY, FAMILIES, family_named
from mntrain.regular_files import read_text
from mntrain.training_config import TrainingConfig

Normalization = Literal["per_channel", "none"]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_WRONG_TYPE = re.compile(r'key "([^"]+)".*Expected an? <class \'(\w+)\'>\. Got value: (.*?)\.?$')
_KINDS = {"int": "a whole number", "float": "a finite number", "bool": "true or false", "str": "a text"}
_SECTIONS: dict[str, type[Any]] = {
    "data": DataConfig,
    "augmentation": AugmentationConfig,
    "backbone": BackboneConfig,
    "training": TrainingConfig,
}


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
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"name is {self.name!r}; it must be 1 to 100 letters, digits, '.', '_' or '-', "
                "starting with a letter or digit."
            )
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
        plain[self.family] = plain.pop("model")
        return plain

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "ExperimentConfig":
        """Read plain values, the inverse of :meth:`to_dict`; every field is checked again.

        Raises:
            ConfigError: a field is unknown or has a value it cannot have.
        """
        return _assemble(_parser("recipe").parse_object(values), values.get("name", "run"))


def recipe_names() -> list[str]:
    """List the recipes that come with the package."""
    folder = resources.files("mntrain") / "recipes"
    return sorted(item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml"))


def load_experiment(recipe: str | Path, overrides: Sequence[str] = ()) -> ExperimentConfig:
    """Read a recipe and apply command-line overrides such as ``--training.epochs 3``.

    Args:
        recipe: name of a packaged recipe, or path of a YAML file.
        overrides: command-line words; later ones win.

    Raises:
        ConfigError: unknown recipe or field, unreadable YAML, or a value that a field cannot have.
    """
    recipe = str(recipe)
    text, default_name = _read_recipe(recipe)
    values = _parse(recipe, text)
    parser = _parser(recipe)
    return _assemble(parser.parse_args(list(overrides), parser.parse_object(values)), default_name)


def parse_data_fields(words: Sequence[str]) -> dict[str, Any]:
    """Read the fields of ``DataConfig`` that a command line gives, such as ``--data.path NEW``; no others.

    Raises:
        ConfigError: a word is no such field, or a value is of another type.
    """
    parser = _RecipeParser(prog="mntrain evaluate", exit_on_error=True, add_help=False)
    parser.add_class_arguments(DataConfig, "data", instantiate=False)
    given = parser.parse_args(list(words), defaults=False).as_dict()
    return dict(given.get("data") or {})


def describe_fields() -> str:
    """Format the help of every field that a recipe or the command line may set."""
    return _parser("RECIPE").format_help()


def _assemble(namespace: Namespace, default_name: str) -> ExperimentConfig:
    family = str(namespace.family)
    family_config = family_named(family).config
    sections = {key: kind(**namespace[key].as_dict()) for key, kind in _SECTIONS.items()}
    return ExperimentConfig(
        name=f"{default_name}-{family.replace('_', '-')}" if namespace.name is None else namespace.name,
        family=family,
        model=family_config(**namespace[family].as_dict()),
        seed=namespace.seed,
        normalization=namespace.normalization,
        **sections,
    )


class _RecipeParser(ArgumentParser):
    """Parser that reports a wrong field as a :class:`ConfigError` that suggests the nearest right one."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        message = " ".join(message.split())
        wrong_type = _WRONG_TYPE.search(message)
        if wrong_type is not None:
            field_name, kind, value = wrong_type.groups()
            raise ConfigError(f"{field_name} is {value!r}; it must be {_KINDS.get(kind, kind)}.") from ex
        known = [action.dest for action in self._actions if action.option_strings and action.dest not in _SECTIONS]
        for word in re.findall(r"[A-Za-z_][\w.]*", message):
            suggestion = _nearest(word, known)
            if suggestion is not None:
                message = f"{message.rstrip('.')}. Did you mean {suggestion!r}?"
                break
        raise ConfigError(message) from ex


def _nearest(word: str, known: Sequence[str]) -> str | None:
    """Guess the field that ``word`` means: by its whole name, or within the section that it names."""
    if word in known:
        return None
    matches = difflib.get_close_matches(word, known, n=1, cutoff=0.8)
    if matches:
        return matches[0]
    section, _, leaf = word.rpartition(".")
    leaves = {name.rpartition(".")[2]: name for name in known if name.rpartition(".")[0] == section}
    initials = {"".join(part[0] for part in name.split("_")): full for name, full in leaves.items() if "_" in name}
    matches = difflib.get_close_matches(leaf, leaves, n=1, cutoff=0.6)
    return leaves[matches[0]] if matches else initials.get(leaf)


class _RecipeLoader(yaml.SafeLoader):
    """Loader of plain data; aliases are refused, since a few lines of them can stand for billions of values."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not supported")
        return super().compose_node(parent, index)


def _parse(recipe: str, text: str) -> dict[str, Any]:
    """Read the fields of a recipe; an empty section counts as left out."""
    try:
        values = yaml.load(text, _RecipeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split()) if isinstance(error, yaml.YAMLError) else "it is nested too deeply"
        raise ConfigError(f"Recipe {recipe!r} is not valid YAML: {reason}.") from error
    if not isinstance(values, dict):
        raise ConfigError(f"Recipe {recipe!r} holds a {type(values).__name__}; it must hold fields, as `field: value`.")
    for section in [*_SECTIONS, *FAMILIES]:
        content = values.get(section, {})
        if content is None:
            del values[section]
        elif not isinstance(content, dict):
            raise ConfigError(f"{section} is {content!r} in recipe {recipe!r}; it must hold fields, as `field: value`.")
    return values


def _parser(recipe: str) -> _RecipeParser:
    parser = _RecipeParser(prog=f"mntrain fit {recipe}", exit_on_error=True, add_help=False)
    parser.add_argument("--name", type=str | None, default=None, help="the run is kept under runs/NAME")
    parser.add_argument("--family", type=str, default=DEFAULT_FAMILY, help=f"model family: {', '.join(FAMILIES)}")
    parser.add_argument("--seed", type=int, default=0, help="of weights, batches, augmentation and dropout")
    parser.add_argument(
        "--normalization",
        type=Normalization,
        default="per_channel",
        help="of pixels, inside the exported graph too; of columns, for rows",
    )
    for key, kind in {**_SECTIONS, **{name: family.config for name, family in FAMILIES.items()}}.items():
        parser.add_class_arguments(kind, key, instantiate=False)
    return parser


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
            raise ConfigError(f"Recipe file {recipe!r} cannot be read: {reason}.") from error
    matches = difflib.get_close_matches(recipe, recipe_names(), n=1)
    hint = f" Did you mean {matches[0]!r}?" if matches else ""
    raise ConfigError(
        f"There is no recipe {recipe!r}; choose from {', '.join(recipe_names())}, or give the path "
        f"of a YAML file.{hint}"
    )
