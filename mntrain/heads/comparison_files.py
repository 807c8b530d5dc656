"""Files and tables of a comparison of heads: ``heads.json``, ``heads.md`` and ``heads.svg``."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mntrain.atomic_files import write_text_atomically
from mntrain.comparison.table import p_text
from mntrain.errors import ArtifactError
from mntrain.heads.comparison import COMPARED, HeadComparison, HeadScores, UnitDifference
from mntrain.heads.comparison_caption import comparison_caption
from mntrain.heads.record import SCHEMA
from mntrain.heads.tradeoff import draw_tradeoff
from mntrain.heads.units import spread_of
from mntrain.plotting.style import draw_svg
from mntrain.regular_files import read_text
from mntrain.result_folder import result_folder
from mntrain.result_table import ResultTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMPARISON = "heads.json"


def write_comparison(folder: Path, comparison: HeadComparison) -> None:
    """Write JSON, table and, where there are classes of few, the trade-off as a drawing.

    Raises:
        ConfigError: another process works on the folder.
        TrainingError: the folder cannot be written.
    """
    with result_folder(folder):
        text = json.dumps(comparison.to_json(), ensure_ascii=False, allow_nan=False) + "\n"
        write_text_atomically(folder / COMPARISON, text)
        write_text_atomically(folder / "heads.md", comparison_table(comparison).markdown())
        if comparison.points:
            write_text_atomically(folder / "heads.svg", tradeoff_svg(comparison))


def read_comparison(folder: Path) -> HeadComparison:
    """Read ``heads.json``.

    Raises:
        ArtifactError: it cannot be read, or is of another version.
    """
    file = folder / COMPARISON
    try:
        values = json.loads(read_text(file))
        if values["schema"] != SCHEMA:
            raise ArtifactError(f"{file} is not of schema {SCHEMA}; compare again with `mntrain head`.")
        return HeadComparison.of(values["records"], values["baseline"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ArtifactError(f"{file} cannot be read ({error}); compare again with `mntrain head`.") from error


def tradeoff_svg(comparison: HeadComparison) -> str:
    """Draw the trade-off of few against all."""

    def draw(figure: Figure) -> None:
        draw_tradeoff(figure.subplots(), comparison.points, comparison.curves)

    return draw_svg(draw, name="heads", size=(8.0, 4.6))


def comparison_table(comparison: HeadComparison) -> ResultTable:
    """Make a table with a row for each method."""
    groups, most = comparison.groups, len(comparison.units.names)
    top_5 = any(row.top_5 for row in comparison.rows)
    tested = [group for group in COMPARED if any(group in row.differences for row in comparison.rows)]
    headings = ["method", *groups, *(["top-5"] if top_5 else [])]
    for group in tested:
        headings += [f"{group} minus {comparison.baseline}", "p", "p (Holm)"]
    rows = []
    for row in comparison.rows:
        cells = [row.method, *(_accuracy(row.accuracy.get(group, ()), most) for group in groups)]
        cells += [mean_text(row.top_5)] if top_5 else []
        for group in tested:
            cells += _difference(row.differences.get(group), most)
        rows.append([*cells, _seconds(row)])
    return ResultTable(headings=[*headings, "seconds"], rows=rows, caption=comparison_caption(comparison))


def mean_text(values: Sequence[float], *, sign: bool = False) -> str:
    """Write a mean share, with its deviation where there are several; empty for none."""
    if not values:
        return ""
    spread = spread_of(values)
    mean = f"{statistics.mean(values):{'+' if sign else ''}.2%}"
    return mean if spread is None else f"{mean} ± {spread:.2%}"


def _accuracy(values: Sequence[float], most: int) -> str:
    """Write a mean, and how many units it is of where some have no example of the group."""
    return mean_text(values) + _fewer(len(values), most)


def _difference(difference: UnitDifference | None, most: int) -> list[str]:
    if difference is None:
        return ["", "", ""]
    spread = "" if difference.std is None else f" ± {difference.std:.2%}"
    mean = f"{difference.mean:+.2%}{spread}{_fewer(len(difference.units), most)}"
    return [mean, p_text(difference.p_value), p_text(difference.p_holm)]


def _fewer(count: int, most: int) -> str:
    return f" ({count} of {most})" if 0 < count < most else ""


def _seconds(row: HeadScores) -> str:
    return f"{statistics.mean(row.seconds):.1f}"
