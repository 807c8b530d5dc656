"""Make the page of a head, or of a comparison of heads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mntrain.analysis.heads.coefficients import coefficients_section
from mntrain.analysis.heads.improvement import distance_section, improvement_section
from mntrain.analysis.heads.scores import scores_section
from mntrain.analysis.heads.sweeps import sweeps_section
from mntrain.analysis.heads.tradeoff import tradeoff_section
from mntrain.analysis.page import render
from mntrain.analysis.page_file import check_file, check_writable, write_page
from mntrain.artifact import current_versions
from mntrain.heads.comparison import HeadComparison
from mntrain.heads.comparison_files import COMPARISON, read_comparison
from mntrain.heads.record import RECORD, read_record


@dataclass(frozen=True, kw_only=True)
class HeadReportOptions:
    """Head and output of a page.

    Args:
        run: folder of a head, or of a comparison of heads.
        output: the page; None is RUN/report.html.
    """

    run: Path
    output: Path | None = None

    @property
    def page(self) -> Path:
        """Path of the page."""
        return self.run / "report.html" if self.output is None else self.output


def is_head(folder: Path) -> bool:
    """Tell if a folder is that of a head, or of a comparison of heads."""
    return (folder / RECORD).is_file() or (folder / COMPARISON).is_file()


def report_heads(options: HeadReportOptions) -> dict[str, Any]:
    """Write the page.

    Returns:
        The numbers on the page: section → values.

    Raises:
        ArtifactError: the record cannot be read.
        TrainingError: the page cannot be written.
    """
    if options.output is None:
        check_file(options.page, "--output")
    else:
        check_writable(options.page, "--output")
    alone = (options.run / RECORD).is_file()
    heads = HeadComparison.of([read_record(options.run)]) if alone else read_comparison(options.run)
    sections = [section for make in _SECTIONS if (section := make(heads)) is not None]
    record = heads.records[0]
    html = render(
        sections,
        title=str(record["name"]) if alone else options.run.resolve().name,
        subtitle=f"{', '.join(row.method for row in heads.rows)} on features of {record['store']['network']}",
        footer=f"mn-runtime {current_versions()['mn-runtime']}, mntrain report",
    )
    write_page(options.page, html, "--output")
    return {section.anchor: section.numbers for section in sections}


_SECTIONS = (
    scores_section,
    tradeoff_section,
    improvement_section,
    distance_section,
    coefficients_section,
    sweeps_section,
)
