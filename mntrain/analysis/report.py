"""Make the report of a run."""

from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from mntrain.analysis.estimates import estimate
from mntrain.analysis.observation import observe
from mntrain.analysis.page import render
from mntrain.analysis.page_file import check_file, check_writable, write_page
from mntrain.analysis.report_input import ReportInput, ReportOptions, load_report_input
from mntrain.analysis.sections.ablation import ablation_section
from mntrain.analysis.sections.accuracy import accuracy_section
from mntrain.analysis.sections.acting import acting_section
from mntrain.analysis.sections.content import Section
from mntrain.analysis.sections.curves import curves_section
from mntrain.analysis.sections.embedding import embedding_section
from mntrain.analysis.sections.estimates import estimates_section
from mntrain.analysis.sections.head import data_name, head_section
from mntrain.analysis.sections.learned import learned_section
from mntrain.analysis.sections.neighbors import neighbors_section
from mntrain.analysis.sections.prototypes import prototypes_section
from mntrain.analysis.sections.retrieval import retrieval_section
from mntrain.analysis.sections.similarity import similarity_section
from mntrain.analysis.sections.usage import usage_section
from mntrain.artifact import TableArtifact
from mntrain.data.tables import TableData
from mntrain.terminal_text import plain, printable

_Step = tuple[str, Callable[[], Section | None]]


def report(options: ReportOptions) -> dict[str, Any]:
    """Analyse a run and write its page.

    Returns:
        The numbers on the page: section → values.

    Raises:
        ArtifactError, DataError, ConfigError: see :func:`mntrain.analysis.report_input.load_report_input`.
        TrainingError: the page cannot be written.
    """
    if options.output is None:  # the folder of the run is checked when the run is read
        check_file(options.page, "--output")
    else:
        check_writable(options.page, "--output")
    report_input = load_report_input(options)
    sections = _sections(report_input)
    config = report_input.artifact.config
    html = render(
        sections,
        title=config.experiment.name,
        subtitle=f"{sections[0].facts[0][1]} on {data_name(report_input)}, seed {config.experiment.seed}",
        footer=f"mn-runtime {config.versions.get('mn-runtime', '')}, mntrain report",
    )
    write_page(options.page, html, "--output")
    return {section.anchor: section.numbers for section in sections}


def _sections(report_input: ReportInput) -> list[Section]:
    console = Console(stderr=True, quiet=report_input.options.quiet)
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("looking", total=None)

        def say(step: str) -> None:
            bar.update(task, description=printable(step))
            if not console.is_terminal:
                console.print(plain(step), soft_wrap=True)

        steps = _steps_of_rows(report_input, say) if report_input.targets else _steps(report_input, say)
        bar.update(task, total=len(steps))
        sections = []
        for step, make in steps:
            say(step)
            section = make()
            bar.advance(task)
            if section is not None:
                sections.append(section)
    return sections


def _steps(report_input: ReportInput, say: Callable[[str], None]) -> list[_Step]:
    """Run a classifier, and list the sections of its page."""
    data, artifact, limit = report_input.data, report_input.artifact, report_input.options.images
    say(f"test {report_input.nouns}")
    test = observe(artifact.model, artifact.preprocessing, "test", data.test, limit)
    say(f"training {report_input.nouns}")
    train = observe(artifact.model, artifact.preprocessing, "train", data.train, limit)
    return [
        ("run", lambda: head_section(report_input)),
        ("curves", lambda: curves_section(report_input)),
        ("accuracy before and after adaptation", lambda: accuracy_section(report_input, test)),
        ("what adaptation does", lambda: acting_section(report_input, test, train)),
        ("cosine to the true prototype", lambda: prototypes_section(report_input, test)),
        ("embedding", lambda: embedding_section(report_input, train)),
        ("images nearest to neighbors", lambda: neighbors_section(report_input, test)),
        ("retrieval", lambda: retrieval_section(report_input, train, test)),
        ("entries in use", lambda: usage_section(report_input, test.attention)),
        ("ablations", lambda: ablation_section(report_input, test)),
        ("similarity", lambda: similarity_section(report_input, test)),
        ("learned numbers", lambda: learned_section(report_input)),
    ]


def _steps_of_rows(report_input: ReportInput, say: Callable[[str], None]) -> list[_Step]:
    """Run a regressor, and list the sections of its page."""
    artifact = report_input.artifact
    assert isinstance(artifact, TableArtifact)
    assert isinstance(report_input.data, TableData)
    say("test rows")
    rows = artifact.config.standardization.targets(report_input.data.test)
    estimates = estimate(artifact.model, artifact.preprocessing, rows, report_input.options.images)
    return [
        ("run", lambda: head_section(report_input)),
        ("curves", lambda: curves_section(report_input)),
        ("estimates", lambda: estimates_section(report_input, estimates)),
        ("what adaptation does", lambda: acting_section(report_input)),
        ("entries in use", lambda: usage_section(report_input, estimates.attention)),
        ("ablations", lambda: ablation_section(report_input, None)),
        ("learned numbers", lambda: learned_section(report_input)),
    ]
