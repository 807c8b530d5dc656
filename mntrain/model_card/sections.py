"""Sections of a model card on data, scores, adaptation and versions."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from mntrain.artifact_config import ArtifactConfig
from mntrain.data.classes.groups import CLASS_GROUPS, FEW, MANY, class_groups
from mntrain.model_card.figures import figure_tables, score_tables, shown
from mntrain.model_card.markdown import escaped, names, section, table
from mntrain.model_card.subject import dataset_name


def data_section(config: ArtifactConfig) -> str:
    """Describe the data: its name, counts of its splits, and the digest."""
    counts = {name: count for name, count in _mapping(config.split.get("counts")).items() if isinstance(count, int)}
    record = _mapping(config.data)
    lines = [f"- **Source**: {escaped(dataset_name(config))}"]
    if isinstance(rule := record.get("split_rule"), str) and rule:
        lines.append(f"- **Splits**: {escaped(rule, 300)}")
    lines.append(f"- **SHA-256 of the split**: `{_digest(config.split['sha256'])}`")
    warnings = record.get("warnings")
    lines += [f"- **Warning**: {escaped(text, 300)}" for text in warnings] if isinstance(warnings, list) else []
    examples = table(["split", "examples"], [[escaped(name), f"{count:,}"] for name, count in counts.items()])
    return section("Data", "\n".join(lines), examples if counts else "", _classes(record))


def score_section(config: ArtifactConfig) -> str:
    """Tabulate the scores of splits, of groups of classes, of several targets, and of a head."""
    tables = score_tables(config.metrics)
    head = _mapping(_mapping(config.head).get("scores"))
    if head:
        parts = {name: part for name, part in head.items() if isinstance(part, Mapping)}
        plain = {name: {"value": part} for name, part in head.items() if isinstance(part, int | float)}
        tables += ["Scores of the head:", *figure_tables(parts, "split"), *figure_tables(plain, "score")]
    return section("Scores", *tables)


def adaptation_section(config: ArtifactConfig) -> str:
    """Say what the dictionary does, and where a model comes from that was adapted to new classes or is a head."""
    return section("Adaptation", *_effect(config.metrics), *_origin(config), _head(config))


def version_section(versions: Mapping[str, Any]) -> str:
    """List versions of the software."""
    text = ", ".join(f"{escaped(name)} {escaped(number)}" for name, number in versions.items())
    return section("Versions", f"Written by {text}." if text else "")


def _effect(metrics: Mapping[str, Any]) -> list[str]:
    from mntrain.acting.record import AdaptationRecord
    from mntrain.training.evaluation import METRICS

    record = AdaptationRecord.from_metrics(metrics)
    if record is None or not isinstance(record.answer_change, int | float):
        return []
    metric = METRICS["accuracy" if "accuracy" in _mapping(metrics.get("test")) else "mse"]
    acts = "The dictionary acts" if record.acts else "The dictionary hardly acts"
    lines = [f"{acts}: {escaped(record.describe(metric), 400)}."]
    lines += [f"{escaped(line[:1].upper() + line[1:], 400)}." for line in record.describe_neighbors()]
    lines += [f"**Finding**: {escaped(verdict, 600)}." for verdict in record.verdicts()]
    return lines


def _origin(config: ArtifactConfig) -> list[str]:
    if config.adapted is None:
        return []
    start, support = _mapping(config.adapted.get("start")), _mapping(config.adapted.get("support"))
    source = escaped(start.get("name") or "an artifact")
    classes = start.get("classes")
    trained = f", which was trained on {len(classes):,} classes" if isinstance(classes, list) else ""
    draw = ", ".join(
        f"{escaped(name)} {shown(name, value)}"
        for name, value in support.items()
        if name not in ("path", "images") and isinstance(value, int | float | str)
    )
    text = (
        f"Adapted from {source}{trained}, by the method {escaped(config.adapted.get('method', 'unknown'))}, to "
        f"{support.get('images', 0):,} support image(s){f' ({draw})' if draw else ''}."
    )
    digest = start.get("weights_sha256")
    lines = [text, f"Weights that it started from: SHA-256 `{_digest(digest)}`." if isinstance(digest, str) else ""]
    return [*lines, _settings(config.adapted.get("settings"))]


def _head(config: ArtifactConfig) -> str:
    return "" if config.head is None else _settings(config.head.get("settings"))


def _settings(settings: Any) -> str:
    """Tabulate settings, those of a section under its name."""
    rows = []
    for name, value in _mapping(settings).items():
        inner = value if isinstance(value, Mapping) else {"": value}
        rows += [
            [escaped(f"{name}.{key}".rstrip(".")), shown("", part)]
            for key, part in inner.items()
            if isinstance(part, int | float | str)
        ]
    return table(["setting", "value"], rows) if rows else ""


def _classes(record: Mapping[str, Any]) -> str:
    """Say how unequal classes are, and how many of them are of many, medium and few examples."""
    counts = _mapping(_mapping(_mapping(record.get("splits")).get("train")).get("classes"))
    sizes = {str(name): size for name, size in counts.items() if isinstance(size, int)}
    if not sizes:
        return ""
    smallest, largest = min(sizes.values()), max(sizes.values())
    text = f"Classes have {smallest:,} to {largest:,} training examples."
    rare = sorted((name for name, size in sizes.items() if size == smallest), key=str)
    if largest >= 2 * max(smallest, 1):
        text += f" Fewest: {names(rare, 5)}."
    groups = Counter(class_groups(np.array(list(sizes.values()))))
    if len(groups) > 1:
        told = ", ".join(f"{groups[group]:,} {group}" for group in CLASS_GROUPS if group in groups)
        text += f" By these, {told}: many is above {MANY}, few below {FEW}."
    return text


def _digest(value: Any) -> str:
    text = str(value)
    return text if text.isalnum() else "unknown"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
