"""Limits of requests that a model states in ``config.pbtxt``, for servers that check them before the model runs."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class InputLimits:
    """Most rows of a request, and the values that inputs of whole numbers may have.

    Args:
        counted: inputs whose first dimensions are counted together.
        most_rows: their largest sum.
        ranges: by input its smallest value, and the input whose number of rows all its values are below.
    """

    counted: tuple[str, ...]
    most_rows: int
    ranges: Mapping[str, tuple[int, str]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``export.json``."""
        return {
            "row_limit": {"inputs": list(self.counted), "most": self.most_rows},
            "value_ranges": {name: {"least": least, "below": below} for name, (least, below) in self.ranges.items()},
        }

    def parameters(self) -> dict[str, str]:
        """Return the parameters of ``config.pbtxt``, each a text of JSON."""
        return {f"mn.{name}": json.dumps(value) for name, value in self.to_dict().items()}
