"""Models of a repository: each is loaded as in a server, and closed again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from mnserve.checking.report import ModelReport
from mnserve.models.lifecycle import load_versions
from mnserve.models.load_options import LoadOptions
from mnserve.models.served import ServedModel
from mnserve.repository.listing import look_through


@dataclass(frozen=True, kw_only=True)
class Repository:
    """Content of a repository.

    Attributes:
        models: Its models, by name and version.
        left_out: Name -> reason for which a folder is no model.
    """

    models: tuple[ModelReport, ...]
    left_out: dict[str, str]


async def check_models(root: Path, options: LoadOptions) -> Repository:
    """Loads the models of a repository one after the other, with all engines and versions that would be served.

    Args:
        root: The repository.
        options: Options of a server.

    Raises:
        RepositoryNotFoundError: The repository is no folder.
    """
    found = await asyncio.to_thread(look_through, root)
    models = [report for name in found.models for report in await _check(root, name, options)]
    return Repository(models=tuple(models), left_out=dict(found.left_out))


async def _check(root: Path, name: str, options: LoadOptions) -> list[ModelReport]:
    with _collected_warnings() as warnings:
        served, faults = await load_versions(root, name, options, {}, lambda: None)
        try:
            reports = [_describe(name, version, model) for version, model in served.items()]
        finally:
            for model in served.values():
                await model.retire()
    reports += [ModelReport(name=name, version=version, fault=reason) for version, reason in faults.items()]
    reports.sort(key=lambda report: report.version or 0)
    # Versions are loaded one after the other, and few warnings name theirs; the last report has them all.
    return [*reports[:-1], *(replace(report, warnings=tuple(dict.fromkeys(warnings))) for report in reports[-1:])]


def _describe(name: str, version: int, served: ServedModel) -> ModelReport:
    model = served.model
    return ModelReport(
        name=name,
        version=version,
        file=model.file,
        max_batch_size=model.signature.max_batch_size,
        instances=model.instances,
        batching=model.findings.batching,
        warm_up=model.findings.warm_up,
        threads=model.findings.threads,
    )


@contextmanager
def _collected_warnings() -> Iterator[list[str]]:
    """Collects the warnings that a server would log, in place of the log; errors are in the report as faults."""
    logger, texts = logging.getLogger("mnserve"), list[str]()

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno == logging.WARNING:
                texts.append(record.getMessage())

    collector, propagates = Collector(), logger.propagate
    logger.addHandler(collector)
    logger.propagate = False
    try:
        yield texts
    finally:
        logger.removeHandler(collector)
        logger.propagate = propagates
