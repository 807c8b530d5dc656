"""Settings of heads, and their words on a command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from mntrain.config_fields import require_finite
from mntrain.data.classes.order import SAMPLINGS, Sampling
from mntrain.errors import ConfigError
from mntrain.fields.sections import parse_sections
from mntrain.heads.alpha.config import AlphaHeadSettings
from mntrain.heads.scores import Choice


@dataclass(frozen=True, kw_only=True)
class HeadSettings:
    """Settings that methods share (defaults of training: Kang et al. 2020).

    Args:
        base: classifier that lws, tau, bias and fixed start from, and that others are compared with. probe is a linear
            probe; network is the network's own last layer.
        many: a class of more training examples is one of many.
        few: a class of fewer training examples is one of few.
        choose: validation score that settings are chosen by, over all classes. balanced counts every class alike;
            accuracy counts every example alike.
        epochs: passes over the training rows; 0 takes 90 for joint, 10 for crt and 5 for lws.
        least_steps: steps that training has at least, in more epochs where there are few rows.
        batch_size: rows of a batch, or all rows where there are fewer.
        learning_rate: falls to 0 along half a cosine; 0 chooses it on the validation rows, from 0.002, 0.02 and
            0.2 on.
        momentum: of SGD.
        weight_decay: of SGD, on standardised features.
        sampling: draw of the rows that crt and lws learn from.
        hidden: units of mlp.
        neighbors: base classes K that fixed composes a class of few with.
        constant: of bias; None chooses it on the validation rows.
        coefficient: of each neighbor in fixed; None chooses it on the validation rows.
    """

    base: Literal["probe", "network"] = "probe"
    many: int = 100
    few: int = 20
    choose: Choice = "balanced"
    epochs: int = 0
    least_steps: int = 1000
    batch_size: int = 512
    learning_rate: float = 0.0
    momentum: float = 0.9
    weight_decay: float = 5e-4
    sampling: Sampling = "class_balanced"
    hidden: int = 512
    neighbors: int = 5
    constant: float | None = None
    coefficient: float | None = None

    def __post_init__(self) -> None:
        require_finite("head", self)
        limits = {
            "base": (self.base in ("probe", "network"), "probe or network"),
            "few": (0 <= self.few <= self.many + 1, f"from 0 to {self.many + 1}, so that no class is few and many"),
            "choose": (self.choose in ("balanced", "accuracy"), "balanced or accuracy"),
            "epochs": (0 <= self.epochs <= 100_000, "from 0 (the method's own number) to 100000"),
            "least_steps": (0 <= self.least_steps <= 10**7, "from 0 to 10^7 (1000 is usual)"),
            "batch_size": (1 <= self.batch_size <= 10**6, "from 1 to 10^6 (512 is usual)"),
            "learning_rate": (0 <= self.learning_rate < 100, "from 0 (chosen on the validation rows) to below 100"),
            "momentum": (0 <= self.momentum < 1, "from 0 to below 1 (0.9 is usual)"),
            "weight_decay": (0 <= self.weight_decay < 10, "from 0 to below 10 (0.0005 is usual)"),
            "sampling": (self.sampling in SAMPLINGS, " or ".join(SAMPLINGS)),
            "hidden": (1 <= self.hidden <= 10**6, "from 1 to 10^6 (512 is usual)"),
            "constant": (abs(self.constant or 0) <= 1000, "from -1000 to 1000 nats, or null to choose it"),
            "coefficient": (abs(self.coefficient or 0) <= 1000, "from -1000 to 1000, or null to choose it"),
            "neighbors": (1 <= self.neighbors <= 1000, "from 1 to 1000 (5 is usual)"),
        }
        for name, (right, limit) in limits.items():
            if not right:
                raise ConfigError(f"head.{name} is {getattr(self, name)!r}; it must be {limit}.")


@dataclass(frozen=True, kw_only=True)
class HeadSections:
    """Settings in sections.

    Args:
        head: that methods share.
        alpha: of Alpha Net.
    """

    head: HeadSettings = field(default_factory=HeadSettings)
    alpha: AlphaHeadSettings = field(default_factory=AlphaHeadSettings)


def parse_head_settings(words: Sequence[str]) -> HeadSections:
    """Read settings such as ``--head.few 30``.

    Raises:
        ConfigError: a word is no setting, or its value cannot be.
    """
    return parse_sections(HeadSections(), words, "mntrain head")
