"""Interface of models that look every input up among learned neighbors.

Shapes: B queries, S entries, d numbers of a query and of a key, C classes. queries [B, d], keys [S, d], attention ω
[B, S].
"""

from typing import NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from mntrain.models.base import Prediction


class Prototypes(NamedTuple):
    """Directions that a cosine head compares features with, of unit length.

    Args:
        unadapted: [C, d].
        adapted: [B, C, d], for every query its own.
    """

    unadapted: Tensor
    adapted: Tensor


@runtime_checkable
class HasNeighbors(Protocol):
    """A model that weighs S learned entries by their similarity to an input and adapts to them.

    ``isinstance`` looks for the names alone. No name belongs to a submodule, which Python 3.12 would not find.
    """

    @property
    def similarity(self) -> str:
        """Kind of similarity between queries and keys."""

    @property
    def temperature(self) -> float:
        """T of the attention."""

    @property
    def step_size(self) -> Tensor:
        """α of the inner update: [], [d] or [C, d]."""

    @property
    def step_count(self) -> int:
        """Inner steps."""

    def entry_keys(self) -> Tensor:
        """Keys k [S, d] of all entries."""

    def entry_values(self) -> Tensor:
        """Values of all entries: class probabilities [S, C], or of a regressor its standardised targets [S] ([S, T] of
        several).
        """

    def queries(self, inputs: Tensor) -> Tensor:
        """Preprocessed inputs [B, …] → queries [B, d] that are compared with keys."""

    def attention_over_all(self, queries: Tensor) -> Tensor:
        """Queries [B, d] → attention ω [B, S] over all entries, none dropped."""

    def answers_from(self, queries: Tensor, keep: Tensor) -> Tensor:
        """Adapted logits [B, C], or values [B] ([B, T] of several), with some entries left out of every query.

        The attention of a query is renormalised over the entries that it keeps.

        Args:
            queries: [B, d].
            keep: boolean [B, S]; every row must keep at least one entry.
        """

    def weight_change(self, queries: Tensor) -> Tensor:
        """Queries [B, d] → relative change ‖w' − w‖ / ‖w‖ [B] of the weights that are adapted."""

    def comparable_similarity(self, queries: Tensor, entries: slice | Tensor) -> Tensor:
        """Similarity [B, S'] to some entries that orders entries of a query and queries of an entry.

        Args:
            queries: [B, d].
            entries: positions of S' entries, a slice or int64 [S'].
        """


@runtime_checkable
class NeighborClassifier(HasNeighbors, Protocol):
    """A classifier with neighbors: entries are labelled, and the head is adapted to a query."""

    def entry_labels(self) -> Tensor:
        """Likeliest class of every entry, int64 [S]."""

    def classify(self, queries: Tensor) -> Prediction:
        """Queries [B, d] → adapted and unadapted logits [B, C]."""

    def logits_among(self, queries: Tensor, entries: Tensor, temperature: float) -> Tensor:
        """Adapted logits [B, C] with fewer entries and another temperature than the trained ones.

        Args:
            queries: [B, d].
            entries: positions of the entries that stay, int64 [S'].
            temperature: T > 0.
        """

    def prototypes(self, queries: Tensor) -> Prototypes | None:
        """Prototypes before and after adaptation to queries [B, d]; None for a head without prototypes."""
