"""One page of text about a check, for a terminal or a bug report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mnserve.checking.report import CheckReport, ModelReport, ProviderReport
from mnserve.checking.surroundings import Surroundings
from mnserve.engines.runtime import TELEMETRY_VARIABLE

_GIBIBYTE: Final = 2**30
_WIDTH: Final = 11


def page(report: CheckReport) -> Iterator[str]:
    """Writes the lines of the page."""
    yield from _surroundings(report.surroundings)
    yield ""
    yield "execution providers"
    for provider in report.providers:
        yield from _provider(provider)
    if report.repository:
        yield ""
        yield f"models of {report.repository}"
        for model in report.models:
            yield from _model(model)
        for name, reason in report.left_out.items():
            yield f"  {name}: left out, {reason}"
    yield ""
    yield from ([f"fault: {fault}" for fault in report.faults] or ["no fault"])


def _surroundings(found: Surroundings) -> Iterator[str]:
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    yield _field("versions", f"Python {found.python}, {versions}")
    yield _field("system", found.system)
    yield _field("build", found.build)
    yield _field("CPUs", f"{found.cpus.counted}: {found.cpus.why}")
    limit = found.memory_limit
    group = "no limit of a control group" if limit is None else f"the control group allows {limit / _GIBIBYTE:.1f} GiB"
    yield _field("memory", f"{found.memory / _GIBIBYTE:.1f} GiB, {group}")
    driver = f"; driver: {found.driver}" if found.driver else ""
    yield _field("GPUs", f"{', '.join(found.gpus) or 'none that a driver of NVIDIA shows'}{driver}")
    yield _field("telemetry", f"{'on' if found.telemetry else 'off'}, by {TELEMETRY_VARIABLE} in the environment")
    for warning in found.warnings:
        yield _field("warning", warning)


def _provider(report: ProviderReport) -> Iterator[str]:
    yield f"  {report.name}: {'starts' if report.starts else f'does not start: {report.reason}'}"
    for remedy in dict.fromkeys(item.remedy for item in report.missing):
        libraries = ", ".join(item.library for item in report.missing if item.remedy == remedy)
        yield f"    {libraries}: {remedy}"


def _model(report: ModelReport) -> Iterator[str]:
    where = report.name if report.version is None else f"{report.name} version {report.version}"
    if report.fault:
        yield f"  {where}: cannot be served"
        yield _field("fault", report.fault, 4)
    else:
        engines = f", {report.instances} engines" if report.instances > 1 else ""
        rows = f"batches of up to {report.max_batch_size} rows" if report.max_batch_size else "one request at a time"
        yield f"  {where}: {report.file}, {rows}{engines}"
        yield _field("batching", report.batching, 4)
        yield _field("warm-up", report.warm_up, 4)
        if report.threads:
            yield _field("threads", report.threads, 4)
    for warning in report.warnings:
        yield _field("warning", warning, 4)


def _field(name: str, text: str, indent: int = 0) -> str:
    return f"{' ' * indent}{name:<{_WIDTH}}{text}"
