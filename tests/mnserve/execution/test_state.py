"""State of a batcher: the moves of the diagram, and no others."""

from __future__ import annotations

import pytest

from mnserve.execution.state import ServingState

RUNNING, DRAINING, BROKEN, STOPPED = ServingState
ARROWS = {(RUNNING, DRAINING), (RUNNING, BROKEN), (RUNNING, STOPPED), (DRAINING, BROKEN), (DRAINING, STOPPED)}


@pytest.mark.parametrize("before", ServingState)
@pytest.mark.parametrize("target", ServingState)
def test_a_state_changes_along_the_arrows_only(before: ServingState, target: ServingState) -> None:
    assert before.moved_to(target) is (target if (before, target) in ARROWS else before)
