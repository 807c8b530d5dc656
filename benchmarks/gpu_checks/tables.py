"""The findings as tables, with lines where rich is installed."""

from collections.abc import Sequence

from common.figures import with_quartiles

from gpu_checks.budget import Skip
from gpu_checks.parity import Parity
from gpu_checks.session import Ratio

_PARITY = ("model", "dtype", "engine", "rows", "largest error", "limit", "other classes", "agrees")


def show(parities: Sequence[Parity], ratios: Sequence[Ratio], skips: Sequence[Skip], captions: Sequence[str]) -> None:
    """Prints parity, ratios, what they are of, and what was left out.

    Args:
        parities: of all engines.
        ratios: of all models and batch sizes.
        skips: what was left out.
        captions: lines for below.
    """
    rows = [
        (
            item.model,
            item.dtype,
            item.engine,
            str(item.rows),
            ", ".join(f"{name} {value:.1e}" for name, value in item.largest.items()),
            f"{item.limit:.0e}",
            str(item.other_classes),
            "yes" if item.passed else "NO",
        )
        for item in parities
    ]
    if rows:
        _table("parity with the CPU's float32 answers", _PARITY, rows)
    batches = list(dict.fromkeys(item.batch for item in ratios))
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
    for model, form, dtype in dict.fromkeys((item.model, item.form, item.dtype) for item in ratios):
        found = {item.batch: item for item in ratios if (item.model, item.dtype) == (model, dtype)}
        cells = [_cell(found[batch]) if batch in found else "-" for batch in batches]
        plain = " / ".join(f"{found[batch].vanilla.p50_ms:.3f}" if batch in found else "-" for batch in batches)
        rows.append((model, form, dtype, *cells, plain))
    return rows


def _cell(item: Ratio) -> str:
    return with_quartiles(item.ratio.median, item.ratio.q1, item.ratio.q3)


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    try:
        from rich.console import Console

        from mntrain.result_table import ResultTable
    except ModuleNotFoundError:
        widths = [max(len(row[place]) for row in (headings, *rows)) for place in range(len(headings))]
        print(title)
        for row in (headings, *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        print()
        return
    ResultTable(headings=headings, rows=rows, caption="").show(Console(), title=title)
