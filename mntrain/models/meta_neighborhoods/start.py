"""Start of a dictionary from training examples: keys, values and step size.

Shapes: N examples, S entries, C classes, d features. queries z [N, d], keys [S, d], value logits [S, C].
"""

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.linalg import vector_norm
from torch.nn.functional import one_hot

from mntrain.errors import ConfigError
from mntrain.layers.attention import unit
from mntrain.models.meta_neighborhoods.config import EntryShare, MetaNeighborhoodsConfig

CLASS_CHANGE, VALUE_CHANGE = 0.2, 0.01
"""Relative changes of the weights that α is set for: of a head, and of all layers of a regressor."""
_CLASS_WARM_UP = 0.75  # of the epochs, when the learning rate falls: features move little after that
_ITERATIONS = 25  # of k-means: entries are learned on, so nothing is gained by the last digits
_JITTER = 0.01  # of the deviation of the examples, for entries that share an example
_MOST_STEP_SIZE = 1000.0
_CORRECTIONS = 12

Counts = NDArray[np.int64]


class Clusters(NamedTuple):
    """Entries of one class, or of all rows.

    Args:
        keys: [S', d].
        members: entry of every example, int64 [N'].
    """

    keys: Tensor
    members: Tensor


def warm_up_epochs(config: MetaNeighborhoodsConfig, epochs: int, *, needed: bool) -> int | None:
    """Count the epochs before the start from data; None for the paper's start.

    Args:
        epochs: of the whole run.
        needed: whether keys need a network that has been trained, and it has not been.

    Raises:
        ConfigError: no epoch would be left for the dictionary.
    """
    if config.init == "paper":
        return None
    wanted = (_CLASS_WARM_UP if needed else 0.0) if config.warm_up is None else config.warm_up
    if wanted < 1:
        return min(epochs - 1, max(1, round(wanted * epochs))) if wanted else 0
    if wanted >= epochs:
        raise ConfigError(
            f"meta_neighborhoods.warm_up is {wanted:.0f} epochs, but training.epochs is {epochs}, which leaves none "
            f"for the dictionary; it must be below {epochs}, or a share of the epochs such as {_CLASS_WARM_UP}."
        )
    return int(wanted)


def entry_counts(sizes: Counts, entries: int, by: EntryShare) -> Counts:
    """Share S entries among classes; every class with examples gets one at least while there are enough.

    Args:
        sizes: examples of each class, int64 [C]; a class without any gets no entry.
        entries: S.
        by: shares by size, or even ones.
    """
    present = np.flatnonzero(sizes)
    first = np.zeros(len(sizes), dtype=np.int64)
    if entries < len(present):
        first[present[np.argsort(-sizes[present], kind="stable")[:entries]]] = 1
        return first
    weights = (sizes > 0) if by == "even" else sizes
    first[present] = 1
    ideal = weights * entries / weights.sum()
    # Largest remainders: the next entry goes where most is missing.
    rest = np.maximum(ideal - first, 0)
    rest *= (entries - len(present)) / max(rest.sum(), 1e-9)
    counts: Counts = first + np.floor(rest).astype(np.int64)
    missing = entries - int(counts.sum())
    counts[np.argsort(np.floor(rest) - rest, kind="stable")[:missing]] += 1
    return counts


def clusters(points: Tensor, count: int, config: MetaNeighborhoodsConfig, generator: np.random.Generator) -> Clusters:
    """Choose ``count`` keys among points [N', d]: centers of k-means, or drawn points.

    Where there are no more points than keys, every point is a key, and the keys that are left repeat them with a small
    deviation, so that they can part.
    """
    total = len(points)
    if count >= total:
        repeated = torch.arange(count) % total
        noise = torch.from_numpy(generator.standard_normal((count, points.shape[1]))).to(points)
        noise[:total] = 0
        spread = points.std(dim=0, correction=0).mean() if total > 1 else points.abs().mean()
        return Clusters(points[repeated] + _JITTER * spread * noise, torch.arange(total))
    if config.key_source == "examples":
        drawn = torch.from_numpy(np.sort(generator.choice(total, size=count, replace=False)))
        members = torch.full((total,), -1)
        members[drawn] = torch.arange(count)
        return Clusters(points[drawn], members)
    # A start alone needs scikit-learn: trained models load on machines without it.
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    search = KMeans(count, n_init=1, max_iter=_ITERATIONS, random_state=int(generator.integers(2**31)))
    with warnings.catch_warnings(), threadpool_limits(1):
        # Equal points leave some of the centers equal, which does no harm; sums of several threads are not repeatable.
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = search.fit(points.double().numpy())
    return Clusters(torch.from_numpy(found.cluster_centers_).to(points), torch.from_numpy(found.labels_).long())


def class_start(
    queries: Tensor, targets: Tensor, config: MetaNeighborhoodsConfig, classes: int, seed: int
) -> tuple[Tensor, Counts]:
    """Choose keys [S, d] from features z [N, d] of examples of C classes, those of one class after one another.

    With cosine similarity and a cosine head a key is a direction: k-means runs on unit vectors, and keys get the length
    √d. A step of the optimiser moves every number of a key by its rate at most, so longer keys turn more slowly: those
    of the paper's start, twenty times as short, lose the examples they stand for within some hundred steps.

    Returns:
        Keys, and the number of entries of each class, int64 [C].
    """
    generator = np.random.default_rng(seed)
    queries, targets = queries.cpu(), targets.cpu()
    counts = entry_counts(np.bincount(targets.numpy(), minlength=classes), config.entries, config.entries_by)
    points = unit(queries) if config.similarity == "cosine" else queries
    keys = torch.cat(
        [
            _class_keys(queries[targets == label], points[targets == label], count, config, generator)
            for label, count in enumerate(counts.tolist())
            if count
        ]
    )
    if config.similarity == "cosine" and config.head == "cosine":
        keys = unit(keys) * math.sqrt(keys.shape[1])
    return keys, counts


def _class_keys(
    queries: Tensor, points: Tensor, count: int, config: MetaNeighborhoodsConfig, generator: np.random.Generator
) -> Tensor:
    """Keys [S', d] of one class; for a dot-product head they keep the length of the features they stand for."""
    found = clusters(points, count, config, generator)
    if config.similarity != "cosine" or config.head == "cosine":
        return found.keys
    length: Tensor = vector_norm(queries, dim=-1).mean()
    return unit(found.keys) * length


def row_start(rows: Tensor, values: Tensor, config: MetaNeighborhoodsConfig, seed: int) -> tuple[Tensor, Tensor]:
    """Choose keys [S, F] from rows [N, F], and the mean target [S, T] of the rows that each stands for.

    A key that no row was counted for, such as a repeated one, has the target of the row nearest to it.

    Args:
        values: standardised targets [N, T].
    """
    rows, values = rows.cpu(), values.cpu()
    found = clusters(rows, config.entries, config, np.random.default_rng(seed))
    known = found.members >= 0
    sums = torch.zeros(config.entries, values.shape[1]).index_add_(0, found.members[known], values[known])
    sizes = torch.bincount(found.members[known], minlength=config.entries).unsqueeze(-1)
    means = sums / sizes.clamp_min(1)
    alone = sizes.squeeze(-1) == 0
    if alone.any():
        means[alone] = values[torch.cdist(found.keys[alone], rows).argmin(dim=-1)]
    return found.keys, means


def check_confidence(config: MetaNeighborhoodsConfig, classes: int) -> None:
    """Refuse a share of an entry's class that is no more than the share of each other class.

    Raises:
        ConfigError: the confidence is at most 1 / C.
    """
    if config.init == "data" and classes > 1 and config.confidence * classes <= 1:
        raise ConfigError(
            f"meta_neighborhoods.confidence is {config.confidence}; among {classes} classes it must be above "
            f"{1 / classes:.4g}, the share of a class in uniform values (0.99 is usual)."
        )


def confident_logits(counts: Counts, confidence: float) -> Tensor:
    """Value logits [S, C] whose softmax gives the class of every entry ``confidence``, and the others equal shares."""
    classes = len(counts)
    labels = entry_labels(counts)
    height = math.log(confidence * max(classes - 1, 1) / (1 - confidence))
    return one_hot(labels, classes) * height


def entry_labels(counts: Counts) -> Tensor:
    """Class of every entry, int64 [S], entries of a class after one another."""
    return torch.from_numpy(np.repeat(np.arange(len(counts)), counts))


@torch.no_grad()
def set_step_size(raw: Tensor, config: MetaNeighborhoodsConfig, measure: Callable[[], float], *, usual: float) -> float:
    """Set every element of ``raw`` so that ``measure`` gives ``config.start_change``, or ``usual`` where it is None.

    One step changes weights in proportion to its size; of several steps the size is corrected a few times. Where
    entries have no gradient at all, the size is ``config.step_size``.

    Args:
        raw: raw step size, changed in place.
        measure: mean relative change of the weights with the size as it stands.

    Returns:
        The change that was reached.
    """
    size, reached = 1.0, 0.0
    wanted = usual if config.start_change is None else config.start_change
    for _ in range(_CORRECTIONS):
        raw.fill_(size)
        reached = measure()
        if not (reached > 0 and math.isfinite(reached)):
            raw.fill_(config.step_size)
            return measure()
        if math.isclose(reached, wanted, rel_tol=0.01):
            break
        size = min(_MOST_STEP_SIZE, size * wanted / reached)
    return reached
