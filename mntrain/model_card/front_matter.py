"""Front matter of a model card: what a hub reads to list, filter and score a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from mntrain.terminal_text import printable

Task = Literal["image-classification", "tabular-classification", "tabular-regression"]
LIBRARY: Final = "mn-runtime"
_METRICS: Final[Mapping[str, str]] = {"accuracy": "Accuracy", "mse": "Mean squared error", "rmse": "RMSE", "r2": "R²"}
_SPLITS: Final = ("validation", "test")


@dataclass(frozen=True, kw_only=True)
class FrontMatter:
    """Header of a model card.

    Args:
        name: of the model.
        task: the hub's word for what the model does.
        tags: further words to find it by.
        dataset: name of the data.
        metrics: figures by split, as ``config.json`` holds them.
    """

    name: str
    task: Task
    tags: tuple[str, ...]
    dataset: str
    metrics: Mapping[str, Any]

    def text(self) -> str:
        """Write the header as YAML, with its two lines of dashes."""
        from mntrain.hugging_face_hub import EvalResult, ModelCardData  # programs that write no card do without

        results = [
            EvalResult(
                task_type=self.task,
                dataset_type=_line(self.dataset),
                dataset_name=_line(self.dataset),
                dataset_split=split,
                metric_type=metric,
                metric_name=_METRICS[metric],
                metric_value=value,
            )
            for split, metric, value in self._scores()
        ]
        data = ModelCardData(
            library_name=LIBRARY,
            pipeline_tag=self.task,
            tags=[LIBRARY, *map(_line, self.tags)],
            metrics=list(dict.fromkeys(result.metric_type for result in results)) or None,
            model_name=_line(self.name) if results else None,
            eval_results=results or None,
        )
        return f"---\n{data.to_yaml()}\n---"

    def _scores(self) -> list[tuple[str, str, float]]:
        return [
            (split, metric, float(value))
            for split in _SPLITS
            if isinstance(figures := self.metrics.get(split), Mapping)
            for metric in _METRICS
            if isinstance(value := figures.get(metric), int | float)
        ]


def _line(text: str) -> str:
    """Return text in one line without characters that steer a terminal."""
    return printable(" ".join(text.split())) or "unnamed"
