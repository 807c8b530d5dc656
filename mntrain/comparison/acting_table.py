"""Write what adaptation does in the runs of each variant as a table."""

from collections.abc import Mapping, Sequence

from mntrain.comparison.acting import Acting
from mntrain.result_table import ResultTable
from mntrain.training.evaluation import Metric

_CAPTIONS: Mapping[str, str] = {
    "gain": "gain is the score after adaptation minus the one before",
    "weights moved": "weights moved is the mean relative change of the adapted weights",
    "answers changed": "answers changed is the share of answers that adaptation changes",
    "answers moved": "answers moved is the root mean square change by adaptation, in deviations of the target",
    "corrected / broken": "corrected and broken are test answers that are right only after or only before adaptation",
    "consistency": "consistency is the share of an entry's nearest training examples that have its class (by chance)",
    "agreement": "agreement is the share of an answer's largest neighbors that have its class (by chance)",
    "faithfulness": "faithfulness is the move of an answer without its largest neighbors (without as many random "
    "entries), in {unit}",
    "stability": "stability is the overlap of the training examples that runs of different seeds name for an answer "
    "(for two different answers)",
    "largest value": "largest value is the largest share of an entry's values",
    "entries in use": "entries in use is exp(entropy of the attention)",
}


def acting_cells(acting: Acting, metric: Metric) -> dict[str, str]:
    """Write each figure under its heading; empty where it is not known. In brackets stands what it is held against."""
    counts = "" if acting.corrected is None else f"{acting.corrected:.4g} / {acting.broken or 0:.4g}"
    stability = acting.stability
    change = acting.answer_change
    return {
        "gain": metric.text(acting.gain, sign=True),
        "weights moved": _share(acting.weight_change),
        "answers changed": _share(change) if metric.percent else "",
        "answers moved": "" if metric.percent or change is None else f"{change:.3f}",
        "corrected / broken": counts,
        "consistency": _beside(_share(acting.consistency), _share(acting.consistency_chance)),
        "agreement": _beside(_share(acting.agreement), _share(acting.agreement_chance)),
        "faithfulness": _beside(_move(acting.faithfulness, metric), _move(acting.faithfulness_random, metric)),
        "stability": "" if stability is None else _beside(_share(stability.share), _share(stability.chance)),
        "largest value": _share(acting.value_share),
        "entries in use": "" if acting.effective_entries is None else f"{acting.effective_entries:,.0f}",
    }


def acting_table(variants: Mapping[str, Acting], metric: Metric) -> ResultTable | None:
    """Make the table of the variants that adapt, without columns that none has a figure for; None where none adapts."""
    rows = {variant: acting_cells(acting, metric) for variant, acting in variants.items()}
    headings = [heading for heading in _CAPTIONS if any(cells[heading] for cells in rows.values())]
    if not headings:
        return None
    return ResultTable(
        headings=["variant", *headings],
        rows=[[variant, *(cells[heading] for heading in headings)] for variant, cells in rows.items()],
        caption=acting_caption(headings, metric),
    )


def acting_caption(headings: Sequence[str], metric: Metric) -> str:
    """Describe the figures under ``headings``."""
    unit = "points of probability" if metric.percent else "deviations of the target"
    parts = "; ".join(_CAPTIONS[heading] for heading in headings).format(unit=unit)
    return f"Means over the seeds: {parts}."


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _move(value: float | None, metric: Metric) -> str:
    return "" if value is None else f"{100 * value if metric.percent else value:.2g}"


def _beside(measured: str, against: str) -> str:
    return f"{measured} ({against})" if against else measured
