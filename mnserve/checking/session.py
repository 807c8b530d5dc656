"""A check from its settings to its exit code."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Final, NoReturn

from rich.console import Console

from mnserve.checking.models import Repository, check_models
from mnserve.checking.page import page
from mnserve.checking.providers import check_providers
from mnserve.checking.report import CheckReport, ModelReport, ProviderReport
from mnserve.checking.settings import CheckSettings
from mnserve.checking.surroundings import look_around
from mnserve.engines.device import server_devices
from mnserve.models.load_options import LoadOptions
from mnserve.object_store.local_copy import local_copy
from mnserve.object_store.url import is_url, parse_url
from mnserve.text.terminal import plain

_ENDING_SECONDS: Final = 2.0
"""Time for the thread of an engine that was closed to end."""
_INTERRUPTED: Final = 130


def check(settings: CheckSettings) -> int:
    """Looks, and prints what was found out.

    Returns:
        0, or 1 where something that was asked for is missing.

    Raises:
        RepositoryNotFoundError: The repository is no folder.
    """
    with local_copy(settings.repository, settings.store) as root:  # libraries of stores have threads that stay
        return _check(settings, root)


def _check(settings: CheckSettings, root: Path) -> int:
    before = set(threading.enumerate())
    try:
        report = examine(settings, root)
    except KeyboardInterrupt:
        if _any_hangs(before):
            sys.stderr.write("mnserve: interrupted\n")
            _end_at_once(_INTERRUPTED)
        raise
    if settings.json:
        sys.stdout.write(json.dumps(report.to_json(), indent=2) + "\n")
    else:
        console = Console(highlight=False)
        for line in page(report):
            console.print(plain(line), soft_wrap=True)
    code = 1 if report.faults else 0
    if _any_hangs(before):
        _end_at_once(code)
    return code


def _end_at_once(code: int) -> NoReturn:
    """Ends the process around a run that hangs: it would abort when the interpreter is finalized."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _any_hangs(before: Collection[threading.Thread]) -> bool:
    """Finds if a thread of an engine does not end; all are told to."""
    threads = [thread for thread in threading.enumerate() if thread not in before]
    for thread in threads:
        thread.join(_ENDING_SECONDS)
    return any(thread.is_alive() for thread in threads)


def examine(settings: CheckSettings, root: Path | None = None) -> CheckReport:
    """Looks at the machine, the execution providers and the models.

    Args:
        settings: Settings of the command line.
        root: The repository as a local folder; None for the one of the settings.

    Raises:
        RepositoryNotFoundError: The repository is no folder.
    """
    server = settings.serve_settings
    surroundings, providers = look_around(), check_providers(server.engine_options)
    found = Repository(models=(), left_out={})
    if settings.repository:
        options = LoadOptions.of_server(server, devices=server_devices(server.engine_options))
        found = asyncio.run(check_models(root or Path(settings.repository), options))
    faults = [*_provider_faults(settings, providers), *_model_faults(settings, found.models)]
    return CheckReport(
        surroundings=surroundings,
        providers=providers,
        repository=_shown(settings),
        models=found.models,
        left_out=found.left_out,
        faults=tuple(faults),
    )


def _shown(settings: CheckSettings) -> str:
    """Returns the repository as it may be shown: a URL without credentials."""
    return parse_url(settings.repository).shown if is_url(settings.repository) else settings.repository


def _provider_faults(settings: CheckSettings, providers: tuple[ProviderReport, ...]) -> list[str]:
    asked = settings.serve_settings.engine_options.providers
    failed = [report for report in providers if report.name in asked and not report.starts]
    if settings.allow_fallback and len(failed) < len(asked):
        return []
    return [f"{report.name} was asked for and does not start: {report.reason}" for report in failed]


def _model_faults(settings: CheckSettings, models: tuple[ModelReport, ...]) -> list[str]:
    if settings.repository and not models:
        return [f"model repository '{_shown(settings)}' has no models; put each one into a folder NAME/1/model.onnx"]
    return [
        report.fault if report.fault.startswith("model '") else f"model '{report.name}': {report.fault}"
        for report in models
        if report.fault
    ]
