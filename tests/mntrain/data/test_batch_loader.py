import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mntrain.data.batch_loader import BatchLoader
from mntrain.data.batch_sizes import batch_sizes
from mntrain.data.images import ImageSet
from mntrain.errors import ConfigError


def image_set(count: int) -> ImageSet:
    values = np.arange(count)
    return ImageSet(images=values.astype(np.uint8).reshape(-1, 1, 1, 1), labels=values.astype(np.int64))


def loader(count: int, **options: object) -> BatchLoader:
    defaults = {"sizes": (count,), "seed": 0, "device": "cpu", "shuffle": True}
    return BatchLoader(image_set(count), **(defaults | options))  # type: ignore[arg-type]


def labels(batches: BatchLoader, epoch: int = 0) -> list[list[int]]:
    return [part.tolist() for _, part in batches.epoch(epoch)]


@given(count=st.integers(2, 60), batch=st.integers(2, 20), epoch=st.integers(0, 5), shuffle=st.booleans())
def test_every_image_comes_once_with_its_own_label(count: int, batch: int, epoch: int, shuffle: bool) -> None:
    sizes = batch_sizes(count, batch, last_batch="train")
    batches = loader(count, sizes=sizes, shuffle=shuffle)
    found = list(batches.epoch(epoch))
    assert [len(part) for _, part in found] == list(sizes)
    assert len(batches) == len(sizes)
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


def test_sizes_and_shuffle_can_be_chosen() -> None:
    assert labels(loader(10, sizes=(4, 4, 2), shuffle=False)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert labels(loader(10, sizes=(4, 4), shuffle=False)) == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("sizes", [(), (4, 0), (4, 6)])
def test_sizes_that_the_set_does_not_have_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="of 9"):
        loader(9, sizes=sizes)


def test_read_only_arrays_are_accepted() -> None:
    images = np.frombuffer(bytes(8), dtype=np.uint8).reshape(2, 1, 2, 2)
    one = BatchLoader(
        ImageSet(images=images, labels=np.zeros(2, np.int64)),
        sizes=(2,),
        seed=0,
        device="cpu",
        shuffle=False,
    )
    assert len(list(one.epoch(0))) == 1
