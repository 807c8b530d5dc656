"""Subject of a model card: what a model is, what it takes, and what it answers, in words."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

from mntrain.artifact_config import ArtifactConfig, ImageArtifactConfig, TableArtifactConfig
from mntrain.model_card.front_matter import FrontMatter, Task
from mntrain.model_card.markdown import escaped, names

_FAMILIES: Final[Mapping[str, str]] = {
    "meta_neighborhoods": "Meta-Neighborhoods: each query adapts the classifier to its neighbors in a learned "
    "dictionary by one gradient step, or a few",
    "vanilla": "a network without adaptation",
    "maxl": "MAXL: a network trained with auxiliary labels that are learned with it",
}


def task_of(config: ArtifactConfig) -> Task:
    """Return the hub's word for what a model does."""
    if isinstance(config, ImageArtifactConfig) or (config.network is not None and config.network.pixels is not None):
        return "image-classification"
    return "tabular-regression" if config.labels is None else "tabular-classification"


def front_matter_of(config: ArtifactConfig, name: str, *more_tags: str) -> FrontMatter:
    """Collect the header of a card."""
    kinds = [config.family, config.experiment.backbone.name, *more_tags]
    if config.network is not None:
        kinds += ["frozen-features"]
    return FrontMatter(
        name=name,
        task=task_of(config),
        tags=tuple(kind.replace("_", "-") for kind in dict.fromkeys(kinds)),
        dataset=dataset_name(config),
        metrics=config.metrics,
    )


def dataset_name(config: ArtifactConfig) -> str:
    """Name the data by its source and the last part of its path: folders of a machine are nobody's business."""
    data = config.experiment.data
    path = "" if data.path is None else PurePath(str(data.path)).name
    return f"{data.source} {path}".strip()


def subject_lines(config: ArtifactConfig) -> str:
    """List what the model is: family, backbone or network, head, parameters, input and answers."""
    items = [
        ("Family", escaped(config.family), _FAMILIES.get(config.family, "")),
        *_network(config),
        ("Parameters", _count(config.metrics.get("parameters")), ""),
        ("Input", _input(config), ""),
        ("Answers", _answers(config), ""),
    ]
    return "\n".join(f"- **{title}**: {value}{f' ({note})' if note else ''}" for title, value, note in items if value)


def _network(config: ArtifactConfig) -> list[tuple[str, str, str]]:
    head = [] if config.head is None else [("Head", escaped(str(config.head["method"])), "")]
    if config.network is None:
        backbone = config.experiment.backbone
        notes = [f"width {backbone.width:g}"] if backbone.width != 1 else []
        notes += ["iFiLM"] if backbone.ifilm else []
        notes += [f"{backbone.similarity.mode} neural similarity"] if backbone.similarity.mode != "none" else []
        return [("Backbone", escaped(backbone.name), ", ".join(notes)), *head]
    network = config.network
    name = PurePath(network.name).name if network.kind in ("artifact", "onnx") else network.name
    digest = f"frozen, {network.features:,} features, SHA-256 {escaped(network.sha256[:16])}…"
    kind = "features of unknown origin" if network.kind == "arrays" else network.kind
    return [("Network", f"{escaped(name)}, {kind}", digest), *head]


def _input(config: ArtifactConfig) -> str:
    pixels = None if config.network is None else config.network.pixels
    if pixels is not None:
        return f"features of {_images(pixels.height, pixels.width, pixels.channels)}"
    if isinstance(config, ImageArtifactConfig):
        size, fit = config.input, config.input.fit
        rule = "" if fit is None else f"; files of other sizes are fitted by {escaped(fit)}"
        return _images(size.height, size.width, size.channels) + rule
    assert isinstance(config, TableArtifactConfig)
    numbers, categories = config.numbers, list(config.categories)
    parts = [f"{len(numbers):,} column(s) of numbers: {names(numbers)}"] if numbers else []
    parts += [f"{len(categories):,} column(s) of categories: {names(categories)}"] if categories else []
    return "; ".join(parts)


def _images(height: int, width: int, channels: int) -> str:
    return f"images of {height} × {width} pixels, {'grey' if channels == 1 else 'RGB'}, uint8"


def _answers(config: ArtifactConfig) -> str:
    if config.labels is not None:
        return f"one of {len(config.labels):,} classes: {names(config.labels)}"
    assert isinstance(config, TableArtifactConfig)
    return f"values of {names(config.targets)}"


def _count(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else ""
