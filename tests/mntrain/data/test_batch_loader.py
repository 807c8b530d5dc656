import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mntrain.data.batch_loader import BatchLoader
from mntrain.data.images import ImageSet
from mntrain.errors import ConfigError


def image_set(count: int) -> ImageSet:
    values = np.arange(count)
    return ImageSet(images=values.astype(np.uint8).reshape(-1, 1, 1, 1), labels=values.astype(np.int64))


def loader(count: int, **options: object) -> BatchLoader:
    defaults = {"batch_size": 4, "seed": 0, "device": "cpu", "shuffle": True, "drop_last": False}
    return BatchLoader(image_set(count), **(defaults | options))  # type: ignore[arg-type]


def labels(batches: BatchLoader, epoch: int = 0) -> list[list[int]]:
    return [part.tolist() for _, part in batches.epoch(epoch)]


@given(count=st.integers(1, 60), batch=st.integers(1, 20), epoch=st.integers(0, 5), shuffle=st.booleans())
def test_every_image_comes_once_with_its_own_label(count: int, batch: int, epoch: int, shuffle: bool) -> None:
    batches = loader(count, batch_size=batch, shuffle=shuffle)
    found = list(batches.epoch(epoch))
    assert len(found) == len(batches) == -(-count // batch)
    assert sorted(torch.cat([part for _, part in found]).tolist()) == list(range(count))
    for images, part in found:
        assert images.dtype == torch.uint8
        assert part.dtype == torch.int64
        assert images.flatten().tolist() == part.tolist()


def test_order_depends_on_seed_and_epoch_alone() -> None:
    batches = loader(40)
    third = labels(batches, epoch=3)
    assert labels(loader(40), epoch=3) == third  # a resumed run, with no epoch before
    torch.manual_seed(1)
    assert labels(batches, epoch=3) == third
    assert labels(batches, epoch=4) != third
    assert labels(loader(40, seed=1), epoch=3) != third


def test_drop_last_and_shuffle_can_be_switched() -> None:
    assert labels(loader(10, shuffle=False)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert labels(loader(10, shuffle=False, drop_last=True)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert len(loader(10, drop_last=True)) == 2


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"batch_size": 0}, "at least 1"),
        ({"batch_size": 16, "drop_last": True}, "at most 9"),
    ],
)
def test_settings_without_a_batch_are_refused(options: dict[str, object], part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loader(9, **options)
    assert part in str(caught.value)


def test_read_only_arrays_are_accepted() -> None:
    images = np.frombuffer(bytes(8), dtype=np.uint8).reshape(2, 1, 2, 2)
    one = BatchLoader(
        ImageSet(images=images, labels=np.zeros(2, np.int64)),
        batch_size=2,
        seed=0,
        device="cpu",
        shuffle=False,
        drop_last=False,
    )
    assert len(list(one.epoch(0))) == 1
