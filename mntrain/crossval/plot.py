"""A cross-validation as a picture: every fold and the mean of every family, relative to the first network."""

from matplotlib.figure import Figure

from mntrain.crossval.plan import KNN
from mntrain.crossval.results import Crossval
from mntrain.crossval.table import TITLES
from mntrain.plotting.style import COLORS, INK, draw_svg, plain

_SPREAD = 0.22  # between the families of a data set


def draw_crossval(result: Crossval) -> str:
    """SVG: a line for each data set, errors as multiples of the reference's mean, on a logarithmic axis."""
    families = result.options.families
    reference = next((family for family in families if family != KNN), families[0])

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        named: set[str] = set()
        for place, row in enumerate(result.sets):
            base = row.of(reference)
            if base is None:
                continue
            for number, one in enumerate(row.scores):
                height = place + _SPREAD * (number - (len(row.scores) - 1) / 2)
                color = COLORS[families.index(one.family) % len(COLORS)]
                label = None if one.family in named else TITLES.get(one.family, one.family)
                named.add(one.family)
                ratios = [score / base.mean for score in one.mse]
                axes.plot(ratios, [height] * len(ratios), "o", color=color, alpha=0.5, markersize=5, label=label)
                axes.plot([one.mean / base.mean], [height], "|", color=INK, markersize=13, markeredgewidth=2)
        axes.axvline(1.0, color=INK, linewidth=0.7, linestyle=":")
        axes.set_xscale("log")
        axes.set_yticks(range(len(result.sets)), [plain(row.name) for row in result.sets])
        axes.set_ylim(len(result.sets) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(f"test mse, as a multiple of the mean of {TITLES.get(reference, reference)}")
        figure.legend(loc="outside upper right", ncols=len(families))

    return draw_svg(draw, name="crossval", size=(7.5, 1.6 + 0.7 * len(result.sets)))
