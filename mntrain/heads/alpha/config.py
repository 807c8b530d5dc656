"""Settings of Alpha Net."""

from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Literal

from mntrain.config_fields import require_finite
from mntrain.errors import ConfigError

Source = Literal["base", "many", "all"]
Clamp = Literal["both", "own", "none"]
Network = Literal["per_class", "shared", "later"]
OptimizerChoice = Literal["auto", "sgd", "adamw"]
Sweep = Literal["none", "gamma", "neighbors", "both"]
SWEEPS = ("none", "gamma", "neighbors", "both")
BiasRule = Literal["auto", "composed", "unchanged"]

_WORDS = MappingProxyType(
    {
        "source": ("base", "many", "all"),
        "clamp": ("both", "own", "none"),
        "start": ("inside", "ordinary"),
        "network": ("per_class", "shared", "later"),
        "bias": ("auto", "composed", "unchanged"),
        "optimizer": ("auto", "sgd", "adamw"),
        "redraw": ("epoch", "once"),
    }
)
_PAPER: dict[str, Any] = {
    "optimizer": "sgd",
    "learning_rate": 0.1,
    "epochs": 80,
    "drop_every": 20,
    "bias": "composed",
}
_LATER: dict[str, Any] = {
    "optimizer": "adamw",
    "learning_rate": 1e-3,
    "epochs": 25,
    "drop_every": 10,
    "bias": "unchanged",
    "reduced": 0,
    "hidden": 32,
}
_OPEN: dict[str, Any] = {
    "optimizer": "auto",
    "learning_rate": 0,
    "epochs": 0,
    "drop_every": 0,
    "bias": "auto",
    "reduced": None,
    "hidden": 0,
}
_CLAMPED = (0.7, "both", "inside")
_DECAY = {"sgd": 0.0, "adamw": 0.01}


@dataclass(frozen=True, kw_only=True)
class AlphaConfig:
    """Alpha Net (defaults: sections 3.2 and 4.1 of the paper; network ``later`` has those of the later public version).

    Args:
        neighbors: K, nearest classes whose classifiers are composed with that of a few class.
        source: classes that neighbors are chosen among. base is many and medium together, all adds the other few
            classes.
        gamma: γ, largest coefficient of a class's own classifier. Lower values gain more on few classes.
        clamp: both also holds neighbors within (1−γ)/K and 1−γ, as table 3 shows; own clamps the own coefficient
            alone, as the text of the paper has it; none clamps nothing. The network later never clamps.
        start: inside starts at 0.9γ and 1.2(1−γ)/K, where a clamp has gradients; ordinary starts as PyTorch's layers.
        network: per_class is one module for each few class; shared has one module for all (appendix A); later is the
            shared network of the later public version, with coefficient 1 for the own classifier and a sum of
            magnitudes of 1 for the neighbors.
        reduced: width that principal components reduce the classifiers to before a module reads them; 0 reads them
            whole, None takes 500 or the rank, if that is less. Compositions are of whole classifiers.
        hidden: width of hidden layers; 0 takes the width of one reduced classifier, or 32 for the network later.
        bias: composed composes biases as weights, unchanged keeps those of few classes; auto takes that of the network.
        negatives: random examples of base classes for each example of a few class; 0 is appendix E.
        redraw: draw negatives anew for every epoch, or once.
        optimizer: sgd or adamw; auto takes that of the network.
        learning_rate: until the first drop; 0 takes that of the network, 0.1 or 0.001 for the network later.
        momentum: of sgd.
        weight_decay: None takes 0 for sgd and 0.01 for adamw.
        batch_size: examples of a step.
        epochs: 0 takes those of the network, 80 or 25 for the network later.
        drop_every: epochs after which the learning rate drops, again and again; 0 takes those of the network, 20 or 10
            for the network later.
        drop_factor: what the learning rate is multiplied by then.

    Raises:
        ConfigError: a value outside its limits.
    """

    neighbors: int = 5
    source: Source = "base"
    gamma: float = 0.7
    clamp: Clamp = "both"
    start: Literal["inside", "ordinary"] = "inside"
    network: Network = "per_class"
    reduced: int | None = None
    hidden: int = 0
    bias: BiasRule = "auto"
    negatives: float = 1.0
    redraw: Literal["epoch", "once"] = "epoch"
    optimizer: OptimizerChoice = "auto"
    learning_rate: float = 0.0
    momentum: float = 0.9
    weight_decay: float | None = None
    batch_size: int = 64
    epochs: int = 0
    drop_every: int = 0
    drop_factor: float = 0.1

    def __post_init__(self) -> None:
        require_finite("alpha", self)
        for field, words in _WORDS.items():
            if getattr(self, field) not in words:
                raise self._refused(field, f"{', '.join(words[:-1])} or {words[-1]}")
        if not 0 < self.gamma <= 1:
            raise self._refused("gamma", "above 0 and at most 1 (0.7 is usual; 1 leaves neighbors out)")
        for field, least, hint in (
            ("neighbors", 1, "5 is usual"),
            ("reduced", 0, "0 reads classifiers whole"),
            ("hidden", 0, "0 takes that of the network"),
            ("batch_size", 1, "64 is usual"),
            ("epochs", 0, "0 takes those of the network, 80"),
            ("drop_every", 0, "0 takes those of the network, 20"),
        ):
            value = getattr(self, field)
            if value is not None and value < least:
                raise self._refused(field, f"at least {least} ({hint})")
        if not 0 <= self.negatives <= 1000:
            raise self._refused("negatives", "from 0 to 1000 (1 is usual; 0 is appendix E)")
        if not 0 <= self.learning_rate < 10:
            raise self._refused("learning_rate", "above 0 and below 10 (0.1 is usual), or 0 for that of the network")
        if not 0 <= self.momentum < 1:
            raise self._refused("momentum", "at least 0 and below 1 (0.9 is usual)")
        if self.weight_decay is not None and not 0 <= self.weight_decay < 100:
            raise self._refused("weight_decay", "0 or above")
        if not 0 < self.drop_factor <= 1:
            raise self._refused("drop_factor", "above 0 and at most 1")
        if self.network == "later" and (self.gamma, self.clamp, self.start) != _CLAMPED:
            raise ConfigError(
                f"alpha.network is 'later', whose coefficients are not clamped, but alpha.gamma is {self.gamma!r}, "
                f"alpha.clamp {self.clamp!r} and alpha.start {self.start!r}; leave them out, or set alpha.network to "
                "per_class or shared."
            )

    def _refused(self, field: str, limit: str) -> ConfigError:
        return ConfigError(f"alpha.{field} is {getattr(self, field)!r}; it must be {limit}.")

    def resolved(self) -> "AlphaConfig":
        """Fill in the values of the network where a field leaves them open; ``reduced`` and ``hidden`` may stay so."""
        own = _LATER if self.network == "later" else _PAPER
        values = {name: value for name, value in own.items() if getattr(self, name) == _OPEN[name]}
        config = replace(self, **values)
        return config if config.weight_decay is not None else replace(config, weight_decay=_DECAY[config.optimizer])


@dataclass(frozen=True, kw_only=True)
class AlphaHeadSettings(AlphaConfig):
    """Settings of Alpha Net as a head, with those of :class:`AlphaConfig`.

    Args:
        choose_gamma: choose γ among 0.1, 0.2 … 0.9 on the validation rows; ``gamma`` is not used then.
        sweep: values that the record has scores for, each by a training of its own: gamma for γ from 0.1 to 0.9,
            neighbors for K of 2, 5 and 10, both or none.
    """

    choose_gamma: bool = False
    sweep: Sweep = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sweep not in SWEEPS:
            raise self._refused("sweep", f"{', '.join(SWEEPS[:-1])} or {SWEEPS[-1]}")
        if self.network == "later" and (self.choose_gamma or self.sweep in ("gamma", "both")):
            asked = "alpha.choose_gamma is true" if self.choose_gamma else f"alpha.sweep is {self.sweep!r}"
            raise ConfigError(
                f"alpha.network is 'later', which has no γ, but {asked}; leave it out, or set alpha.network to "
                "per_class or shared."
            )
        if self.choose_gamma and self.gamma != _CLAMPED[0]:
            raise ConfigError(
                f"alpha.gamma is {self.gamma!r}, but alpha.choose_gamma is true, which chooses it on the validation "
                "rows; leave one of them out."
            )

    def plain(self) -> AlphaConfig:
        """Return the settings of one composition, without those that choose and sweep."""
        return AlphaConfig(**{field.name: getattr(self, field.name) for field in fields(AlphaConfig)})
