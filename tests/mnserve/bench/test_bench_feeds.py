"""Random input for timing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

from mnserve.bench.feeds import input_rows, random_feeds
from mnserve.codec.datatypes import DATATYPES
from mnserve.errors import BenchError
from mnserve.protocol.model_config_pb2 import ModelConfig


def config(text: str, batch: int = 8) -> ModelConfig:
    return text_format.Parse(f"max_batch_size: {batch} {text}", ModelConfig(name="m"))


IMAGE = 'input { name: "image" data_type: TYPE_UINT8 dims: [3, 4, 5] }'
OPEN = 'input { name: "image" data_type: TYPE_FP32 dims: [3, -1, -1] }'


def feeds(model: ModelConfig, batch: int, seed: int = 0, **shapes: tuple[int, ...]) -> dict[str, Any]:
    return random_feeds(model, input_rows(model, shapes), batch, seed)


def test_arrays_have_the_models_type_and_shape() -> None:
    array = feeds(config(IMAGE), 7)["image"]
    assert (array.dtype, array.shape) == (np.uint8, (7, 3, 4, 5))
    assert array.max() > 200


@pytest.mark.parametrize("name", [name for name in DATATYPES if name != "BYTES"])
def test_every_numeric_type_can_be_drawn(name: str) -> None:
    model = config(f'input {{ name: "x" data_type: TYPE_{name} dims: 50 }}')
    array = feeds(model, 2)["x"]
    assert (array.dtype, array.shape) == (DATATYPES[name].dtype, (2, 50))
    assert len(np.unique(array)) > 1
    if name == "BF16":
        array = (array.astype(np.uint32) << 16).view(np.float32)
    assert np.isfinite(array).all()
    assert (array >= 0).all()


def test_the_seed_decides_and_twins_get_the_same() -> None:
    first, twin = feeds(config(IMAGE), 3, seed=5), feeds(config(IMAGE, batch=32), 3, seed=5)
    np.testing.assert_array_equal(first["image"], twin["image"])
    assert not np.array_equal(first["image"], feeds(config(IMAGE), 3, seed=6)["image"])


def test_a_model_without_a_batch_dimension_gets_its_own_shape() -> None:
    assert feeds(config(IMAGE, batch=0), 1)["image"].shape == (3, 4, 5)
    with pytest.raises(
        BenchError, match=r"batch 2 is more than model 'm' takes: .* no batch dimension; the limit is 1"
    ):
        feeds(config(IMAGE, batch=0), 2)


def test_batches_beyond_the_limit_are_refused() -> None:
    with pytest.raises(BenchError, match="batch 9 is more than model 'm' takes: max_batch_size is 8; leave"):
        feeds(config(IMAGE), 9)


def test_open_dimensions_need_a_shape() -> None:
    with pytest.raises(BenchError, match=r"has the dimensions \[3, -1, -1\].*with --shape image:3,SIZE,SIZE"):
        feeds(config(OPEN), 1)
    assert feeds(config(OPEN), 2, image=(3, 8, 9))["image"].shape == (2, 3, 8, 9)


@pytest.mark.parametrize("shape", [(3, 8), (1, 8, 8), (3, 8, 8, 8)])
def test_a_shape_has_to_fit(shape: tuple[int, ...]) -> None:
    with pytest.raises(BenchError, match=r"the dimensions .*, model 'm' takes \[3, -1, -1\]"):
        feeds(config(OPEN), 1, image=shape)


def test_strings_cannot_be_timed() -> None:
    with pytest.raises(BenchError, match="input 'text' of model 'm' holds strings"):
        feeds(config('input { name: "text" data_type: TYPE_STRING dims: 1 }'), 1)


def test_optional_inputs_keep_their_default() -> None:
    model = config(f'{IMAGE} input {{ name: "scale" data_type: TYPE_FP32 dims: [4] optional: true }}')
    assert set(feeds(model, 2)) == {"image"}


ROWS = """input { name: "row" data_type: TYPE_FP32 dims: 1 } input { name: "categories" data_type: TYPE_STRING dims: 2 }
parameters { key: "mn.input" value { string_value:
'{"layout": "rows", "columns": ["a", "b", "c"], "categories": {"b": ["x", "y"], "c": ["z"]}, "target": "t"}' } }"""


def test_categories_are_drawn_from_those_that_the_model_knows() -> None:
    drawn = feeds(config(ROWS, batch=32), 32)
    assert drawn["row"].shape == (32, 1)
    assert drawn["categories"].shape == (32, 2)
    assert set(drawn["categories"][:, 0]) == {b"x", b"y"}
    assert set(drawn["categories"][:, 1]) == {b"z"}
