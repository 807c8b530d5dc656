import pytest

from mntrain.data.config import DataConfig
from mntrain.data.loading import load_images
from mntrain.errors import ConfigError


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({"source": "digit"}, ["data.source", "'digit'", "did you mean 'digits'"]),
        ({"source": "imagenet-22k-xyz"}, ["imagenet-22k-xyz", "digits, fashion-mnist, idx, images, datasets"]),
        ({"validation_fraction": 0.0}, ["data.validation_fraction", "0.0", "above 0"]),
        ({"validation_fraction": float("nan")}, ["data.validation_fraction", "nan"]),
        ({"test_fraction": 1.0}, ["data.test_fraction", "1.0"]),
        ({"train_limit": 0}, ["data.train_limit", "0", "positive"]),
        ({"image_size": -3}, ["data.image_size", "-3"]),
        ({"image_size": True}, ["data.image_size", "True"]),
        ({"image_size": 8, "image_fit": "fill"}, ["data.image_fit", "'fill'", "'stretch', 'crop' or 'pad'"]),
        ({"image_fit": "crop"}, ["data.image_fit is 'crop'", "set data.image_size"]),
        ({"split_seed": -1}, ["data.split_seed", "-1"]),
        ({"color": "CMYK"}, ["data.color", "CMYK", "RGB"]),
        ({"source": "idx"}, ["data.path is not set", "idx"]),
        ({"source": "datasets"}, ["data.path is not set", "hub"]),
        ({"path": "/somewhere"}, ["data.path", "/somewhere", "digits"]),
        ({"image_column": "img"}, ["data.image_column", "img", "datasets"]),
        ({"source": "datasets", "path": " "}, ["data.path", "non-empty"]),
        ({"classes": ()}, ["data.classes is ()", "'!Greek/*'", "null keeps all"]),
        ({"classes": ["a", " "]}, ["data.classes is ['a', ' ']"]),
        ({"source": "spiral", "classes": "first"}, ["data.classes is ('first',)", "'spiral' has no use", "'images'"]),
    ],
)
def test_refuses_a_wrong_field_by_name_value_and_remedy(fields: dict[str, object], parts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        DataConfig(**fields)  # type: ignore[arg-type]
    for part in parts:
        assert part in str(caught.value)
    assert caught.value.exit_code == 2


def test_digits_are_the_default_and_use_the_whole_byte_range() -> None:
    data = load_images(DataConfig())
    assert (data.channels, data.height, data.width, data.num_classes) == (1, 8, 8, 10)
    assert data.label_names == tuple("0123456789")
    assert sum(data.split.counts.values()) == 1797
    assert (data.train.images.min(), data.train.images.max()) == (0, 255)


def test_size_and_color_apply_to_array_sources() -> None:
    data = load_images(DataConfig(image_size=12, color="RGB"))
    assert data.train.images.shape[1:] == (3, 12, 12)
    assert (data.train.images[:, 0] == data.train.images[:, 2]).all()
