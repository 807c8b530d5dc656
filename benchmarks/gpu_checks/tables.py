"""Print the findings as tables, with lines where rich is installed."""

from collections.abc import Sequence

from common.figures import with_quartiles

from gpu_checks.budget import Skip
from gpu_checks.parity import Parity
from gpu_checks.session import Ratio

_PARITY = ("model", "dtype", "engine", "rows", "largest error", "limit", "other classes", "agrees")


def show(parities: Sequence[Parity], ratios: Sequence[Ratio], skips: Sequence[Skip], captions: Sequence[str]) -> None:
    """Print parity, ratios, captions, and the work that was left out.

    Args:
        parities: parity of all engines.
        ratios: ratios of all models and batch sizes.
        skips: work that was left out.
        captions: lines below the tables.
    """
    rows = [
        (
            parity.model,
            parity.dtype,
            parity.engine,
            str(parity.rows),
            ", ".join(f"{name} {value:.1e}" for name, value in parity.largest.items()),
            f"{parity.limit:.0e}",
            str(parity.other_classes),
            "yes" if parity.passed else "NO",
        )
        for parity in parities
    ]
    if rows:
        _table("parity with the CPU's float32 answers", _PARITY, rows)
    batches = list(dict.fromkeys(parity.batch for parity in ratios))
    if batches:
        headings = ("model", "form", "dtype", *(f"batch {batch}" for batch in batches), "vanilla p50 ms")
        _table("latency over the vanilla model's: median of rounds (quartiles)", headings, _ratio_rows(ratios, batches))
    for line in captions:
        print(line)
    print("skipped:" if skips else "nothing was skipped")
    for skip in skips:
        print(f"  {skip.what}: {skip.why}")


def _ratio_rows(ratios: Sequence[Ratio], batches: Sequence[int]) -> list[tuple[str, ...]]:
    rows = []
    for model, form, dtype in dict.fromkeys((ratio.model, ratio.form, ratio.dtype) for ratio in ratios):
        by_batch = {ratio.batch: ratio for ratio in ratios if (ratio.model, ratio.dtype) == (model, dtype)}
        cells = [_cell(by_batch[batch]) if batch in by_batch else "-" for batch in batches]
        plain = " / ".join(f"{by_batch[batch].vanilla.p50_ms:.3f}" if batch in by_batch else "-" for batch in batches)
        rows.append((model, form, dtype, *cells, plain))
    return rows


def _cell(ratio: Ratio) -> str:
    return with_quartiles(ratio.ratio.median, ratio.ratio.q1, ratio.ratio.q3)


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    try:
        from rich.console import Console

        from mntrain.result_table import ResultTable
    except ModuleNotFoundError:
        widths = [max(len(row[column]) for row in (headings, *rows)) for column in range(len(headings))]
        print(title)
        for row in (headings, *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        print()
        return
    ResultTable(headings=headings, rows=rows, caption="").show(Console(), title=title)
