"""The dictionary: initialisation and dropout of entries."""

import pytest
import torch

from mntrain.models.meta_neighborhoods.dictionary import Dictionary
from mntrain.models.meta_neighborhoods.entry_dropout import DropoutMode, EntryDropout


def make(mode: DropoutMode = "per_sample", *, entries: int = 2000, dropout: float = 0.5) -> Dictionary:
    torch.manual_seed(0)
    return Dictionary(
        entries=entries,
        features=16,
        classes=5,
        key_std=0.05,
        value_logit_std=0.1,
        dropout=EntryDropout(share=dropout, mode=mode),
    )


def test_starts_as_configured() -> None:
    dictionary = make()
    assert dictionary.keys.std().item() == pytest.approx(0.05, rel=0.05)
    assert dictionary.value_logits.std().item() == pytest.approx(0.1, rel=0.05)
    torch.testing.assert_close(dictionary.values().sum(-1), torch.ones(2000))


@pytest.mark.parametrize("mode", ["per_sample", "per_batch"])
def test_evaluation_sees_every_entry(mode: DropoutMode) -> None:
    keys, values, keep = make(mode).eval().entries_for(3)
    assert keys.shape == (2000, 16)
    assert values.shape == (2000, 5)
    assert keep is None


def test_per_sample_dropout_draws_a_mask_for_every_query() -> None:
    keys, _, keep = make().train().entries_for(8)
    assert keys.shape == (2000, 16)
    assert keep is not None
    assert keep.shape == (8, 2000)
    assert keep.float().mean().item() == pytest.approx(0.5, abs=0.02)
    assert not torch.equal(keep[0], keep[1])


def test_per_batch_dropout_gathers_half_of_the_entries() -> None:
    dictionary = make("per_batch").train()
    keys, values, keep = dictionary.entries_for(8)
    assert keep is None
    assert keys.shape == (1000, 16)
    assert values.shape == (1000, 5)
    other, _, _ = dictionary.entries_for(8)
    assert not torch.equal(keys, other)


@pytest.mark.parametrize("mode", ["per_sample", "per_batch"])
def test_a_single_entry_is_never_dropped(mode: DropoutMode) -> None:
    keys, _, keep = make(mode, entries=1, dropout=0.9).train().entries_for(64)
    assert len(keys) == 1
    assert keep is None or bool(keep.all())
