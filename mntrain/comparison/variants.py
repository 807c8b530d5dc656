"""What can be compared: named sets of overrides, after the tables of the paper."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from mntrain.errors import ConfigError

_VANILLA = ("--family", "vanilla")
_MN = ("--family", "meta_neighborhoods")
_IFILM = ("--backbone.ifilm", "true")
_MAXL = ("--family", "maxl")
# Section A.2; the generator's rate (0.001) and the virtual step (the learner's rate) are those of MAXL's authors.
_PUBLISHED_MAXL = (
    *_MAXL,
    *("--training.optimizer", "sgd", "--training.learning_rate", "0.1", "--training.weight_decay", "0.0005"),
    *("--training.drop_every", "50", "--training.drop_factor", "0.5"),
    *("--maxl.generator_rate", "0.01", "--maxl.virtual_step", "0.1"),
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,39}")


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A name in the table and the words that make it from the recipe.

    Args:
        name: up to 40 letters, digits, '.', '_', '+' or '-'.
        words: overrides for ``mntrain fit``.
    """

    name: str
    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"A variant is called {self.name!r}; it must be 1 to 40 letters, digits, '.', '_', '+' or '-', "
                "starting with a letter or digit."
            )

    @property
    def slug(self) -> str:
        """The name as part of a run's name."""
        return self.name.replace("+", "-")


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One field over several values: an ablation (Fig. 8).

    Args:
        field: with its section, for instance meta_neighborhoods.entries.
        values: as written on the command line.
    """

    field: str
    values: tuple[str, ...]

    def variants(self) -> tuple[Variant, ...]:
        """A Meta-Neighborhoods variant for each value."""
        leaf = self.field.rpartition(".")[2]
        return tuple(Variant(name=f"{leaf}-{value}", words=(*_MN, f"--{self.field}", value)) for value in self.values)


def _dot_or_cos(head: str, optimizer: str) -> tuple[str, ...]:
    # With SGD the rate and decay that section A.2 states for it; the recipe's are for AdamW.
    own = ("--training.learning_rate", "0.1", "--training.weight_decay", "0.0005") if optimizer == "sgd" else ()
    return (*_VANILLA, "--vanilla.head", head, "--training.optimizer", optimizer, *own)


def _stepped(steps: int, form: str) -> tuple[str, ...]:
    return (*_MN, "--meta_neighborhoods.steps", str(steps), "--meta_neighborhoods.step_size_form", form)


BUILT_IN: dict[str, Variant] = {
    name: Variant(name=name, words=words)
    for name, words in {
        # Table 1.
        "vanilla": (*_VANILLA, "--backbone.ifilm", "false"),
        "vanilla+ifilm": (*_VANILLA, *_IFILM),
        "mn": (*_MN, "--backbone.ifilm", "false"),
        "mn+ifilm": (*_MN, *_IFILM),
        "maxl": _MAXL,
        "maxl-sgd": _PUBLISHED_MAXL,
        # Table 3. The paper's diagonal step size has one element for each parameter.
        "dot-sgd": _dot_or_cos("dot", "sgd"),
        "dot-adamw": _dot_or_cos("dot", "adamw"),
        "cos-sgd": _dot_or_cos("cosine", "sgd"),
        "cos-adamw": _dot_or_cos("cosine", "adamw"),
        "mn-1-scalar": _stepped(1, "scalar"),
        "mn-1-diagonal": _stepped(1, "per_parameter"),
        "mn-3-scalar": _stepped(3, "scalar"),
        "mn-3-diagonal": _stepped(3, "per_parameter"),
    }.items()
}


def built_in(names: Sequence[str]) -> tuple[Variant, ...]:
    """The built-in variants called ``names``.

    Raises:
        ConfigError: one is not built in.
    """
    for name in names:
        if name not in BUILT_IN:
            near = get_close_matches(name, BUILT_IN, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ConfigError(
                f"--variants names {name!r}, which is not built in; choose from {', '.join(BUILT_IN)}, or make your "
                f"own with --variant 'NAME=--field value'.{hint}"
            )
    return tuple(BUILT_IN[name] for name in names)


def custom(text: str) -> Variant:
    """A variant from ``NAME=--field value …``.

    Raises:
        ConfigError: there is no name, no field, or an open quote.
    """
    name, equals, rest = text.partition("=")
    try:
        words = tuple(shlex.split(rest))
    except ValueError as error:
        raise ConfigError(f"--variant {text!r} cannot be read ({error}); close every quote.") from error
    if not equals or not words or not words[0].startswith("--"):
        raise ConfigError(
            f"--variant is {text!r}; it must be NAME=--field value, as in 'mn-500=--meta_neighborhoods.entries 500'."
        )
    return Variant(name=name.strip(), words=words)


def sweep(text: str) -> Sweep:
    """A sweep from ``FIELD=v1,v2``; a field without section is one of meta_neighborhoods.

    Raises:
        ConfigError: there is no field, or fewer than two values, or one twice.
    """
    field, _, rest = text.partition("=")
    field = field.strip().removeprefix("--")
    values = tuple(value.strip() for value in rest.split(",") if value.strip())
    if not field or len(values) < 2 or len(set(values)) < len(values):
        raise ConfigError(
            f"--sweep is {text!r}; it must be FIELD=v1,v2,… with two or more different values, as in "
            "'meta_neighborhoods.entries=500,1000,5000'."
        )
    return Sweep(field=field if "." in field else f"meta_neighborhoods.{field}", values=values)
