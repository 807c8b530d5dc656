"""Short form of a summary: a line for each fact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mntrain.data.class_groups import CLASS_GROUPS, class_groups
from mntrain.data.labels import listing
from mntrain.data.summary.record import (
    ColumnEntry,
    DataRecord,
    DuplicatesEntry,
    ImagesEntry,
    RunRecord,
    TrainedStartEntry,
)

_WIDTH = 11
_CLASSES = 6
_SIZES = 3
_COLORS: Mapping[str, str] = {"L": "grey", "1": "black and white", "RGB": "color"}


def summary_lines(record: RunRecord) -> list[str]:
    """Write the summary in 5 to 12 lines."""
    # A line break in a name would end the line.
    facts = ((name, text.replace("\n", "\\n")) for name, text in summary_facts(record))
    return [f"{name:{_WIDTH}}{text}" for name, text in facts]


def summary_facts(record: RunRecord) -> list[tuple[str, str]]:
    """List name and text of each fact."""
    noun, counts = record["noun"], {name: split["count"] for name, split in record["splits"].items()}
    total = f"{sum(counts.values()):,} {noun}s"
    of_classes = f" of {len(record['classes'])} classes" if record["classes"] else ""
    parts = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    facts = [
        ("data", f"{total}{of_classes} from {record['location']}"),
        ("layout", record["layout"]),
        ("splits", f"{parts} ({record['split_rule']})"),
        ("classes", _classes(record["splits"]["train"]["classes"])),
        *_columns(record["columns"]),
        ("images", "" if record["images"] is None else images_text(record["images"])),
        ("input", input_text(record["input"])),
        ("ignored", ignored_text(record)),
        ("equal", duplicates_text(record["duplicates"], noun)),
        ("steps", steps_text(record)),
        ("start", trained_start_text(record["training"].get("start"))),
        ("rates", rates_text(record["training"].get("rates", {}))),
    ]
    return [(name, text) for name, text in facts if text]


def _classes(counts: Mapping[str, int]) -> str:
    """List a few classes with their training examples, or the extremes of many."""
    if len(counts) <= _CLASSES:
        return ", ".join(f"{name} {count:,}" for name, count in counts.items())
    rarest, commonest = min(counts, key=lambda name: counts[name]), max(counts, key=lambda name: counts[name])
    if counts[rarest] == counts[commonest]:
        return f"{counts[rarest]:,} training examples of each: {listing(list(counts))}"
    groups = class_groups(np.array(list(counts.values()), dtype=np.int64))
    sizes = ", ".join(f"{groups.count(group):,} of {group}" for group in CLASS_GROUPS if group in groups)
    told = f"; {sizes}" if len(set(groups)) > 1 else ""
    return f"from {counts[rarest]:,} training examples ({rarest}) to {counts[commonest]:,} ({commonest}){told}"


def _columns(columns: Sequence[ColumnEntry]) -> list[tuple[str, str]]:
    targets = [f"'{column['name']}' ({column['kind']})" for column in columns if column["role"] == "target"]
    features = [column for column in columns if column["role"] == "feature"]
    categories = [f"{column['name']} ({column['distinct']})" for column in features if column["kind"] == "category"]
    missing = [f"{column['name']} ({column['missing']:,})" for column in columns if column["missing"]]
    excluded = [column["name"] for column in columns if column["role"] == "excluded"]
    texts = [
        f"{len(features):,}: {listing([column['name'] for column in features])}" if features else "",
        f"categories {listing(categories)}" if categories else "",
        f"missing values in {listing(missing)}" if missing else "",
        f"excluded {listing(excluded)}" if excluded else "",
    ]
    return [("target", listing(targets)), ("columns", "; ".join(text for text in texts if text))]


def images_text(images: ImagesEntry) -> str:
    """Say which sizes and colors were found, and what became of them."""
    sizes = list(images["sizes"].items())
    found = [f"{count:,} of {size}" if len(sizes) > 1 else f"all {size}" for size, count in sizes[:_SIZES]]
    if len(sizes) > _SIZES:
        found.append(f"{len(sizes) - _SIZES} more sizes")
    colors = [f"{count:,} {_COLORS.get(mode, mode)}" for mode, count in images["colors"].items()]
    if len(colors) == 1:
        colors = [f"all {_COLORS.get(mode, mode)}" for mode in images["colors"]]
    return "; ".join(part for part in (", ".join(found), ", ".join(colors), images["pixels"]) if part)


def input_text(shape: Sequence[int]) -> str:
    """Describe one input of the model."""
    if len(shape) == 3:
        return f"{shape[0]}x{shape[1]}x{shape[2]} (channels x height x width)"
    return f"{shape[0]} numbers a row"


def ignored_text(record: DataRecord) -> str:
    """Count what was not used, by reason."""
    reasons = [
        f"{entry['reason']}: {entry['count']:,}{_examples(entry['examples'], entry['count'])}"
        for entry in record["ignored"]
    ]
    return "; ".join(reasons) or "nothing"


def _examples(examples: Sequence[str], count: int) -> str:
    shown = ", ".join(examples[:2])
    return f" ({shown}{', …' if count > 2 else ''})" if shown else ""


def duplicates_text(duplicates: DuplicatesEntry, noun: str) -> str:
    """Count equal examples within and across splits, and contradictions."""
    parts = [f"{count:,} within {name}" for name, count in duplicates["within"].items() if count]
    parts += [
        f"{shared['count']:,} of {shared['splits'][1]} in {shared['splits'][0]}" for shared in duplicates["across"]
    ]
    contradictions = duplicates["contradictions"]
    if contradictions["count"]:
        pair = " and ".join(contradictions["examples"][0])
        parts.append(f"{contradictions['count']:,} of train in equal ones of another class ({pair})")
    return f"{noun}s that occur again: {', '.join(parts)}" if parts else f"no two {noun}s"


def steps_text(record: RunRecord) -> str:
    """Count the steps of an epoch and of the run."""
    training = record["training"]
    steps, epochs = training["steps_per_epoch"], training["epochs"]
    whole = f"; {steps * epochs:,} in {epochs:,} epochs" if epochs > 1 else ""
    return f"{steps:,} an epoch, in batches of {training['batch_size']:,}{whole}"


def trained_start_text(start: TrainedStartEntry | None) -> str:
    """Say which weights a model starts from, what stays untrained, and what differs; empty without an artifact."""
    if start is None:
        return ""
    parts = [f"{start['taken']} tensors of {start['path']} ({start['family']})"]
    parts += [f"new: {listing(start['new'])}"] if start["new"] else []
    parts += [f"not used: {listing(start['unused'])}"] if start["unused"] else []
    return "; ".join((*parts, *start["notes"]))


def rates_text(rates: Mapping[str, float]) -> str:
    """Write the factors on the learning rate that were found from the length of the run; empty without any."""
    factors = ", ".join(f"{name} {factor:.4g}" for name, factor in rates.items())
    return f"{factors} times the learning rate (auto)" if factors else ""


def range_text(values: Sequence[float]) -> str:
    """Write lowest, middle and highest value."""
    return " … ".join(f"{value:.4g}" for value in values)
