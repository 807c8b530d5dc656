"""What a baseline learns from, and what it answers.

Shapes: N rows, F features, T target values, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownRows:
    """Rows whose targets are known.

    Args:
        inputs: float32 [N, F].
        targets: int64 labels [N], or float32 values [N] or [N, T].
    """

    inputs: NDArray[np.float32]
    targets: NDArray[Any]

    @property
    def classes(self) -> bool:
        """True where the targets are labels."""
        return bool(np.issubdtype(self.targets.dtype, np.integer))


@dataclass(frozen=True, kw_only=True, eq=False)
class BaselineAnswers:
    """Answers of a baseline to some rows.

    Args:
        answers: int64 labels [N], or float64 values [N] or [N, T].
        chosen: setting that the validation rows chose, in plain values.
    """

    answers: NDArray[Any]
    chosen: dict[str, Any]
