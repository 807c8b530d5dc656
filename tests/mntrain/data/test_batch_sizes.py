"""Every example comes exactly once in an epoch, in batches that are large enough."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mntrain.data.batch_sizes import LastBatch, batch_sizes


@given(examples=st.integers(2, 5000), share=st.integers(2, 100), devices=st.integers(1, 8))
def test_nothing_is_left_out_and_no_batch_is_too_small(examples: int, share: int, devices: int) -> None:
    assume(examples >= 2 * devices)
    size = share * devices
    sizes = batch_sizes(examples, size, last_batch="train", devices=devices)
    assert sum(sizes) == examples
    full = min(size, examples - examples % devices)
    assert min(sizes) >= min(full, max(8, 2 * devices))
    assert max(sizes) <= full + max(8, 2 * devices) - 1
    assert [item for item in sizes if item < full] in ([], [sizes[-1]]), "a smaller batch is the last one"


@given(examples=st.integers(2, 5000), share=st.integers(2, 100), devices=st.integers(1, 8))
def test_dropping_leaves_full_batches_alone(examples: int, share: int, devices: int) -> None:
    assume(examples >= 2 * devices)
    sizes = batch_sizes(examples, share * devices, last_batch="drop", devices=devices)
    full = min(share * devices, examples - examples % devices)
    assert sizes == (full,) * (examples // full)


@pytest.mark.parametrize(
    ("examples", "size", "last_batch", "devices", "expected"),
    [
        (216, 128, "train", 1, (128, 88)),
        (216, 128, "drop", 1, (128,)),
        (216, 16, "train", 1, (16,) * 13 + (8,)),
        (215, 16, "train", 1, (17,) * 7 + (16,) * 6),  # seven would be a batch of noise
        (135, 128, "train", 1, (135,)),
        (130, 4, "train", 1, (5, 5, *(4,) * 30)),
        (100, 128, "train", 1, (100,)),
        (101, 128, "train", 4, (101,)),
        (143, 128, "train", 8, (143,)),  # two for each of eight processes are not to be had
        (144, 128, "train", 8, (128, 16)),
        (256, 128, "train", 2, (128, 128)),
    ],
)
def test_an_epoch_is_divided_by_the_rule(
    examples: int, size: int, last_batch: LastBatch, devices: int, expected: tuple[int, ...]
) -> None:
    assert batch_sizes(examples, size, last_batch=last_batch, devices=devices) == expected


def test_up_to_four_processes_have_the_batches_of_one() -> None:
    for examples in range(8, 400):
        one = batch_sizes(examples, 24, last_batch="train")
        for devices in (2, 4):
            assert batch_sizes(examples, 24, last_batch="train", devices=devices) == one
