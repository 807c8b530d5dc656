"""Attention over the dictionary (Meta-Neighborhoods, section 2.3, eq. 5).

Shapes: B queries, S entries, d features. query z [B, d], keys k [S, d], similarity and attention ω [B, S].
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from mntrain.layers.unit import unit

Similarity = Literal["cosine", "euclidean", "distance"]
SIMILARITIES = ("cosine", "euclidean", "distance")
_SMALLEST = 1e-12


class KeyIndex(NamedTuple):
    """Keys made ready for queries: functions of the parameters alone."""

    matrix: Tensor  # [S, d]: k̂, or 2 k
    offset: Tensor | None  # [S]: −‖k‖² for squared distances
    squares: Tensor | None = None  # [S]: ‖k‖² for distances that are not squared


def key_index(keys: Tensor, kind: Similarity) -> KeyIndex:
    """Make keys [S, d] ready for similarities of ``kind``."""
    if kind == "cosine":
        return KeyIndex(unit(keys), None)
    squares = keys.square().sum(dim=-1)
    return KeyIndex(2 * keys, None, squares) if kind == "distance" else KeyIndex(2 * keys, -squares)


def similarity(features: Tensor, index: KeyIndex) -> Tensor:
    """How alike features [B, d] and keys are: cosine, negative squared distance or negative distance; [B, S].

    Distances are expanded into a matrix product, so that no [B, S, d] differences are built. Squared ones leave ‖z‖²
    out: it is the same for every entry, and the softmax that follows does not see it. The root is taken of no less
    than a tiny number, so that a query that lies on a key has a finite gradient (zero).
    """
    if index.squares is not None:
        squared = features.square().sum(dim=-1, keepdim=True) + index.squares - features @ index.matrix.mT
        return -squared.clamp_min(_SMALLEST).sqrt()
    if index.offset is None:
        return unit(features) @ index.matrix.mT
    return features @ index.matrix.mT + index.offset


def comparable_similarity(features: Tensor, index: KeyIndex) -> Tensor:
    """:func:`similarity` [B, S] that may be compared along a column too: which of several queries lies nearest.

    Between queries ‖z‖² counts, which squared distances leave out for the sake of a softmax over entries.
    """
    scores = similarity(features, index)
    return scores if index.offset is None else scores - features.square().sum(dim=-1, keepdim=True)


def attention(similarity: Tensor, temperature: float, keep: Tensor | None = None) -> Tensor:
    """ω [B, S]: softmax of the similarities [B, S] over the kept entries (eq. 5).

    Args:
        similarity: [B, S].
        temperature: T > 0; smaller is peakier.
        keep: boolean mask broadcastable to [B, S]; every row must keep at least one entry.
    """
    scores = similarity / temperature
    if keep is not None:
        scores = scores.masked_fill(~keep, float("-inf"))
    return torch.softmax(scores, dim=-1)
