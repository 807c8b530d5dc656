"""Section of the scores of heads by groups of classes."""

from __future__ import annotations

from typing import Any

import yaml

from mntrain.analysis.sections.content import Section, Table
from mntrain.heads.comparison import HeadComparison
from mntrain.heads.comparison_files import comparison_table, mean_text
from mntrain.heads.record import HeadRecord


def scores_section(heads: HeadComparison) -> Section:
    """Show scores of all heads; of one head alone those of both splits, and of the classifier it is compared with."""
    record = heads.records[0]
    several = len(heads.records) > 1
    table = comparison_table(heads)
    store = record["store"]
    facts = [
        ("network", store["network"]),
        ("features", f"{store['features']:,}"),
        ("classes", f"{store['classes']:,}"),
        ("training rows", f"{store['examples']['train']:,}"),
    ]
    if not several:
        facts += [("method", record["method"]), ("compared with", record["base"])]
        facts += [(name, _short(value)) for name, value in record["chosen"].items()]
    notes = dict.fromkeys(f"{other['name']}: {note}." for other in heads.records for note in other.get("notes", ()))
    settings = {"settings": _settings(heads)} | ({} if several else {"chosen": record["chosen"]})
    return Section(
        anchor="scores",
        title="Scores by groups of classes",
        text=(table.caption, *notes),
        facts=tuple(facts),
        table=Table(headings=tuple(table.headings), rows=tuple(map(tuple, table.rows))) if several else _both(record),
        folded=("Settings", yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)),
        numbers={
            row.method: {group: sum(values) / len(values) for group, values in row.accuracy.items()}
            for row in heads.rows
        },
    )


def _settings(heads: HeadComparison) -> dict[str, Any]:
    """Return the settings that all heads share; in place of a default that is not used, the γ that was chosen."""
    settings: dict[str, Any] = heads.records[0]["settings"]
    if not settings["alpha"]["choose_gamma"]:
        return settings
    chosen = [record["chosen"]["gamma"] for record in heads.records if "gamma" in record["chosen"]]
    alpha = settings["alpha"] | {"gamma": chosen[0] if len(set(chosen)) == 1 else chosen}
    return settings | {"alpha": alpha}


def _both(record: HeadRecord) -> Table:
    """Show each group of classes in a row, on the validation and the test rows."""
    rows = []
    for part in ("validation", "test"):
        for group, scores in record["scores"][part].items():
            base = record["base_scores"][part].get(group)
            rows.append(
                (
                    f"{part}, {group}",
                    f"{scores['classes']:,}",
                    f"{scores['examples']:,}",
                    mean_text([scores["accuracy"]]),
                    mean_text([] if base is None else [scores["accuracy"] - base["accuracy"]], sign=True),
                    mean_text([scores["balanced"]]),
                    "" if scores["top_5"] is None else mean_text([scores["top_5"]]),
                    f"{scores['loss']:.4f}",
                )
            )
    headings = (
        "rows",
        "classes",
        "examples",
        "accuracy",
        f"minus {record['base']}",
        "mean of classes",
        "top-5",
        "loss",
    )
    return Table(headings=headings, rows=tuple(rows))


def _short(value: object) -> str:
    """Write a chosen value; of many numbers their range."""
    if isinstance(value, list) and value and all(isinstance(item, int | float) for item in value):
        return f"{min(value):.3g} to {max(value):.3g}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
