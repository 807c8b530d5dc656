"""Tiny trainings end with the recorded losses and weights: bit for bit on a machine that has recorded them."""

from __future__ import annotations

from pathlib import Path

import pytest
from measuring import TRAININGS, train
from recordings import Recording, compare_rows


@pytest.mark.parametrize("name", TRAININGS)
def test_losses_scores_and_weights_are_the_recorded_ones(name: str, recording: Recording, tmp_path: Path) -> None:
    found, recorded = train(name, tmp_path), recording.trainings[name]
    if recording.same_machine:
        assert found["rows"] == recorded["rows"]
        digests = [{epoch: item["sha256"] for epoch, item in run["weights"].items()} for run in (found, recorded)]
        assert digests[0] == digests[1]
    compare_rows(found["rows"], recorded["rows"])
    assert list(found["weights"]) == list(recorded["weights"]) == ["epoch-0000", "epoch-0002"]
    for epoch, weights in found["weights"].items():
        assert weights["norms"] == pytest.approx(recorded["weights"][epoch]["norms"], rel=1e-3, abs=1e-6)


def test_another_seed_ends_elsewhere(recording: Recording, tmp_path: Path) -> None:
    """Proves that the comparison above can fail, on any machine."""
    found = train("meta_neighborhoods", tmp_path, "--seed", "1")
    with pytest.raises(AssertionError):
        compare_rows(found["rows"], recording.trainings["meta_neighborhoods"]["rows"])
