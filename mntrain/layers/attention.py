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

    matrix: Tensor  # [S, d]: k̂, or 2 (k − c) for distances
    offset: Tensor | None  # [S]: −‖k − c‖² for squared distances
    squares: Tensor | None = None  # [S]: ‖k − c‖² for distances that are not squared
    center: Tensor | None = None  # [d]: c, the mean key, for distances


def key_index(keys: Tensor, kind: Similarity) -> KeyIndex:
    """Prepare keys [S, d] for similarities of ``kind``.

    Distances are taken from the mean of these keys, whichever they are. A distance is the same from every center, but
    its expansion subtracts squares: far from the origin they would be large beside their difference. The gradient with
    respect to the center is therefore zero, and none is taken.
    """
    if kind == "cosine":
        return KeyIndex(unit(keys), None)
    center = keys.detach().mean(dim=0)
    around = keys - center
    squares = around.square().sum(dim=-1)
    if kind == "distance":
        return KeyIndex(2 * around, None, squares, center)
    return KeyIndex(2 * around, -squares, None, center)


def similarity(features: Tensor, index: KeyIndex) -> Tensor:
    """Similarity [B, S] of features [B, d] and keys: cosine, negative squared distance or negative distance.

    Distances are expanded into a matrix product, so that no [B, S, d] differences are built. Squared ones leave
    ‖z − c‖² out: it is the same for every entry, and the softmax that follows does not see it. The root is taken of no
    less than a tiny number, so that a query on a key has a finite gradient (zero).
    """
    if index.center is None:
        return unit(features) @ index.matrix.mT
    around = features - index.center
    if index.squares is not None:
        squared = around.square().sum(dim=-1, keepdim=True) + index.squares - around @ index.matrix.mT
        return -squared.clamp_min(_SMALLEST_SQUARE).sqrt()
    scores = around @ index.matrix.mT
    return scores if index.offset is None else scores + index.offset


def comparable_similarity(features: Tensor, index: KeyIndex) -> Tensor:
    """:func:`similarity` [B, S] that orders the queries of an entry too, not only the entries of a query.

    Between queries ‖z − c‖² counts, which squared distances leave out for the sake of a softmax over entries.
    """
    scores = similarity(features, index)
    if index.offset is None or index.center is None:
        return scores
    return scores - (features - index.center).square().sum(dim=-1, keepdim=True)


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
