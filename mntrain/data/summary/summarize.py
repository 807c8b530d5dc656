"""Summarize a loaded set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from mntrain.data.account import Ignored
from mntrain.data.config import DataConfig
from mntrain.data.duplicates import Pair
from mntrain.data.images import ImageData
from mntrain.data.labels import listing
from mntrain.data.leaks import describe_leaks
from mntrain.data.split_record import SPLITS
from mntrain.data.summary.columns import column_entries
from mntrain.data.summary.record import (
    DataRecord,
    DuplicatesEntry,
    IgnoredEntry,
    ImagesEntry,
    SplitEntry,
)
from mntrain.data.summary.split_rule import split_rule
from mntrain.data.tables import TableData

_EXAMPLES = 5
_SIZES = 50


def summarize(data: ImageData | TableData, config: DataConfig) -> DataRecord:
    """Summarize a set that was loaded as ``config`` says."""
    account = data.account
    noun = "image" if isinstance(data, ImageData) else "row"
    return DataRecord(
        source=config.source,
        location=account.location or config.path or config.source,
        layout=account.layout,
        split_rule=split_rule(data.split, account, config, classes=data.label_names is not None),
        noun=noun,
        classes=list(data.label_names or ()),
        splits={name: _split(data, name) for name in SPLITS},
        ignored=_ignored(data, noun),
        duplicates=_duplicates(data),
        images=_images(data) if isinstance(data, ImageData) else None,
        columns=column_entries(data),
        warnings=_warnings(data, config, noun),
    )


def _split(data: ImageData | TableData, name: str) -> SplitEntry:
    part, classes = data.part(name), {}
    if data.label_names is not None:
        counts = np.bincount(part.targets, minlength=len(data.label_names))
        if name == "train" and isinstance(data, TableData):
            counts //= data.training_views
        classes = {label: int(count) for label, count in zip(data.label_names, counts, strict=True)}
    return SplitEntry(count=len(part), source_split=data.split.origins[name], classes=classes)


def _ignored(data: ImageData | TableData, noun: str) -> list[IgnoredEntry]:
    found = list(data.account.ignored)
    if data.split.left_out:
        field = "data.train_limit" if data.split.imbalance is None else "data.imbalance"
        found.append(Ignored(reason=f"training {noun}s beyond {field}", count=data.split.left_out))
    return [IgnoredEntry(reason=entry.reason, count=entry.count, examples=list(entry.examples)) for entry in found]


def _duplicates(data: ImageData | TableData) -> DuplicatesEntry:
    found = data.duplicates

    def names(first: str, second: str, pairs: Iterable[Pair]) -> list[list[str]]:
        return [[data.place(first, one), data.place(second, other)] for one, other in pairs][:_EXAMPLES]

    return {
        "within": dict(found.within),
        "across": [
            {
                "splits": [shared.first, shared.second],
                "count": shared.count,
                "examples": names(shared.first, shared.second, shared.pairs),
            }
            for shared in found.across
        ],
        "contradictions": {
            "count": found.contradictions.count,
            "examples": names("train", "train", found.contradictions.pairs),
        },
    }


def _images(data: ImageData) -> ImagesEntry:
    account = data.account
    ordered = sorted(account.sizes.items(), key=lambda entry: (-entry[1], entry[0]))
    sizes = dict(ordered[:_SIZES])
    if ordered[_SIZES:]:
        sizes["other"] = sum(count for _, count in ordered[_SIZES:])
    return ImagesEntry(sizes=sizes, colors=dict(account.colors), pixels=account.pixels)


def _warnings(data: ImageData | TableData, config: DataConfig, noun: str) -> list[str]:
    warnings = []
    leaks = describe_leaks(data) if config.leaks == "warn" else []
    if leaks:
        warnings.append(
            f"{'; '.join(leaks)}. A score on such {noun}s counts what was learned by heart; remove them, or set "
            "data.leaks to allow (or refuse)."
        )
    alike = _alike(data.label_names or ())
    if alike:
        warnings.append(
            f"The classes {listing(alike)} differ by capitals alone, and are learned as different classes; if they are "
            "the same, name them alike."
        )
    return warnings


def _alike(names: Sequence[str]) -> list[str]:
    """Names that differ by capitals alone; single letters are classes of writing."""
    times = Counter(name.casefold() for name in names)
    return [repr(name) for name in names if len(name) > 1 and times[name.casefold()] > 1]
