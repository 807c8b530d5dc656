"""Record of the split of a data set."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from mntrain.data.examples import Examples, IndexArray
from mntrain.data.imbalance.drawing import ImbalanceRecord

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, kw_only=True, eq=False)
class SplitRecord:
    """Positions of the examples of each split in the source; enough to draw the same split again and to check it."""

    seed: int
    """Seed that the split was drawn with."""
    counts: Mapping[str, int]
    """Examples in ``train``, ``validation`` and ``test``."""
    origins: Mapping[str, str]
    """The source's own split (``train``, ``test``, ``all`` …) that the examples of each split come from."""
    indices: Mapping[str, IndexArray]
    """Positions (int64) of the examples of each split within the source split named in ``origins``."""
    sha256: str
    """Digest over inputs, targets and indices of all splits."""
    left_out: int = 0
    """Examples that ``train_limit`` or ``imbalance`` left out."""
    imbalance: ImbalanceRecord | None = None
    """Long tail of the training split; None where it has none that was drawn."""

    def place(self, split: str, position: int, *, noun: str, names: Mapping[str, tuple[str, ...]] | None = None) -> str:
        """Name an example of ``split``: its file, or its number in the source's own split from 0."""
        origin, index = self.origins[split], int(self.indices[split][position])
        if names is not None:
            return names[origin][index]
        return f"{noun} {index}" if origin == "all" else f"{origin} {noun} {index}"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, the content of a run's ``split.json``."""
        return {
            "seed": self.seed,
            "sha256": self.sha256,
            **({} if self.imbalance is None else {"imbalance": self.imbalance.to_json()}),
            "splits": {
                name: {
                    "count": self.counts[name],
                    "source_split": self.origins[name],
                    "indices": self.indices[name].tolist(),
                }
                for name in SPLITS
            },
        }

    @staticmethod
    def digest(
        sets: Mapping[str, Examples],
        indices: Mapping[str, IndexArray],
        categories: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    ) -> str:
        """Return the SHA-256 over shape, inputs, targets and source positions of every split.

        Where inputs hold codes of ``categories``, their names count as well.
        """
        sha = hashlib.sha256()
        if categories:
            sha.update(json.dumps({name: list(names) for name, names in categories.items()}).encode())
        for name in SPLITS:
            part = sets[name]
            sha.update(f"{name} {list(part.inputs.shape)}\n".encode())
            for values in (part.inputs, part.targets, indices[name]):
                sha.update(np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).data)
        return sha.hexdigest()
