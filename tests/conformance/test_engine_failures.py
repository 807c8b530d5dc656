"""An engine that fails: INTERNAL, with an id that leads to the log, and nothing else is broken."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from open_inference import outputs_of, refused, request, rows

ID = re.compile(r"internal error ([0-9a-f]{6,})")


def ask(stub: Any, index: int) -> Any:
    tensors = {"x": rows(1), "turns": np.zeros((1, 1), "<i8"), "index": np.array([[index]], "<i8")}
    return stub.ModelInfer(request("picky", tensors))


def test_a_failing_run_is_internal_and_has_an_id_of_its_own(stub: Any) -> None:
    ids = set()
    for _ in range(3):
        with refused("INTERNAL") as refusal:
            ask(stub, 9)
        found = ID.search(refusal.message)
        assert found, refusal.message
        ids.add(found[1])
        assert "Traceback" not in refusal.message
        assert refusal.pushback is None  # coming again would not help
    assert len(ids) == 3
    assert outputs_of(ask(stub, 1))["value"].item() == 2


def test_the_id_is_in_the_log(stub: Any, own_server: Any) -> None:
    with refused("INTERNAL") as refusal:
        ask(stub, 9)
    found = ID.search(refusal.message)
    assert found
    assert found[0] in own_server.log()
