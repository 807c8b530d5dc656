"""Learned parameters of the adaptation: the dictionary, its random subsets while training, and the inner step size.

Sections 2.1, 2.2 and A.2 of Meta-Neighborhoods.

Shapes: B queries, S entries, C classes, d features. keys [S, d], value logits [S, C], values [S, C]. Step size α: []
(scalar), [d] (per feature, shared over classes) or [C, d] (per parameter), that is a scalar or a diagonal matrix.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from mntrain.distributed import uniform_rows
from mntrain.models.base import ParameterGroup
from mntrain.models.meta_neighborhoods.config import DropoutMode, MetaNeighborhoodsConfig, Rate, StepSizeForm
from mntrain.models.meta_neighborhoods.start import Counts, confident_logits, entry_labels


class Entries(NamedTuple):
    """Entries of one forward pass: S' = S, or fewer under ``per_batch`` dropout."""

    keys: Tensor  # [S', d]
    values: Tensor  # [S', C], rows sum to 1
    keep: Tensor | None  # boolean [B, S'], or None where every entry counts


class Dictionary(nn.Module):
    """Key-value pairs (k_j, v_j) with learned keys. Values are a softmax of free logits, or one class each for good.

    While training, a random part of the entries is dropped.

    Args:
        config: entries, their initial keys and values, and dropout.
        features: d.
        classes: C.
    """

    fixed_values: Tensor  # [S, C] one-hot, where values are not learned

    def __init__(self, config: MetaNeighborhoodsConfig, *, features: int, classes: int) -> None:
        super().__init__()
        entries = config.entries
        self.keys = nn.Parameter(initial_keys(config, features))
        self.learns_values = config.values == "learned"
        if self.learns_values:
            self.value_logits = nn.Parameter(torch.randn(entries, classes) * config.value_logit_std)
        else:
            entry_classes = torch.randint(classes, (entries,))
            self.register_buffer("fixed_values", one_hot(entry_classes, classes).to(self.keys.dtype))
        self.dropout = EntryDropout.from_config(config)

    @property
    def learned_values(self) -> nn.Parameter | None:
        """Free logits [S, C] of the values; None where values are fixed."""
        return self.value_logits if self.learns_values else None

    def values(self, positions: Tensor | None = None) -> Tensor:
        """Class probabilities v [S, C] of every entry, or of those at ``positions`` int64 [S']."""
        stored = self.value_logits if self.learns_values else self.fixed_values
        rows = stored if positions is None else stored[positions]
        return torch.softmax(rows, dim=-1) if self.learns_values else rows

    @torch.no_grad()
    def place(self, keys: Tensor, counts: Counts, confidence: float) -> None:
        """Set all entries.

        Args:
            keys: [S, d], those of one class after one another.
            counts: entries of each class, int64 [C].
            confidence: share of an entry's class among its values, where these are learned.
        """
        self.keys.copy_(keys)
        if self.learns_values:
            self.value_logits.copy_(confident_logits(counts, confidence))
        else:
            self.fixed_values.copy_(one_hot(entry_labels(counts), len(counts)))

    def entries_for(self, batch: int) -> Entries:
        """Entries for ``batch`` queries: all of them in eval mode, a random part while training."""
        if not self.training:
            return Entries(self.keys, self.values(), None)
        kept = self.dropout.draw(batch, self.keys.shape[0], self.keys.device)
        if kept.positions is None:
            return Entries(self.keys, self.values(), kept.mask)
        return Entries(self.keys[kept.positions], self.values(kept.positions), None)


class KeptEntries(NamedTuple):
    """Entries that one forward pass keeps; both None where it keeps all."""

    positions: Tensor | None  # int64 [S'] of the entries for all queries, or None for all S
    mask: Tensor | None  # boolean [B, S], or None where all queries have the same entries


@dataclass(kw_only=True)
class EntryDropout:
    """Random dropping of entries, so that the gradient does not gather on a few of them.

    ``per_sample`` draws a mask for every query, as the authors' code does; ``per_batch`` gathers one random subset for
    the whole batch, which also shrinks every matrix product. Draws are taken from the global generators until
    :meth:`seed` gives the entries a stream of their own.

    Args:
        share: of the entries that is dropped, from 0 to below 1.
        mode: per_sample or per_batch.
    """

    share: float
    mode: DropoutMode
    _seed: int | None = field(default=None, init=False)
    _generator: torch.Generator | None = field(default=None, init=False)

    @classmethod
    def from_config(cls, config: MetaNeighborhoodsConfig) -> "EntryDropout":
        """Read share and mode from the family's settings."""
        return cls(share=config.dropout, mode=config.dropout_mode)

    def seed(self, seed: int) -> None:
        """Draw from a generator of its own from now on, so that other draws are those of a model without entries."""
        self._seed, self._generator = seed, None

    def draw(self, batch: int, total: int, device: torch.device) -> KeptEntries:
        """Draw a new subset of ``total`` entries for ``batch`` queries."""
        if self.share == 0:
            return KeptEntries(None, None)
        generator = self._generator_on(device)
        if self.mode == "per_batch":
            count = max(1, round(total * (1 - self.share)))
            return KeptEntries(torch.randperm(total, device=device, generator=generator)[:count], None)
        drawn = uniform_rows(batch, total, device, generator)
        # A query that lost every entry would have no neighborhood at all: it keeps one, any of them.
        return KeptEntries(None, (drawn >= self.share).scatter_(1, drawn.argmax(dim=-1, keepdim=True), True))

    def _generator_on(self, device: torch.device) -> torch.Generator | None:
        """Generator of the seed on ``device``, where the draws are made; None for the global one."""
        if self._seed is not None and (self._generator is None or self._generator.device.type != device.type):
            self._generator = torch.Generator(device).manual_seed(self._seed)
        return self._generator


def initial_keys(config: MetaNeighborhoodsConfig, features: int) -> Tensor:
    """Draw new keys [S, d]."""
    if config.key_init == "uniform":
        return torch.empty(config.entries, features).uniform_(-config.key_range, config.key_range)
    return torch.randn(config.entries, features) * config.key_std


def initial_step_size(form: StepSizeForm, weight: Tensor, start: float) -> Tensor:
    """Make a step size for ``weight`` [C, d] with every element equal to ``start``."""
    shape = {"scalar": (), "per_feature": weight.shape[1:], "per_parameter": weight.shape}[form]
    return torch.full(tuple(shape), float(start))


def attach_step_size(module: nn.Module, start: Tensor, *, learned: bool) -> None:
    """Give ``module`` its ``raw_step_size``: a parameter, or a buffer where it is not learned. Both are saved.

    Its absolute value is the step size, so that no optimiser step can turn descent into ascent.
    """
    if learned:
        module.register_parameter("raw_step_size", nn.Parameter(start))
    else:
        module.register_buffer("raw_step_size", start)


LOGIT_DISTANCE = 5.0
"""Distance from uniform values to a share above 0.9 of one of 10 classes."""
TARGET_DISTANCE = 1.0
"""A deviation of standardised targets."""
_STEP_SIZE_DISTANCE = 1.0


def adaptation_groups(
    config: MetaNeighborhoodsConfig,
    keys: nn.Parameter,
    values: nn.Parameter | None,
    raw_step_size: Tensor,
    value_distance: float = LOGIT_DISTANCE,
) -> list[ParameterGroup]:
    """Group dictionary and step size, each at its own rate and without weight decay.

    Args:
        config: the rates.
        keys: k.
        values: values or their logits; None where they are fixed.
        raw_step_size: a parameter, or a buffer where it is not learned.
        value_distance: how far values have to be able to go, where their rate is found from that.
    """
    groups = []
    # Values at the rate of the keys share their group, as in runs from before values had a rate of their own.
    if values is None or config.value_rate == 1:
        together = (keys,) if values is None else (keys, values)
        groups.append(ParameterGroup(name="dictionary", parameters=together, decay=False))
    else:
        groups.append(ParameterGroup(name="keys", parameters=(keys,), decay=False))
        groups.append(_group("values", values, config.value_rate, value_distance))
    if isinstance(raw_step_size, nn.Parameter):
        groups.append(_group("step_size", raw_step_size, config.step_size_rate, _STEP_SIZE_DISTANCE))
    return groups


def _group(name: str, parameter: nn.Parameter, rate: Rate, distance: float) -> ParameterGroup:
    """Make the group of one parameter at a given rate, or at one found from the distance it has to be able to go."""
    if rate == "auto":
        return ParameterGroup(name=name, parameters=(parameter,), decay=False, distance=distance)
    return ParameterGroup(name=name, parameters=(parameter,), decay=False, rate=rate)
