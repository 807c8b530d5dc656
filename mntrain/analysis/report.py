"""A report from a run to its page."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from mntrain.analysis.estimates import estimate
from mntrain.analysis.observation import observe
from mntrain.analysis.page import render
from mntrain.analysis.report_input import ReportInput, ReportOptions, load_report_input
from mntrain.analysis.sections.ablation import ablation_section
from mntrain.analysis.sections.accuracy import accuracy_section
from mntrain.analysis.sections.content import Section
from mntrain.analysis.sections.curves import curves_section
from mntrain.analysis.sections.embedding import embedding_section
from mntrain.analysis.sections.estimates import estimates_section
from mntrain.analysis.sections.head import data_name, head_section
from mntrain.analysis.sections.learned import learned_section
from mntrain.analysis.sections.neighbors import neighbors_section
from mntrain.analysis.sections.prototypes import prototypes_section
from mntrain.analysis.sections.retrieval import retrieval_section
from mntrain.analysis.sections.usage import usage_section
from mntrain.artifact import TableArtifact
from mntrain.atomic_files import write_text_atomically
from mntrain.data.tables import TableData
from mntrain.errors import TrainingError

_Step = tuple[str, Callable[[], Section | None]]


def report(options: ReportOptions) -> dict[str, Any]:
    """Look at a run and write its page.

    Returns:
        The numbers on the page: section → values.

    Raises:
        ArtifactError, DataError, ConfigError: see :func:`mntrain.analysis.report_input.load_report_input`.
        TrainingError: the page cannot be written.
    """
    _check_writable(options)
    subject = load_report_input(options)
    sections = _sections(subject)
    config = subject.artifact.config
    html = render(
        sections,
        title=config.experiment.name,
        subtitle=f"{sections[0].facts[0][1]} on {data_name(subject)}, seed {config.experiment.seed}",
        footer=f"mn-runtime {config.versions.get('mn-runtime', '')}, mntrain report",
    )
    with _writing(options):
        write_text_atomically(options.page, html)
    return {section.anchor: section.numbers for section in sections}


def _sections(subject: ReportInput) -> list[Section]:
    console = Console(stderr=True, quiet=subject.options.quiet)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("looking", total=None)

        def say(what: str) -> None:
            bar.update(task, description=what)
            if not console.is_terminal:
                console.print(what, highlight=False)

        steps = _steps_of_rows(subject, say) if subject.target else _steps(subject, say)
        bar.update(task, total=len(steps))
        found = []
        for what, make in steps:
            say(what)
            section = make()
            bar.advance(task)
            if section is not None:
                found.append(section)
    return found


def _steps(subject: ReportInput, say: Callable[[str], None]) -> list[_Step]:
    """Of a classifier."""
    data, artifact, most = subject.data, subject.artifact, subject.options.images
    say(f"test {subject.nouns}")
    test = observe(artifact.model, artifact.preprocessing, "test", data.test, most)
    say(f"training {subject.nouns}")
    train = observe(artifact.model, artifact.preprocessing, "train", data.train, most)
    return [
        ("run", lambda: head_section(subject)),
        ("curves", lambda: curves_section(subject)),
        ("accuracy before and after adaptation", lambda: accuracy_section(subject, test)),
        ("cosine to the true prototype", lambda: prototypes_section(subject, test)),
        ("embedding", lambda: embedding_section(subject, train)),
        ("images nearest to neighbors", lambda: neighbors_section(subject, test)),
        ("retrieval", lambda: retrieval_section(subject, train, test)),
        ("entries in use", lambda: usage_section(subject, test.attention)),
        ("ablations", lambda: ablation_section(subject, test)),
        ("learned numbers", lambda: learned_section(subject)),
    ]


def _steps_of_rows(subject: ReportInput, say: Callable[[str], None]) -> list[_Step]:
    """Of a regressor."""
    artifact = subject.artifact
    assert isinstance(artifact, TableArtifact)
    assert isinstance(subject.data, TableData)
    say("test rows")
    rows = artifact.config.standardization.targets(subject.data.test)
    found = estimate(artifact.model, artifact.preprocessing, rows, subject.options.images)
    return [
        ("run", lambda: head_section(subject)),
        ("curves", lambda: curves_section(subject)),
        ("estimates", lambda: estimates_section(subject, found)),
        ("entries in use", lambda: usage_section(subject, found.attention)),
        ("ablations", lambda: ablation_section(subject, None)),
        ("learned numbers", lambda: learned_section(subject)),
    ]


def _check_writable(options: ReportOptions) -> None:
    """Before minutes of work: the folder of the page must be there and take a file."""
    page = options.page
    if page.is_dir():
        raise TrainingError(f"Page {page} cannot be written: it is a folder. Choose another --output.")
    if options.output is None:  # the run itself is checked when it is read
        return
    with _writing(options):
        page.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(page.parent, os.W_OK):
        raise TrainingError(f"Page {page} cannot be written: its folder takes no files. Choose another --output.")


@contextmanager
def _writing(options: ReportOptions) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TrainingError(
            f"Page {options.page} cannot be written: {error.strerror or error}. Choose another --output."
        ) from error
