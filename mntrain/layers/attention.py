"""Attention over learned keys, by cosine or distance (Meta-Neighborhoods, section 2.3, eq. 5).

Shapes: B queries, S entries, d features. query z [B, d], keys k [S, d], similarity and attention ω [B, S]; x [..., d].
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.linalg import vector_norm

Similarity = Literal["cosine", "euclidean", "distance"]
SIMILARITIES = ("cosine", "euclidean", "distance")
_SMALLEST_LENGTH = 1e-12
_SMALLEST_SQUARE = 1e-12


def unit(x: Tensor) -> Tensor:
    """Scale rows of ``x`` [..., d] to unit length; a zero row stays zero, with a zero gradient.

    Written with broadcasting: ``torch.nn.functional.normalize`` expands the norm, which becomes three more operators
    in an exported graph.
    """
    length: Tensor = vector_norm(x, dim=-1, keepdim=True)
    return x / length.clamp_min(_SMALLEST_LENGTH)


class KeyIndex(NamedTuple):
    """Keys prepared for queries: functions of the parameters alone."""

    matrix: Tensor  # [S, d]: k̂, or 2 k
    offset: Tensor | None  # [S]: −‖k‖² for squared distances
    squares: Tensor | None = None  # [S]: ‖k‖² for distances that are not squared


def key_index(keys: Tensor, kind: Similarity) -> KeyIndex:
    """Prepare keys [S, d] for similarities of ``kind``."""
    if kind == "cosine":
        return KeyIndex(unit(keys), None)
    squares = keys.square().sum(dim=-1)
    return KeyIndex(2 * keys, None, squares) if kind == "distance" else KeyIndex(2 * keys, -squares)


def similarity(features: Tensor, index: KeyIndex) -> Tensor:
    """Similarity [B, S] of features [B, d] and keys: cosine, negative squared distance or negative distance.

    Distances are expanded into a matrix product, so that no [B, S, d] differences are built. Squared ones leave ‖z‖²
    out: they are the same for every entry, and the softmax that follows does not see them. The root is taken of no less
    than a tiny number, so that a query on a key has a finite gradient (zero).
    """
    if index.squares is not None:
        squared = features.square().sum(dim=-1, keepdim=True) + index.squares - features @ index.matrix.mT
        return -squared.clamp_min(_SMALLEST_SQUARE).sqrt()
    if index.offset is None:
        return unit(features) @ index.matrix.mT
    return features @ index.matrix.mT + index.offset


def comparable_similarity(features: Tensor, index: KeyIndex) -> Tensor:
    """:func:`similarity` [B, S] that orders the queries of an entry too, not only the entries of a query.

    Between queries ‖z‖² counts, which squared distances leave out for the sake of a softmax over entries.
    """
    scores = similarity(features, index)
    return scores if index.offset is None else scores - features.square().sum(dim=-1, keepdim=True)


def attention(similarity: Tensor, temperature: float, keep: Tensor | None = None) -> Tensor:
    """Attention ω [B, S]: softmax of the similarities [B, S] over the kept entries (eq. 5).

    Args:
        similarity: [B, S].
        temperature: T > 0; smaller is peakier.
        keep: boolean mask broadcastable to [B, S]; every row must keep at least one entry.
    """
    scores = similarity / temperature
    if keep is not None:
        scores = scores.masked_fill(~keep, float("-inf"))
    return torch.softmax(scores, dim=-1)
