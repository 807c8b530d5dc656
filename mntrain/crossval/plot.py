"""Draw a cross-validation: every fold and the mean of every family, relative to the first network."""

from matplotlib.figure import Figure

from mntrain.crossval.methods import title
from mntrain.crossval.results import Crossval
from mntrain.plotting.style import COLORS, INK, draw_svg, plain

_SPREAD = 0.22  # distance between the families of a data set


def draw_crossval(result: Crossval) -> str:
    """Draw an SVG with a line for each data set and each of several targets.

    Errors are multiples of the mean of the reference, on a logarithmic axis.
    """
    families = result.options.families
    reference = next(iter(result.options.networks), families[0])

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        named: set[str] = set()
        for position, row in enumerate(result.rows):
            reference_scores = row.of(reference)
            if reference_scores is None:
                continue
            for number, scores in enumerate(row.scores):
                height = position + _SPREAD * (number - (len(row.scores) - 1) / 2)
                color = COLORS[families.index(scores.family) % len(COLORS)]
                label = None if scores.family in named else title(scores.family)
                named.add(scores.family)
                ratios = [score / reference_scores.mean for score in scores.mse]
                axes.plot(ratios, [height] * len(ratios), "o", color=color, alpha=0.5, markersize=5, label=label)
                axes.plot(
                    [scores.mean / reference_scores.mean], [height], "|", color=INK, markersize=13, markeredgewidth=2
                )
        axes.axvline(1.0, color=INK, linewidth=0.7, linestyle=":")
        axes.set_xscale("log")
        axes.set_yticks(range(len(result.rows)), [plain(row.name) for row in result.rows])
        axes.set_ylim(len(result.rows) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(f"test mse, as a multiple of the mean of {title(reference)}")
        figure.legend(loc="outside upper right", ncols=len(families))

    return draw_svg(draw, name="crossval", size=(7.5, 1.6 + 0.7 * len(result.rows)))
