"""States of a batcher, and of the engine instances behind it."""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import Final


class ServingState(Enum):
    """State of a batcher or of its instances; :meth:`moved_to` allows the arrows and no other move.

    ::

                  refuse, drain             all is done
        RUNNING ───────────────► DRAINING ─────────────► STOPPED
           │ │                    │    │                    ▲
           │ └─────── fault ──────┤    └────── abort ───────┤
           │                      ▼                         │
           │                    BROKEN                      │
           └───────────────────── abort ────────────────────┘

    =========  ======================================  ====================================
    state      batcher                                 instances
    =========  ======================================  ====================================
    RUNNING    admits requests                         take batches
    DRAINING   refuses new requests, answers the rest  end once all that was put is done
    BROKEN     refuses requests with the fault; no     have lost a batch that did not end,
               engine begins anything                  and the thread that it runs in
    STOPPED    has nothing to do any more              have nothing to do any more
    =========  ======================================  ====================================

    BROKEN and STOPPED are final: a model recovers by being loaded again. Batches that other engines had begun when a
    batcher broke are still waited for, and end without effect.
    """

    RUNNING = "running"
    DRAINING = "draining"
    BROKEN = "broken"
    STOPPED = "stopped"

    def moved_to(self, target: ServingState) -> ServingState:
        """Follows an arrow of the diagram.

        Returns:
            ``target``, or this state where no arrow leads there: a fault after the end changes nothing.
        """
        return target if target in _ARROWS[self] else self


_ARROWS: Final = MappingProxyType(
    {
        ServingState.RUNNING: (ServingState.DRAINING, ServingState.BROKEN, ServingState.STOPPED),
        ServingState.DRAINING: (ServingState.BROKEN, ServingState.STOPPED),
        ServingState.BROKEN: (),
        ServingState.STOPPED: (),
    }
)
