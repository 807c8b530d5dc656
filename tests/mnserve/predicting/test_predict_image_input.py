"""Image input of a model, read from its configuration."""

from __future__ import annotations

import json

import numpy as np
import pytest
from google.protobuf import text_format

from mnserve.errors import ImageModelError
from mnserve.predicting.image_input import ImageInput
from mnserve.protocol.model_config_pb2 import ModelConfig, ModelInput


def config(text: str, **parameters: object) -> ModelConfig:
    result = text_format.Parse(text, ModelConfig(name="m"))
    for name, value in parameters.items():
        result.parameters["mn." + name].string_value = value if isinstance(value, str) else json.dumps(value)
    return result


def one_input(datatype: str, dims: list[int], extra: str = "", batch: int = 8, **parameters: object) -> ModelConfig:
    return config(
        f'max_batch_size: {batch} input {{ name: "image" data_type: {datatype} dims: {dims} {extra} }}',
        **parameters,
    )


PIXELS = np.arange(2 * 4 * 3, dtype=np.uint8).reshape(2, 4, 3) * 10


def test_a_model_with_stated_uint8_input_gets_its_pixels() -> None:
    stated = {"layout": "NCHW", "color": "RGB", "scale": "0..255"}
    image_input = ImageInput.from_config(one_input("TYPE_UINT8", [3, 2, 4], input=stated))
    assert (image_input.size.channels, image_input.size.height, image_input.size.width) == (3, 2, 4)
    assert image_input.max_batch == 8
    assert image_input.assumed == ()
    batch = image_input.encode([PIXELS, PIXELS + 1])
    assert batch.dtype == np.uint8
    assert batch.flags.c_contiguous
    np.testing.assert_array_equal(batch, np.stack([PIXELS, PIXELS + 1]).transpose(0, 3, 1, 2))


@pytest.mark.parametrize(
    ("datatype", "dtype"), [("TYPE_FP32", np.float32), ("TYPE_FP16", np.float16), ("TYPE_FP64", np.float64)]
)
def test_float_models_get_unit_range(datatype: str, dtype: type) -> None:
    image_input = ImageInput.from_config(one_input(datatype, [3, 2, 4], input={"scale": "0..1"}))
    batch = image_input.encode([PIXELS])
    assert batch.dtype == dtype
    np.testing.assert_allclose(batch[0], PIXELS.transpose(2, 0, 1) / 255, rtol=1e-3 if dtype == np.float16 else 1e-6)


def test_the_rule_for_other_sizes_is_read_or_left_open() -> None:
    assert ImageInput.from_config(one_input("TYPE_UINT8", [3, 2, 4], input={"fit": "pad"})).fit == "pad"
    assert ImageInput.from_config(one_input("TYPE_UINT8", [3, 2, 4], input={})).fit is None
    with pytest.raises(ImageModelError, match=r"mn\.input.*fill.*correct its config\.pbtxt"):
        ImageInput.from_config(one_input("TYPE_UINT8", [3, 2, 4], input={"fit": "fill"}))


def test_a_foreign_float_model_is_assumed_to_take_unit_range_and_says_so() -> None:
    image_input = ImageInput.from_config(one_input("TYPE_FP32", [3, 2, 4]))
    assert image_input.unit_scale
    assert image_input.assumed == ("model 'm' does not say how pixels are scaled (mn.input); 0..1 is assumed",)


def test_float_pixels_go_up_to_255_where_the_model_says_so() -> None:
    image_input = ImageInput.from_config(one_input("TYPE_FP32", [3, 2, 4], input={"scale": "0..255"}))
    assert image_input.encode([PIXELS]).max() == PIXELS.max()


@pytest.mark.parametrize("text", ["", "format: FORMAT_NHWC"])
def test_channels_last_is_found_from_format_and_dimensions(text: str) -> None:
    image_input = ImageInput.from_config(one_input("TYPE_UINT8", [2, 4, 3], text))
    np.testing.assert_array_equal(image_input.encode([PIXELS])[0], PIXELS)


def test_the_stated_layout_wins_where_dimensions_are_ambiguous() -> None:
    image_input = ImageInput.from_config(one_input("TYPE_UINT8", [3, 2, 3], input={"layout": "NHWC"}))
    assert (image_input.size.height, image_input.size.width) == (3, 2)
    assert not ImageInput.from_config(one_input("TYPE_UINT8", [3, 2, 3])).channels_last


def test_open_sizes_take_any_image() -> None:
    size = ImageInput.from_config(one_input("TYPE_UINT8", [1, -1, -1])).size
    assert (size.channels, size.height, size.width) == (1, None, None)


def test_a_model_with_its_own_batch_dimension_gets_one_image_at_a_time() -> None:
    image_input = ImageInput.from_config(one_input("TYPE_FP32", [1, 1, 28, 28], batch=0))
    assert (image_input.size.channels, image_input.max_batch) == (1, 1)
    assert image_input.encode([np.zeros((28, 28, 1), np.uint8)]).shape == (1, 1, 28, 28)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            config('input { name: "a" dims: 3 } input { name: "b" dims: 3 }'),
            r"takes a INVALID \[3\], b INVALID \[3\]; ",
        ),
        (one_input("TYPE_FP32", [64]), r"takes image FP32 \[64\]; an image has three dimensions"),
        (one_input("TYPE_UINT8", [4, 8, 8]), r"takes image UINT8 \[4, 8, 8\]; an image has 1 \(grey\) or 3"),
        (
            one_input("TYPE_INT64", [3, 8, 8]),
            r"takes image INT64 \[3, 8, 8\]; images are sent as UINT8 or as floats",
        ),
        (config(""), "takes no input; "),
    ],
)
def test_models_that_take_no_image_are_refused_with_what_they_take(model: ModelConfig, words: str) -> None:
    with pytest.raises(ImageModelError, match=words) as caught:
        ImageInput.from_config(model)
    assert "through a client" in str(caught.value)


@pytest.mark.parametrize("stated", ["{", "[]", '{"scale": "0..42"}'])
def test_a_damaged_parameter_is_named(stated: str) -> None:
    with pytest.raises(ImageModelError, match=r"mn\.input = .*correct its config\.pbtxt"):
        ImageInput.from_config(one_input("TYPE_UINT8", [3, 2, 4], input=stated))


@pytest.mark.parametrize(("dims", "shape"), [([3, 2, 4], (3, 2, 4)), ([1, 3, 2, 4], (1, 3, 2, 4))])
def test_a_model_without_batches_gets_one_image_of_its_own_rank(dims: list[int], shape: tuple[int, ...]) -> None:
    image_input = ImageInput.from_config(one_input("TYPE_UINT8", dims, batch=0))
    assert image_input.max_batch == 1
    assert image_input.encode([PIXELS]).shape == shape


def test_an_input_that_may_be_left_out_is_left_out() -> None:
    model = one_input("TYPE_UINT8", [3, 2, 4])
    model.input.insert(0, text_format.Parse('name: "w" data_type: TYPE_FP32 dims: 4 optional: true', ModelInput()))
    image_input = ImageInput.from_config(model)
    assert image_input.name == "image"
    np.testing.assert_array_equal(image_input.encode([PIXELS])[0], PIXELS.transpose(2, 0, 1))
