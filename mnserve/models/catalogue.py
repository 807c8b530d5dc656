"""What calls need of the served models: the same in the process that has the engines, and in one that has none.

``mnserve.models.registry.Models`` is the catalogue of the process that loads the models. Another process has a mirror
of it, whose endpoints send their requests there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from mnserve.batching.queue_policy import QueueRules
from mnserve.batching.request_limits import RequestLimits
from mnserve.codec.decoding import InferenceWork
from mnserve.codec.signature import RequestSignature
from mnserve.execution.results import InferenceResult
from mnserve.models.statistics import ModelCounters
from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.model_config_pb2 import ModelConfig


class Endpoint(Protocol):
    """One version of a model that answers requests."""

    @property
    def name(self) -> str:
        """Name of the model."""

    @property
    def version(self) -> int:
        """Number of the version."""

    @property
    def config(self) -> ModelConfig:
        """Complete configuration."""

    @property
    def signature(self) -> RequestSignature:
        """Rules for requests."""

    @property
    def queue_rules(self) -> QueueRules:
        """Priorities, and how long requests may wait."""

    @property
    def counters(self) -> ModelCounters:
        """Counters of its requests."""

    @property
    def fault(self) -> str | None:
        """Reason for which it is not ready; None while it is."""

    def reject_early(self, rows: int, level: int = 0) -> None:
        """Rejects a request that would not be admitted now, as far as this process can tell.

        Args:
            rows: Rows of the request.
            level: Its priority level.

        Raises:
            UnavailableError: It would be refused; the error of :meth:`infer`.
        """

    async def infer(
        self,
        work: InferenceWork,
        limits: RequestLimits | None = None,
        on_admitted: Callable[[int], None] | None = None,
    ) -> InferenceResult:
        """Queues a request, and waits for its outputs, as :meth:`mnserve.batching.batcher.Batcher.infer` does."""


@dataclass(frozen=True, kw_only=True)
class ModelState:
    """State of one version in the list of models.

    Attributes:
        name: Name of the model.
        version: Its version, or None where none was found.
        served: The version, or None where it is not loaded.
        reason: Reason for which it is not ready; empty where it is.
        loaded: The model is to be served.
    """

    name: str
    version: int | None
    served: Endpoint | None
    reason: str
    loaded: bool = True

    @property
    def ready(self) -> bool:
        """True if it answers requests."""
        return not self.reason


class Catalogue(Protocol):
    """Models of a server, as calls see them."""

    @property
    def closing(self) -> asyncio.Event:
        """Set once no new request is admitted."""

    @property
    def ready(self) -> bool:
        """True if every model that is to be served answers requests, and there is one, or none is needed."""

    def states(self) -> list[ModelState]:
        """Lists all models, by name and version."""

    def find(self, name: str, version: str = "") -> Endpoint:
        """Finds the model that a request means, ready or stopping.

        Args:
            name: Name of the model.
            version: Its version; empty is the highest that is ready.

        Raises:
            UnknownModelError: There is no such model, or it is not served in this version.
            InvalidRequestError: The version is not a number.
            ModelNotReadyError: The model is there but cannot answer.
        """

    def is_ready(self, name: str, version: str = "") -> bool:
        """Finds if a model answers requests; False for one that does not exist.

        Raises:
            InvalidRequestError: The version is not a number.
        """

    def check_known(self, name: str) -> None:
        """Checks that there is a model of a name, loaded or not.

        Raises:
            UnknownModelError: There is none.
        """

    async def load(self, name: str, override: ModelConfig | None = None) -> None:
        """Loads a model, or loads it again; returns once every caller finds it.

        Args:
            name: The model.
            override: Configuration in place of its config.pbtxt until it is loaded again.

        Raises:
            UnknownModelError: There is no such model.
            LoadFailedError: A version cannot be loaded.
            StoppingError: The server is stopping.
        """

    async def unload(self, name: str) -> None:
        """Takes a model out; requests that were admitted are still answered.

        Raises:
            StoppingError: The server is stopping.
        """

    async def statistics(self, name: str = "", version: str = "") -> list[pb.ModelStatistics]:
        """Tells the counters of one model, or of all where no name is given.

        Raises:
            UnknownModelError: There is no such model, or it is not served in this version.
            InvalidRequestError: The version is not a number.
            ModelNotReadyError: The model is there but cannot answer.
        """

    async def snapshots(self) -> list[dict[str, Any]]:
        """Tells all counters of every loaded version, as :meth:`mnserve.models.statistics.ModelCounters.snapshot`."""
