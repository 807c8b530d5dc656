"""Result of an evaluation on episodes: table, plain values and plot."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from mntrain.fewshot.accuracy import MethodAccuracy, MethodFailure
from mntrain.fewshot.episodes import EpisodeShape
from mntrain.fewshot.novel_images import NovelImages
from mntrain.plotting.style import COLORS, INK, draw_svg
from mntrain.result_table import ResultTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, eq=False)
class FewShotReport:
    """Accuracies of all methods on the same episodes.

    Args:
        artifact: its folder.
        data: images of new classes.
        shape: of every episode.
        episodes: their number.
        seed: of the episodes.
        methods: an accuracy for each, or why there is none.
        interrupted: further methods were not begun or not finished.
    """

    artifact: str
    data: NovelImages
    shape: EpisodeShape
    episodes: int
    seed: int
    methods: tuple[MethodAccuracy | MethodFailure, ...]
    interrupted: bool = False

    @property
    def accuracies(self) -> tuple[MethodAccuracy, ...]:
        """Those of methods that finished."""
        return tuple(result for result in self.methods if isinstance(result, MethodAccuracy))

    @property
    def failures(self) -> tuple[MethodFailure, ...]:
        """Methods that failed."""
        return tuple(result for result in self.methods if isinstance(result, MethodFailure))

    @property
    def notes(self) -> list[str]:
        """Lines below the table."""
        failed = [f"failed: {failure.method}: {failure.error}" for failure in self.failures]
        return failed + [f"note: {note}" for note in self.data.notes]

    @property
    def title(self) -> str:
        """The task in words."""
        known, task = len(self.data.trained_classes), f"{self.shape.ways}-way {self.shape.shots}-shot accuracy"
        if not known:
            return f"{task} on {self.data.classes} new classes"
        return f"{task} on {self.data.classes} classes, {known} of which the network was trained on"

    def table(self) -> ResultTable:
        """Make a table with a row for each method."""
        mean = "One episode, so that there is no interval"
        if self.episodes > 1:
            mean = f"Mean over {self.episodes:,} episodes with its 95 % interval (Student's t)"
        caption = (
            f"{mean}; {self.shape.queries} queries of each class, seed {self.seed}. All methods answer the same "
            "episodes."
        )
        rows = [_row(result) for result in self.methods]
        return ResultTable(
            headings=["method", "accuracy", "seconds of training", "ms an episode"], rows=rows, caption=caption
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "artifact": self.artifact,
            "data": self.data.path,
            "classes": self.data.classes,
            "images": len(self.data.images),
            "trained_classes": list(self.data.trained_classes),
            **asdict(self.shape),
            "episodes": self.episodes,
            "seed": self.seed,
            "interrupted": self.interrupted,
            "methods": {result.method: result.to_json() for result in self.methods},
        }

    def svg(self) -> str:
        """Draw mean and interval of each method that finished."""

        def draw(figure: "Figure") -> None:
            axes = figure.subplots()
            for place, result in enumerate(self.accuracies):
                mean, spread = 100 * result.mean, 100 * (result.interval or 0.0)
                axes.errorbar([mean], [place], xerr=[spread], fmt="o", color=COLORS[0], ecolor=INK, capsize=4)
                axes.annotate(f"{mean:.1f}", (mean, place), (0, 8), textcoords="offset points", ha="center", fontsize=8)
            axes.set_yticks(range(len(self.accuracies)), [result.method for result in self.accuracies])
            axes.set_ylim(len(self.accuracies) - 0.4, -0.6)
            axes.set_xlabel("accuracy (%), 95 % interval of the mean")
            axes.set_title(self.title)

        return draw_svg(draw, name="fewshot", size=(6.5, max(2.4, 1.2 + 0.45 * len(self.accuracies))))


def _row(result: MethodAccuracy | MethodFailure) -> list[str]:
    if isinstance(result, MethodFailure):
        return [result.method, "failed", "", ""]
    return [
        result.method,
        result.text(),
        "" if result.training_seconds is None else f"{result.training_seconds:.0f}",
        f"{1000 * result.seconds / len(result.by_episode):.1f}",
    ]
