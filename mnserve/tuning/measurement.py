"""A candidate measured as its clients would see it: a server process of its own, and callers that wait for answers."""

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
"""How many times as long a slow candidate may be measured."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class ServerMeasurement:
    """Starts a server for every trial, so that no trial profits from another one's."""

    repository: CandidateRepository
    """Where candidates are tried out."""
    words: Sequence[str]
    """Further words for `mnserve serve`."""
    text: str | None
    """What ``config.pbtxt`` says now; None where there is no such file."""
    current: Candidate
    """What that amounts to; it is measured as it is."""
    feeds: Mapping[str, Array]
    """Input name -> array, of every request."""
    datatypes: Mapping[str, str]
    """Input name -> protocol type."""
    loads: Sequence[int]
    """Callers at a time, one number after the other."""
    seconds: float
    """Measured time of each load."""
    least_calls: int
    """Calls of each load, for which slow candidates are measured for longer, up to STRETCH times ``seconds``."""
    timeout: float
    """Seconds to wait for an answer."""

    def configuration(self, candidate: Candidate) -> str | None:
        """The text of ``config.pbtxt`` under which a candidate is measured, and which is written if it is chosen."""
        return self.text if candidate == self.current else configured(self.text or "", candidate)

    def __call__(self, candidate: Candidate) -> Trial:
        """Measures a candidate. A server that does not start and requests that fail are faults of the candidate."""
        self.repository.configure(self.configuration(candidate))
        try:
            with (
                server_process(self.repository.root, self.words) as url,
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
                    ((slots[callers],),) = interleave([lambda: self._ask(client)], plan)
                return Trial(slots=slots)
        except (BenchError, ClientError) as error:
            return Trial(fault=str(error))

    def _ask(self, client: Client) -> None:
        client.infer(self.repository.model, self.feeds, datatypes=self.datatypes)
