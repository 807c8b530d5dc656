"""Report of a check: the machine, execution providers, and models."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from mnserve.checking.surroundings import Surroundings
from mnserve.engines.provider_libraries import MissingLibrary


@dataclass(frozen=True, kw_only=True)
class ProviderReport:
    """Execution provider that this build of ONNX Runtime has, or that was asked for.

    Attributes:
        name: ONNX Runtime's name of the provider.
        starts: Whether it computes here.
        missing: Libraries that it lacks.
        reason: Sentence that tells why it does not start; empty where it does.
    """

    name: str
    starts: bool
    missing: tuple[MissingLibrary, ...] = ()
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class ModelReport:
    """One version of a model.

    Attributes:
        name: Name of the model.
        version: Its number; None where there is none.
        file: File that computes the default outputs; empty for a model that cannot be served.
        max_batch_size: Most rows of a batch; 0 where requests run singly.
        instances: Engines that run side by side.
        batching: Whether requests share batches, and why.
        warm_up: What was run, or why nothing was.
        threads: Threads and instances, and why.
        warnings: Warnings that a server would log.
        fault: Sentence that tells why the model cannot be served; empty where it can.
    """

    name: str
    version: int | None
    file: str = ""
    max_batch_size: int = 0
    instances: int = 1
    batching: str = ""
    warm_up: str = ""
    threads: str = ""
    warnings: tuple[str, ...] = ()
    fault: str = ""


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    """What was found out.

    Attributes:
        surroundings: Versions, CPUs, memory and telemetry.
        providers: Execution providers.
        repository: The repository; empty where none was looked at.
        models: Its models.
        left_out: Name -> reason for which a folder of the repository is no model.
        faults: Everything that was asked for and is missing, in sentences.
    """

    surroundings: Surroundings
    providers: tuple[ProviderReport, ...]
    repository: str = ""
    models: tuple[ModelReport, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)
    faults: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return asdict(self)
