"""Long form of a summary on a terminal: the facts, then tables of classes, columns and ignored files."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from mntrain.data.split_record import SPLITS
from mntrain.data.summary.lines import range_text, summary_lines
from mntrain.data.summary.record import ColumnEntry, IgnoredEntry, RunRecord
from mntrain.result_table import ResultTable
from mntrain.terminal_text import plain
from mntrain.training.run_record import warning_lines

_ROWS = 24
_SHOWN = 10
_LONGEST = 60


def print_summary(console: Console, record: RunRecord) -> None:
    """Print a summary with its tables; long ones are folded."""
    for line in summary_lines(record):
        console.print(plain(line), soft_wrap=True)
    if record["classes"]:
        _class_table(record).show(console, title="Classes")
    if record["columns"]:
        column_table(record["columns"]).show(console, title="Columns")
    for line in (*_ignored_lines(record), *_equal_lines(record), *warning_lines(record)):
        console.print(plain(line), soft_wrap=True)


def _class_table(record: RunRecord) -> ResultTable:
    splits = record["splits"]
    rows = [(name, *(f"{splits[split]['classes'][name]:,}" for split in SPLITS)) for name in record["classes"]]
    caption = f"{record['noun'].capitalize()}s of each class, in the order of their labels."
    if len(rows) > _ROWS:
        counts = splits["train"]["classes"]
        by_size = sorted(rows, key=lambda row: -counts[row[0]])
        between = (f"… {len(rows) - 2 * _SHOWN:,} more classes", *("…" for _ in SPLITS))
        rows = [*by_size[:_SHOWN], between, *by_size[-_SHOWN:]]
        caption = f"{record['noun'].capitalize()}s of the {_SHOWN} largest and the {_SHOWN} smallest classes in train."
    return ResultTable(headings=("class", *SPLITS), rows=[tuple(map(_short, row)) for row in rows], caption=caption)


def column_table(columns: Sequence[ColumnEntry]) -> ResultTable:
    """Make a table of columns: what is special first, then features, of which only the first are shown."""
    rest = [column for column in columns if _is_plain(column)]
    special = [column for column in columns if not _is_plain(column)]
    shown = [*special, *rest][:_ROWS] if len(columns) > _ROWS else [*columns]
    ranges = any(column["range"] for column in shown)
    caption = (
        "Lowest, middle and highest value of the training rows; missing values of all rows."
        if ranges
        else "Columns and their use."
    )
    if len(columns) > len(shown):
        caption = f"{len(columns) - len(shown):,} more columns are not shown. {caption}".strip()
    rows: list[tuple[str, ...]] = [
        (column["name"], column["role"], column["kind"], f"{column['missing']:,}", _values(column), column["note"])
        for column in shown
    ]
    headings = ["column", "role", "type", "missing", "values", "note"]
    if not any(column["note"] for column in shown):
        headings, rows = headings[:-1], [row[:-1] for row in rows]
    return ResultTable(headings=headings, rows=[tuple(map(_short, row)) for row in rows], caption=caption)


def _is_plain(column: ColumnEntry) -> bool:
    return column["role"] == "feature" and column["kind"] == "number" and not column["missing"] and not column["note"]


def _values(column: ColumnEntry) -> str:
    if column["range"] is not None:
        return range_text(column["range"])
    shown = ", ".join(column["categories"][:4])
    return f"{shown}, … ({column['distinct']:,})" if column["distinct"] > 4 else shown


def _ignored_lines(record: RunRecord) -> list[str]:
    lines = [_ignored(entry) for entry in record["ignored"]]
    return ["Found there, and not used:", *(f"  {line}" for line in lines)] if lines else []


def _ignored(entry: IgnoredEntry) -> str:
    more = ", …" if entry["count"] > len(entry["examples"]) else ""
    examples = f" ({', '.join(map(_short, entry['examples']))}{more})" if entry["examples"] else ""
    return f"{entry['reason']}: {entry['count']:,}{examples}"


def _equal_lines(record: RunRecord) -> list[str]:
    duplicates = record["duplicates"]
    entries = [
        (f"{shared['count']:,} of {shared['splits'][1]} are in {shared['splits'][0]}", shared["examples"])
        for shared in duplicates["across"]
    ]
    contradictions = duplicates["contradictions"]
    if contradictions["count"]:
        entries.append((f"{contradictions['count']:,} of train are in several classes", contradictions["examples"]))
    lines = [f"  {text}: {'; '.join(' = '.join(pair) for pair in pairs)}" for text, pairs in entries]
    return [f"Equal {record['noun']}s:", *lines] if lines else []


def _short(text: str) -> str:
    # A line break in a name would break the row.
    text = text.replace("\n", "\\n").replace("\t", "\\t")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
