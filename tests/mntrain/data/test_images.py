"""Arrays of image sets."""

import numpy as np
import torch

from mntrain.data.images import ImageSet


def test_read_only_arrays_become_writable_so_that_torch_shares_them_without_a_warning() -> None:
    images = np.frombuffer(bytes(range(64)) * 2, np.uint8).reshape(8, 1, 4, 4)
    kept = ImageSet(images=images, labels=np.frombuffer(bytes(64), np.int64))
    torch.from_numpy(kept.images)
    torch.from_numpy(kept.labels)
    np.testing.assert_array_equal(kept.images, images)


def test_arrays_that_already_fit_are_not_copied() -> None:
    images, labels = np.zeros((2, 1, 4, 4), np.uint8), np.zeros(2, np.int64)
    kept = ImageSet(images=images, labels=labels)
    assert np.shares_memory(kept.images, images)
    assert np.shares_memory(kept.labels, labels)
