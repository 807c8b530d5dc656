"""A batch of one request gives the engine tensors that native code may read."""

from __future__ import annotations

import numpy as np

from mnserve.codec.decoding import InferenceWork
from mnserve.execution.batch import Batch


def test_tensors_that_start_anywhere_in_a_message_are_aligned_for_the_engine() -> None:
    rows = np.arange(6, dtype="<f4").reshape(2, 3)
    message = b"\0" + rows.tobytes()
    array = np.frombuffer(message, "<f4", 6, 1).reshape(2, 3)
    assert not array.flags.aligned
    work = InferenceWork(feeds={"x": array, "y": rows}, rows=2, outputs=("z",))
    feeds = Batch([], [work]).feeds
    assert feeds is not None
    assert feeds["x"].flags.aligned
    assert feeds["y"] is rows
    np.testing.assert_array_equal(feeds["x"], rows)
