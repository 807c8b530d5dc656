"""Which examples an epoch takes, by the sampling of the run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mntrain.config import load_experiment
from mntrain.data.batch_loader import BatchLoader
from mntrain.data.classes.order import Sampling, epoch_order
from mntrain.data.images import ImageSet
from mntrain.errors import ConfigError
from mntrain.training.checked_run import check_run
from mntrain.training_config import TrainingConfig

LABELS = np.repeat(np.arange(3), [70, 25, 5])


def test_instance_takes_every_example_once_in_the_order_of_earlier_versions() -> None:
    expected = np.random.default_rng((3, 7)).permutation(100)
    np.testing.assert_array_equal(epoch_order(LABELS, "instance", seed=3, epoch=7), expected)


@pytest.mark.parametrize(("sampling", "power"), [("class_balanced", 0.0), ("square_root", 0.5)])
def test_shares_of_classes_are_powers_of_their_size(sampling: Sampling, power: float) -> None:
    shares = np.array([70, 25, 5]) ** power
    expected = 100 * shares / shares.sum()
    counts = np.array(
        [np.bincount(LABELS[epoch_order(LABELS, sampling, seed=0, epoch=epoch)], minlength=3) for epoch in range(300)]
    )
    assert (counts.sum(axis=1) == 100).all()
    assert (abs(counts - expected) < 1).all()
    np.testing.assert_allclose(counts.mean(axis=0), expected, atol=0.1)


def test_examples_of_a_class_are_taken_equally_often() -> None:
    times = np.bincount(epoch_order(LABELS, "class_balanced", seed=0, epoch=0), minlength=100)
    for label in range(3):
        assert np.ptp(times[label == LABELS]) <= 1


@pytest.mark.parametrize("sampling", ["class_balanced", "square_root"])
def test_epochs_take_other_examples_of_a_class_that_has_too_many_for_one(sampling: Sampling) -> None:
    taken = [set(epoch_order(LABELS, sampling, seed=0, epoch=epoch).tolist()) for epoch in range(12)]
    assert set.union(*taken) == set(range(100))
    assert len({frozenset(positions) for positions in taken}) == 12


def test_more_classes_than_an_epoch_has_places_for_are_all_taken_in_time() -> None:
    labels = np.array([0] * 5 + [1] * 5 + [2])
    taken = [labels[epoch_order(labels, "class_balanced", seed=0, epoch=epoch)] for epoch in range(3)]
    assert all(set(epoch) == {0, 1, 2} for epoch in taken)


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        return list(epoch_order(LABELS, "square_root", seed=seed, epoch=epoch))

    assert order(1, 2) == order(1, 2)
    assert order(1, 2) != order(1, 3)
    assert order(1, 2) != order(2, 2)


def test_batches_follow_the_sampling() -> None:
    examples = ImageSet(images=np.zeros((100, 1, 2, 2), dtype=np.uint8), labels=LABELS)
    loader = BatchLoader(examples, sizes=[50, 50], seed=0, device="cpu", shuffle=True, sampling="class_balanced")
    labels = np.concatenate([targets.numpy() for _, targets in loader.epoch(0)])
    np.testing.assert_array_equal(labels, LABELS[epoch_order(LABELS, "class_balanced", seed=0, epoch=0)])


def test_values_have_no_classes_to_sample_by(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{number},{number % 7}.5\n" for number in range(60)))
    words = ["--data.path", str(tmp_path / "t.csv"), "--data.target_column", "y", "--training.sampling", "square_root"]
    with pytest.raises(ConfigError, match=r"training\.sampling is 'square_root', but the targets are values"):
        check_run(load_experiment("table", words), device="meta")


def test_weights_beside_sampling_are_refused() -> None:
    with pytest.raises(ConfigError, match="count twice"):
        TrainingConfig(sampling="class_balanced", class_weights="balanced")
    with pytest.raises(ConfigError, match="instance or class_balanced or square_root"):
        TrainingConfig(sampling="uniform")  # type: ignore[arg-type]
