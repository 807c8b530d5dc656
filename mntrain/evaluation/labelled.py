"""Labelled examples that an artifact is evaluated on.

Shapes: N examples.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mntrain.data.images import ImageSet
from mntrain.data.tables import TableSet


@dataclass(frozen=True, kw_only=True)
class SharedWithRun:
    """New examples that are equal to examples of the run.

    Args:
        samples: how many are equal to a held-out test example that the artifact holds.
        samples_of: held-out examples that were looked among.
        training: how many are equal to a training example; None where the run's data is not at hand.
        support: whether the artifact holds support examples instead, which it was adapted to.
    """

    samples: int
    samples_of: int
    training: int | None = None
    support: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledData:
    """Examples whose targets are known, in the artifact's layout and class numbers.

    Args:
        examples: images or rows; targets of rows in their own units.
        split: part of the data, such as test or all.
        places: N names: of the file, or of the position in the data.
        path: where new data lies; None for the data of the run.
        left_out: classes that the model does not know → examples that were left out.
        shared: examples that are equal to examples of the run; None for the data of the run.
        notes: further sentences about how the data was read.
    """

    examples: ImageSet | TableSet
    split: str
    places: tuple[str, ...]
    path: str | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    shared: SharedWithRun | None = None
    notes: tuple[str, ...] = ()

    @property
    def noun(self) -> str:
        """Word for several examples: images or rows."""
        return "images" if isinstance(self.examples, ImageSet) else "rows"

    def to_json(self) -> dict[str, Any]:
        """Return plain values, without the examples."""
        values: dict[str, Any] = {"split": self.split, "examples": len(self.examples)}
        if self.path is not None:
            values["new_data"] = {"path": self.path, "left_out": dict(self.left_out), "notes": list(self.notes)}
        if self.shared is not None:
            values["new_data"]["equal_to"] = {
                "samples": self.shared.samples,
                "samples_of": self.shared.samples_of,
                "training": self.shared.training,
            }
        return values
