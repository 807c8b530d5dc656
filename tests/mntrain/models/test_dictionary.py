"""The dictionary: initialisation and dropout of entries."""

from typing import Any

import pytest
import torch

from mntrain.models.meta_neighborhoods.config import DropoutMode, MetaNeighborhoodsConfig
from mntrain.models.meta_neighborhoods.dictionary import Dictionary


def make(mode: DropoutMode = "per_sample", *, entries: int = 2000, dropout: float = 0.5, **settings: Any) -> Dictionary:
    torch.manual_seed(0)
    config = MetaNeighborhoodsConfig(entries=entries, dropout=dropout, dropout_mode=mode, **settings)
    return Dictionary(config, features=16, classes=5)


def test_keys_and_values_start_with_the_configured_spread() -> None:
    dictionary = make()
    assert dictionary.keys.std().item() == pytest.approx(0.05, rel=0.05)
    assert dictionary.value_logits.std().item() == pytest.approx(0.1, rel=0.05)
    torch.testing.assert_close(dictionary.values().sum(-1), torch.ones(2000))


def test_uniform_keys_fill_their_range() -> None:
    keys = make(key_init="uniform", key_range=3.0).keys
    assert 2.9 < keys.max().item() <= 3.0
    assert -3.0 <= keys.min().item() < -2.9
    assert keys.std().item() == pytest.approx(3 / 3**0.5, rel=0.05)


def test_fixed_values_are_one_class_each_and_no_parameter() -> None:
    dictionary = make(values="fixed")
    assert [name for name, _ in dictionary.named_parameters()] == ["keys"]
    values = dictionary.values()
    assert set(values.unique().tolist()) == {0.0, 1.0}
    torch.testing.assert_close(values.sum(-1), torch.ones(2000))
    assert values.mean(0).min().item() == pytest.approx(0.2, abs=0.05), "every class is drawn alike"
    torch.testing.assert_close(dictionary.state_dict()["fixed_values"], values)


@pytest.mark.parametrize("values", ["learned", "fixed"])
def test_entries_left_by_dropout_keep_their_values(values: str) -> None:
    dictionary = make("per_batch", values=values).train()
    keys, found, _ = dictionary.entries_for(8)
    position = {tuple(key.tolist()): index for index, key in enumerate(dictionary.keys)}
    expected = dictionary.values()[[position[tuple(key.tolist())] for key in keys]]
    torch.testing.assert_close(found, expected)


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


def test_a_query_that_loses_all_entries_keeps_one_at_random() -> None:
    _, _, keep = make(entries=4, dropout=0.9).train().entries_for(8000)
    assert keep is not None
    kept = keep.sum(-1)
    assert kept.min() == 1
    # Of 0.9^4 = 66 % that lost all, and of those that kept one anyway, 0.1·0.9³·4 = 29 %.
    assert (kept == 1).float().mean().item() == pytest.approx(0.9**4 + 4 * 0.1 * 0.9**3, abs=0.02)
    assert (kept == 4).float().mean() < 0.01, "no query sees all of them for having lost all"
    alone = keep[kept == 1].float().mean(0)
    assert alone.min().item() == pytest.approx(0.25, abs=0.03), "every entry is kept as often as any other"


@pytest.mark.parametrize("mode", ["per_sample", "per_batch"])
def test_seeded_entries_leave_the_global_generator_alone(mode: DropoutMode) -> None:
    dictionary = make(mode, entries=50).train()
    dictionary.dropout.seed(7)
    before = torch.get_rng_state()
    first = [dictionary.entries_for(4) for _ in range(2)]
    assert torch.equal(torch.get_rng_state(), before)
    dictionary.dropout.seed(7)
    again = [dictionary.entries_for(4) for _ in range(2)]
    for one, other in zip(first, again, strict=True):
        assert torch.equal(one.keys, other.keys)
        assert one.keep is None or (other.keep is not None and torch.equal(one.keep, other.keep))
    unequal = first[0].keep if mode == "per_sample" else first[0].keys
    following = first[1].keep if mode == "per_sample" else first[1].keys
    assert unequal is not None
    assert following is not None
    assert not torch.equal(unequal, following), "a draw is followed by others"
