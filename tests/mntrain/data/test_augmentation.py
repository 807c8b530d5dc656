import pytest
import torch
from torch import Tensor

from mntrain.data.augmentation import Augmentation, AugmentationConfig
from mntrain.errors import ConfigError

ALL = AugmentationConfig(crop_padding=4, flip=True, cutout=8, auto_augment=True)


def batch(count: int = 64, channels: int = 3, height: int = 16, width: int = 12) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(count, channels, height, width, generator=generator) * 0.9 + 0.05  # no black pixel


def augment(images: Tensor, config: AugmentationConfig, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    out = Augmentation(config, *images.shape[2:])(images)
    assert isinstance(out, Tensor)
    return out


def test_images_are_unchanged_when_everything_is_off() -> None:
    images = batch()
    assert torch.equal(augment(images, AugmentationConfig()), images)


@pytest.mark.parametrize("channels", [1, 3])
def test_all_augmentations_keep_shape_and_range_and_are_repeatable(channels: int) -> None:
    images = batch(channels=channels)
    before = images.clone()
    out = augment(images, ALL)
    assert out.shape == images.shape
    assert out.dtype == torch.float32
    assert torch.isfinite(out).all()
    assert out.min() >= 0
    assert out.max() <= 1
    assert torch.equal(images, before), "the input was changed"
    assert torch.equal(augment(images, ALL), out)
    assert not torch.equal(augment(images, ALL, seed=1), out)


def test_flip_mirrors_whole_images_about_half_of_the_time() -> None:
    images = batch(400)
    out = augment(images, AugmentationConfig(flip=True))
    mirrored = (out == images.flip(3)).flatten(1).all(1)
    same = (out == images).flatten(1).all(1)
    assert (mirrored ^ same).all()
    assert 140 < int(mirrored.sum()) < 260


def test_crop_is_a_window_of_the_padded_image_and_uses_every_offset() -> None:
    padding, images = 2, batch(300)
    out = augment(images, AugmentationConfig(crop_padding=padding))
    padded = torch.nn.functional.pad(images, (padding,) * 4)
    windows = padded.unfold(2, 16, 1).unfold(3, 12, 1)  # [B, C, 5, 5, H, W]
    match = (windows == out[:, :, None, None]).all(1).flatten(-2).all(-1)  # [B, 5, 5]
    assert (match.flatten(1).sum(1) == 1).all()
    assert match.any(0).all()


def test_cutout_blackens_one_clipped_square_and_nothing_else() -> None:
    size, images = 5, batch(500)
    out = augment(images, AugmentationConfig(cutout=size))
    black = out[:, 0] == 0
    assert torch.equal(out, images.masked_fill(black[:, None], 0.0))
    rows, columns = black.any(2).sum(1), black.any(1).sum(1)
    assert torch.equal(black.sum((1, 2)), rows * columns), "not a rectangle"
    assert rows.max() == columns.max() == size
    assert rows.min() == size // 2 + 1, "squares around border pixels are clipped"


def test_auto_augment_draws_a_policy_for_each_image() -> None:
    images = batch(1).expand(64, -1, -1, -1)
    out = augment(images, AugmentationConfig(auto_augment=True))
    assert len(torch.unique(out.flatten(1), dim=0)) > 16
    module = Augmentation(AugmentationConfig(auto_augment=True), 16, 12)
    assert not any(parameter.requires_grad for parameter in module.parameters())


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"crop_padding": -1}, "crop_padding is -1"),
        ({"cutout": 1.5}, "cutout is 1.5"),
        ({"flip": 1}, "flip is 1"),
    ],
)
def test_wrong_fields_are_refused(fields: dict[str, object], part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        AugmentationConfig(**fields)  # type: ignore[arg-type]
    assert part in str(caught.value)


@pytest.mark.parametrize("config", [AugmentationConfig(crop_padding=8), AugmentationConfig(cutout=17)])
def test_changes_that_would_hide_the_image_are_refused(config: AugmentationConfig) -> None:
    with pytest.raises(ConfigError, match="8x8"):
        Augmentation(config, 8, 8)
