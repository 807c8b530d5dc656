"""Figures of regression: errors of each target.

Shapes: N rows, T targets.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score, root_mean_squared_error

Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class TargetFigures:
    """Errors of one target.

    Args:
        mse: mean squared error of the standardised target.
        unadapted_mse: the same before adaptation; None where the method does not adapt.
        rmse: root of the mean squared error, in the target's own units.
        mae: mean absolute error, in the target's own units.
        r2: share of the variance that is explained; None where all values are equal.
    """

    mse: float
    unadapted_mse: float | None
    rmse: float
    mae: float
    r2: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class TargetScale:
    """Names and standardisation of T targets.

    Args:
        names: of the targets.
        mean: [T] in the targets' own units.
        std: [T], above 0.
    """

    names: tuple[str, ...]
    mean: Values
    std: Values

    def own_units(self, standardised: NDArray[Any]) -> Values:
        """Standardised values [N] or [N, T] → [N, T] in the targets' own units."""
        values = standardised.reshape(len(standardised), len(self.names)).astype(np.float64)
        return np.asarray(values * self.std + self.mean)


@dataclass(frozen=True, kw_only=True, eq=False)
class ValueFigures:
    """Errors of estimated values.

    Args:
        names: of the targets.
        truth: [N, T] in the targets' own units.
        estimates: [N, T].
        targets: errors of each target, in the order of ``names``.
    """

    names: tuple[str, ...]
    truth: Values
    estimates: Values
    targets: tuple[TargetFigures, ...]

    @property
    def mse(self) -> float:
        """Mean squared error of the standardised targets, over all of them."""
        return float(np.mean([target.mse for target in self.targets]))

    def to_json(self) -> dict[str, Any]:
        """Return plain values, without the estimates themselves."""
        return {"targets": {name: asdict(figures) for name, figures in zip(self.names, self.targets, strict=True)}}


def value_figures(
    truth: Values, estimates: Values, scale: TargetScale, unadapted: Values | None = None
) -> ValueFigures:
    """Compute the errors of ``estimates`` for ``truth``, all float64 [N, T] in the targets' own units.

    Args:
        truth: true values.
        estimates: of a method.
        scale: names and standardisation of the targets.
        unadapted: estimates of the same method before adaptation.
    """
    return ValueFigures(
        names=scale.names,
        truth=truth,
        estimates=estimates,
        targets=tuple(
            _figures(
                truth[:, target],
                estimates[:, target],
                None if unadapted is None else unadapted[:, target],
                float(scale.std[target]),
            )
            for target in range(len(scale.names))
        ),
    )


def _figures(truth: Values, estimates: Values, unadapted: Values | None, std: float) -> TargetFigures:
    return TargetFigures(
        mse=float(mean_squared_error(truth, estimates)) / std**2,
        unadapted_mse=None if unadapted is None else float(mean_squared_error(truth, unadapted)) / std**2,
        rmse=float(root_mean_squared_error(truth, estimates)),
        mae=float(mean_absolute_error(truth, estimates)),
        r2=float(r2_score(truth, estimates)) if np.ptp(truth) > 0 else None,
    )
