"""Kinds of models: what a model takes and answers says how the page tries it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mnserve.console.kinds import image_input
from mnserve.protocol import model_config_pb2 as pb


def config(image: Sequence[int], scores: Sequence[int], batch: int) -> pb.ModelConfig:
    made = pb.ModelConfig(name="a", max_batch_size=batch)
    made.input.add(name="image", data_type=pb.TYPE_FP32, dims=image)
    made.output.add(name="mask", data_type=pb.TYPE_INT64, dims=[3, 16, 16])
    made.output.add(name="scores", data_type=pb.TYPE_FP32, dims=scores)
    return made


@pytest.mark.parametrize(
    ("image", "scores", "batch", "classifies"),
    [
        ([3, 16, 16], [10], 4, True),
        ([3, 16, 16], [-1], 4, True),
        ([3, 16, 16], [1000, 1, 1], 4, True),
        ([3, 16, 16], [1], 4, True),
        ([3, 16, 16], [3, 16, 16], 4, False),
        ([3, 16, 16], [1, 16, 16], 4, False),
        ([3, -1, -1], [3, -1, -1], 4, False),
        ([3, 16, 16], [], 4, False),
        ([-1, 3, 16, 16], [-1, 10], 0, True),
        ([1, 3, 16, 16], [1, 10], 0, True),
        ([-1, 3, 16, 16], [-1, 3, 16, 16], 0, False),
        ([3, 16, 16], [10], 0, True),
        ([3, 16, 16], [1, 10], 0, True),
        ([3, 16, 16], [3, 16, 16], 0, False),
    ],
)
def test_scores_have_one_dimension(image: list[int], scores: list[int], batch: int, classifies: bool) -> None:
    assert (image_input(config(image, scores, batch)) is not None) == classifies
