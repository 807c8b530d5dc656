"""Report of a feature store that was written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mntrain.data.labels import ends
from mntrain.data.split_record import SPLITS
from mntrain.feature_store.store import FeatureStore


@dataclass(frozen=True, kw_only=True, eq=False)
class FeaturesReport:
    """A finished store, and what this run added.

    Args:
        store: the store.
        classifier: sentence about the network's last layer.
        computed: rows that were computed in this run; None where the store was there already.
        seconds: that took.
    """

    store: FeatureStore
    classifier: str
    computed: int | None = None
    seconds: float = 0.0

    @classmethod
    def of(
        cls, store: FeatureStore, classifier: str, *, computed: int | None = None, seconds: float = 0.0
    ) -> FeaturesReport:
        """Make the report of a store."""
        return cls(store=store, classifier=classifier, computed=computed, seconds=seconds)

    @property
    def rate(self) -> float | None:
        """Rows a second; None where none was computed."""
        return self.computed / self.seconds if self.computed and self.seconds > 0 else None

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        store = self.store
        return {
            "store": str(store.path),
            "network": store.network.to_dict(),
            "features": store.features,
            "classes": list(store.label_names),
            "counts": {name: len(store.part(name)) for name in SPLITS},
            "crops": store.crops,
            "columns": list(store.data.get("columns", [])),
            "left_out": dict(store.data.get("left_out", {})),
            "classifier": store.classifier is not None,
            "sha256": store.sha256,
            "computed": self.computed or 0,
            "seconds": self.seconds,
            "images_per_second": self.rate,
        }

    def _columns(self) -> list[str]:
        """Write which columns of a table became features, and which did not: an index there would tell the class."""
        taken, left_out = self.store.data.get("columns", []), self.store.data.get("left_out", {})
        if not taken:
            return []
        reasons = "".join(f"; without {name} ({reason})" for name, reason in left_out.items())
        return [f"columns: {ends(taken)}{reasons}"]

    def lines(self) -> list[str]:
        """Write the summary, a line for each fact."""
        store = self.store
        counts = ", ".join(f"{len(store.part(name)):,} {name}" for name in SPLITS)
        crops = f" ({store.crops} views of each training image)" if store.crops > 1 else ""
        done = "was there already: nothing was computed"
        if self.computed is not None:
            rate = "" if self.rate is None else f", {self.rate:.1f} rows/s"
            done = f"computed {self.computed:,} rows in {self.seconds:.1f} s{rate}"
        return [
            f"{store.path}: {done}",
            *self._columns(),
            f"features: {store.features} of {store.network.kind} {store.network.name} ({store.network.sha256[:12]}…)",
            f"rows: {counts}{crops}; {store.classes} classes",
            f"classifier: {self.classifier}",
        ]
