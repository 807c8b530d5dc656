"""Interface of models whose learned parts start from training examples, after the network was trained without them.

Shapes: N examples, d numbers of a query, T targets that are values.
"""

from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from mntrain.models.base import TrainingPhase


@dataclass(frozen=True, kw_only=True)
class DataStart:
    """Figures of a dictionary that was placed on training examples.

    Args:
        entries: S.
        examples: training examples that keys and values were taken from.
        entries_of_classes: entries of every class; empty for values.
        step_size: α that was set.
        weight_change: mean relative change of the adapted weights with this α.
    """

    entries: int
    examples: int
    entries_of_classes: tuple[int, ...]
    step_size: float
    weight_change: float

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self) | {"entries_of_classes": list(self.entries_of_classes)}


@runtime_checkable
class StartsFromData(Protocol):
    """A model that looks neighbors up and may place them on training examples."""

    def warm_up(self, epochs: int, *, trained: bool) -> int | None:
        """Count the epochs that train the network alone before the start; None where nothing starts from data.

        Args:
            epochs: of the whole run.
            trained: whether the network starts from trained weights.

        Raises:
            ConfigError: no epoch would be left for the dictionary.
        """

    def warm_up_phases(self) -> tuple[TrainingPhase, ...]:
        """List the phases of an epoch before the start: the network alone, with nothing adapted."""

    def start_from(self, queries: Tensor, targets: Tensor, *, seed: int) -> DataStart:
        """Place the dictionary on examples and set the step size; the same seed gives the same start.

        Args:
            queries: [N, d] of training examples, of the model as it stands.
            targets: classes int64 [N], or standardised values [N] or [N, T].
            seed: of k-means and of drawn examples.
        """
