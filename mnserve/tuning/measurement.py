"""Measurement of a candidate from the side of clients: a server process, and callers that wait for answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mnserve.bench.server_process import server_process
from mnserve.bench.timing import TimingPlan, interleave
from mnserve.client.blocking import Client
from mnserve.errors import BenchError, ClientError
from mnserve.tuning.candidate import Candidate
from mnserve.tuning.candidate_repository import CandidateRepository
from mnserve.tuning.configuration import configured
from mnserve.tuning.scores import Trial

STRETCH: Final = 5.0
"""Limit of the extended measurement of a slow candidate, as a multiple of its time."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class ServerMeasurement:
    """Measures candidates with a new server for every trial, so that trials do not affect each other."""

    repository: CandidateRepository
    """Repository of the candidates."""
    arguments: Sequence[str]
    """Further arguments of `mnserve serve`."""
    text: str | None
    """Current content of ``config.pbtxt``; None without the file."""
    current: Candidate
    """Candidate of this content, which is measured unchanged."""
    feeds: Mapping[str, Array]
    """Input name -> array, of every request."""
    datatypes: Mapping[str, str]
    """Input name -> protocol type."""
    loads: Sequence[int]
    """Numbers of concurrent callers, measured one after the other."""
    seconds: float
    """Measured time of each load, in seconds."""
    least_calls: int
    """Calls of each load; slow candidates are measured for longer, up to STRETCH times ``seconds``."""
    timeout: float
    """Seconds to wait for an answer."""

    def configuration(self, candidate: Candidate) -> str | None:
        """Returns the text of ``config.pbtxt`` of a candidate, for its measurement and for its publication."""
        return self.text if candidate == self.current else configured(self.text or "", candidate)

    def __call__(self, candidate: Candidate) -> Trial:
        """Measures a candidate. A failed start of the server and failed requests count as faults of the candidate."""
        self.repository.configure(self.configuration(candidate))
        try:
            with (
                server_process(self.repository.root, self.arguments) as url,
                Client(url, self.timeout) as client,
            ):
                slots = {}
                for callers in self.loads:
                    plan = TimingPlan(
                        seconds=self.seconds,
                        rounds=1,
                        concurrency=callers,
                        least_calls=self.least_calls,
                        stretch=STRETCH,
                    )
                    ((slots[callers],),) = interleave([lambda: self._infer(client)], plan)
                return Trial(slots=slots)
        except (BenchError, ClientError) as error:
            return Trial(fault=str(error))

    def _infer(self, client: Client) -> None:
        client.infer(self.repository.model, self.feeds, datatypes=self.datatypes)
