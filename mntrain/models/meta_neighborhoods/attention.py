"""Attention over the dictionary (Meta-Neighborhoods, section 2.3, eq. 5).

Shapes: B queries, S entries, d features. query z [B, d], keys k [S, d], similarity and attention ω [B, S].
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from mntrain.layers.unit import unit

Similarity = Literal["cosine", "euclidean"]
SIMILARITIES = ("cosine", "euclidean")


class KeyIndex(NamedTuple):
    """Keys made ready for queries: functions of the parameters alone."""

    matrix: Tensor  # [S, d]: k̂, or 2 k
    offset: Tensor | None  # [S]: −‖k‖² for distances, None for cosines


def key_index(keys: Tensor, kind: Similarity) -> KeyIndex:
    """Make keys [S, d] ready for similarities of ``kind``."""
    if kind == "cosine":
        return KeyIndex(unit(keys), None)
    return KeyIndex(2 * keys, -keys.square().sum(dim=-1))


def similarity(features: Tensor, index: KeyIndex) -> Tensor:
    """How alike features [B, d] and keys are: their cosine, or their negative squared distance; [B, S].

    The distance is expanded into a matrix product, so that no [B, S, d] differences are built. ‖z‖² is left out: it is
    the same for every entry, and the softmax that follows does not see it.
    """
    if index.offset is None:
        return unit(features) @ index.matrix.mT
    return features @ index.matrix.mT + index.offset


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
