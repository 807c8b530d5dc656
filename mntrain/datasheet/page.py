"""Page about the data of a run: what was found, images of each class or the values of each column."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from mntrain.analysis.page import render
from mntrain.analysis.sections.content import Section, Table
from mntrain.data.images import ImageData
from mntrain.data.split_record import SPLITS
from mntrain.data.summary.lines import summary_facts
from mntrain.data.summary.record import RunRecord
from mntrain.data.tables import TableData
from mntrain.datasheet.columns import columns_sections
from mntrain.datasheet.images import image_sections

_CLASSES = 400


def data_page(name: str, record: RunRecord, data: ImageData | TableData) -> str:
    """Render the page of the run called ``name`` as HTML that loads nothing and runs nothing."""
    sections = [_summary(record)]
    if record["classes"]:
        sections.append(_classes(record))
    sections += image_sections(data) if isinstance(data, ImageData) else columns_sections(data, record)
    total = sum(split["count"] for split in record["splits"].values())
    return render(
        sections,
        title=f"Data of {name}",
        subtitle=f"{total:,} {record['noun']}s from {record['location']}",
        footer=f"mn-runtime {version('mn-runtime')}, mntrain data",
    )


def _summary(record: RunRecord) -> Section:
    counts = tuple((name, f"{split['count']:,}") for name, split in record["splits"].items())
    ignored = sum(entry["count"] for entry in record["ignored"])
    facts = (
        *counts,
        *((("classes", f"{len(record['classes']):,}"),) if record["classes"] else ()),
        ("input", " x ".join(map(str, record["input"]))),
        ("steps an epoch", f"{record['training']['steps_per_epoch']:,}"),
        ("not used", f"{ignored:,}"),
        ("in two splits", f"{sum(shared['count'] for shared in record['duplicates']['across']):,}"),
    )
    lines = [f"{name.capitalize()}: {text}." for name, text in summary_facts(record) if name not in ("data", "input")]
    ignored_files = [
        f"{entry['reason']}: {entry['count']:,}\n" + "".join(f"  {name}\n" for name in entry["examples"])
        for entry in record["ignored"]
    ]
    return Section(
        anchor="summary",
        title="Summary",
        text=(*(f"Warning: {sentence}" for sentence in record["warnings"]), *lines),
        facts=facts,
        folded=("What was not used", "".join(ignored_files)) if ignored_files else None,
    )


def _classes(record: RunRecord) -> Section:
    names: Sequence[str] = record["classes"][:_CLASSES]
    rows = tuple(
        (name, *(f"{record['splits'][split]['classes'][name]:,}" for split in SPLITS), _share(record, name))
        for name in names
    )
    more = len(record["classes"]) - len(names)
    text = f"{record['noun'].capitalize()}s of each class, in the order of their labels"
    return Section(
        anchor="classes",
        title="Classes",
        text=(f"{text}; {more:,} more classes are not shown." if more else f"{text}.",),
        table=Table(headings=("class", *SPLITS, "share of train"), rows=rows),
    )


def _share(record: RunRecord, name: str) -> str:
    train = record["splits"]["train"]
    return f"{train['classes'][name] / train['count']:.1%}"
