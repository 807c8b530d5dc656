"""Section of the use of the entries."""

import numpy as np
from matplotlib.figure import Figure as Drawing
from torch import Tensor

from mntrain.analysis.report_input import ReportInput
from mntrain.analysis.sections.content import Section, figure
from mntrain.analysis.usage import usage
from mntrain.plotting.style import COLORS


def usage_section(report_input: ReportInput, attention: Tensor | None) -> Section | None:
    """Draw the entries in use per query and over all queries, by attention ω [N, S]; None without entries."""
    if attention is None:
        return None
    entry_usage = usage(attention)
    entries = attention.shape[1]
    effective, mass = entry_usage.effective.numpy(), entry_usage.mass.numpy()
    half = int(np.searchsorted(mass.cumsum(), 0.5)) + 1

    def draw_effective(drawing: Drawing) -> None:
        axes = drawing.add_subplot()
        axes.hist(effective, bins=40, color=COLORS[0])
        axes.set_xlabel("effective number of entries")
        axes.set_ylabel(f"test {report_input.nouns}")

    def draw_mass(drawing: Drawing) -> None:
        axes = drawing.add_subplot()
        axes.plot(np.arange(1, entries + 1), entries * mass, color=COLORS[0])
        axes.axhline(1.0, color=COLORS[-1], linestyle="--", linewidth=1)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("entries, most used first")
        axes.set_ylabel("attention, even share = 1")

    median = float(np.median(effective))
    return Section(
        anchor="usage",
        title="Entries in use",
        text=(
            f"Attention of {len(effective):,} test {report_input.nouns} over S = {entries:,} entries. The effective "
            "number of entries of one is exp(entropy of ω): 1 if one entry takes all, S if all get the same.",
        ),
        facts=(
            ("effective, median", f"{median:,.0f} of {entries:,}"),
            ("entries with half of the attention", f"{half:,}"),
            ("never among the top 10 of one", f"{entry_usage.never_top:,}"),
            ("largest weight, mean", f"{entry_usage.largest:.3f}"),
        ),
        figures=(
            figure(
                "effective",
                draw_effective,
                alt=f"Histogram of the effective number of entries; the median is {median:.0f}",
                caption=f"Effective number of entries, of all {report_input.nouns}",
            ),
            figure(
                "mass",
                draw_mass,
                alt=f"Attention of every entry, sorted: {half} of {entries} entries get half of it",
                caption="Attention of every entry over all of them (dashed: the same for all)",
            ),
        ),
        numbers={
            "entries": entries,
            "effective_median": median,
            "effective_mean": float(effective.mean()),
            "entries_with_half_the_attention": half,
            "never_in_top_10": entry_usage.never_top,
            "largest_weight_mean": entry_usage.largest,
        },
    )
