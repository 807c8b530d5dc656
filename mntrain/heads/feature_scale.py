"""Standardisation of features, which is folded into a linear classifier once it has learned.

Shapes: N rows, d features, C classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mntrain.errors import DataError
from mntrain.heads.classifier import LinearClassifier

_ROWS = 4096
# Places of float32 that a network may leave between the values of a feature that it computes as one value.
_PLACES = 2
_LEAST, _MOST = 1e-35, 1e35
"""Deviations between which weights of a folded layer are numbers of float32 with all their places."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureScale:
    """Standardisation (x - mean) / std of every feature.

    Args:
        mean: float64 [d].
        std: float64 [d], above 0; infinite for a feature that is left out, as it has one value in all rows.
    """

    mean: NDArray[np.float64]
    std: NDArray[np.float64]

    @classmethod
    def identity(cls, features: int) -> FeatureScale:
        """Make the scale that leaves d ``features`` as they are."""
        return cls(mean=np.zeros(features), std=np.ones(features))

    @classmethod
    def of(cls, features: NDArray[np.float32], what: str = "features") -> FeatureScale:
        """Measure mean and deviation of each feature of [N, d], a few thousand rows at a time.

        A feature of one value, up to two places of float32, teaches nothing, and a weight that it has by chance would
        act on rows with another value; so it gets the std ∞, which makes it 0 here and its weight 0 when folded. One
        with a deviation below 1e-35 gets it too, as its weight would be no number of float32.

        Args:
            features: float32 [N, d]; may be memory-mapped.
            what: the rows, for messages.

        Raises:
            DataError: a value is not finite, every feature has one value in all rows, or deviations are of a unit for
                which float32 has no weights.
        """
        total = np.zeros(features.shape[1])
        least, most = np.full_like(total, np.inf), np.full_like(total, -np.inf)
        for rows in finite_chunks(features, what):
            total += rows.sum(axis=0)
            least, most = np.minimum(least, rows.min(axis=0)), np.maximum(most, rows.max(axis=0))
        mean = total / len(features)
        squares = np.zeros_like(mean)
        for rows in finite_chunks(features, what):
            squares += np.square(rows - mean).sum(axis=0)
        std = np.sqrt(squares / len(features))
        place = np.spacing(np.maximum(np.abs(least), np.abs(most)).astype(np.float32)).astype(np.float64)
        alike = most - least <= _PLACES * place
        if alike.all():
            raise DataError(
                f"The {what} have one value in every one of {len(alike)} features, so there is nothing to learn from; "
                "look at the network and the images that the features are of, and write the store again with "
                "`mntrain features`."
            )
        small = std < _LEAST
        if (alike | small).all() or std.max() > _MOST:
            raise DataError(
                f"The {what} have features with deviations of {std[~alike].min():.2g} to {std.max():.2g}, for which "
                f"float32 has no weights; they must lie from {_LEAST:g} to {_MOST:g}. Multiply the features by a "
                "constant, and write the store again."
            )
        return cls(mean=mean, std=np.where(alike | small, np.inf, std))

    @property
    def left_out(self) -> int:
        """Number of features that are left out."""
        return int(np.isinf(self.std).sum())

    def rows(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Standardise features [N, d], in float32: rounding the mean costs no more than the features' own rounding."""
        scaled: NDArray[np.float32] = features - self.mean.astype(np.float32)
        scaled /= self.std.astype(np.float32)
        return scaled

    def folded(self, weight: NDArray[Any], bias: NDArray[Any]) -> LinearClassifier:
        """Turn a classifier of standardised features into one of the features themselves.

        Args:
            weight: [C, d].
            bias: [C].

        Raises:
            DataError: a weight is no number of float32.
        """
        folded = weight.astype(np.float64) / self.std
        return self.in_float32(folded, bias.astype(np.float64) - folded @ self.mean)

    def in_float32(self, weight: NDArray[np.float64], bias: NDArray[np.float64]) -> LinearClassifier:
        """Round a classifier of the features themselves, float64 [C, d] and [C].

        Raises:
            DataError: a weight is no number of float32.
        """
        largest = max(float(np.abs(weight).max()), float(np.abs(bias).max()))
        if not largest <= float(np.finfo(np.float32).max):
            known = self.std[np.isfinite(self.std)]
            raise DataError(
                f"A classifier has weights or biases of up to {largest:.2g}, beyond float32, on features with "
                f"deviations of {known.min():.2g} to {known.max():.2g}; bring the features nearer to a deviation of 1 "
                "and write the store again, or let the method learn more slowly."
            )
        return LinearClassifier(weight=weight.astype(np.float32), bias=bias.astype(np.float32))

    def unfolded(self, classifier: LinearClassifier) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return weight [C, d] and bias [C] of the same classifier on standardised features: undoes :meth:`folded`."""
        weight = classifier.weight.astype(np.float64)
        return weight * np.where(np.isfinite(self.std), self.std, 0.0), classifier.bias + weight @ self.mean


def finite_chunks(features: NDArray[np.float32], what: str) -> Iterator[NDArray[np.float64]]:
    """Iterate over the rows of [N, d], a few thousand at a time, as float64.

    Raises:
        DataError: a value is not finite.
    """
    for start in range(0, len(features), _ROWS):
        rows = features[start : start + _ROWS].astype(np.float64)
        wrong = ~np.isfinite(rows).all(axis=1)
        if wrong.any():
            row = start + int(wrong.argmax())
            raise DataError(
                f"The {what} hold NaN or infinite values, the first in row {row}; "
                "write the store again with `mntrain features`, from images or arrays whose values are finite."
            )
        yield rows
