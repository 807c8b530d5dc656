"""Moves of answers without some entries, against every smaller dictionary, built by hand in double precision."""

from itertools import combinations
from typing import Any

import pytest
import torch
from torch import Tensor

from mntrain.acting import faithfulness as module
from mntrain.acting.faithfulness import faithfulness
from mntrain.backbones.flat import Identity
from mntrain.layers.mlp import Mlp
from mntrain.models.families import FAMILIES
from mntrain.models.meta_neighborhoods.config import MetaNeighborhoodsConfig
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods
from mntrain.models.meta_neighborhoods.regression import MetaNeighborhoodsRegressor

FEATURES, CLASSES, ENTRIES = 4, 3, 6
SETTINGS: dict[str, Any] = {"temperature": 0.2, "step_size": 0.3, "dropout": 0.0, "key_std": 1.0}
RANGES = ((-1.5, 2.5), (0.0, 1.0))


def classifier(entries: int = ENTRIES, **settings: Any) -> MetaNeighborhoods:
    torch.manual_seed(0)
    config = MetaNeighborhoodsConfig(entries=entries, value_logit_std=2.0, **SETTINGS | settings)
    return MetaNeighborhoods.from_config(config, lambda: Identity(FEATURES), CLASSES).double().eval()


def regressor(entries: int = ENTRIES, **settings: Any) -> MetaNeighborhoodsRegressor:
    torch.manual_seed(0)
    build = FAMILIES["meta_neighborhoods"].build_regressor
    assert build is not None
    model = build(MetaNeighborhoodsConfig(entries=entries, **SETTINGS | settings), Mlp(FEATURES, 2, 8, 2), RANGES)
    assert isinstance(model, MetaNeighborhoodsRegressor)
    return model.double().eval()


def queries(count: int = 5) -> Tensor:
    return torch.randn(count, FEATURES, generator=torch.manual_seed(1), dtype=torch.float64)


def smaller(model: Any, kept: Tensor) -> Any:
    """The same network with some of the entries alone."""
    if isinstance(model, MetaNeighborhoods):
        other: Any = classifier(len(kept))
        other.head, other.raw_step_size = model.head, model.raw_step_size
        other.dictionary.keys.data = model.dictionary.keys[kept].detach()
        other.dictionary.value_logits.data = model.dictionary.value_logits[kept].detach()
        return other
    other = regressor(len(kept))
    other.network, other.raw_step_size = model.network, model.raw_step_size
    other.keys.data, other.values.data = model.keys[kept].detach(), model.values[kept].detach()
    return other


def moved(model: Any, query: Tensor, left_out: tuple[int, ...]) -> float:
    """Move of one answer [1, F] without some entries, by the definition."""
    kept = torch.tensor([entry for entry in range(len(model.entry_keys())) if entry not in left_out])
    before, after = model(query), smaller(model, kept)(query)
    if isinstance(model, MetaNeighborhoods):
        answer = int(before.logits.argmax())
        return float(before.logits.softmax(-1)[0, answer] - after.logits.softmax(-1)[0, answer])
    return float((before.values - after.values).abs().mean())


@pytest.mark.parametrize("build", [classifier, regressor])
def test_moves_are_those_of_smaller_dictionaries(build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_DRAWS", 150)
    model, z = build(), queries()
    with torch.inference_mode():
        found = faithfulness(model, z)
        assert found is not None
        assert (found.answers, found.left_out, found.curve_left_out) == (5, 3, (1, 3))
        order = model.attention_over_all(z).argsort(dim=-1, descending=True).tolist()
        named = [moved(model, query, tuple(row[:3])) for query, row in zip(z.split(1), order, strict=True)]
        first = [moved(model, query, (row[0],)) for query, row in zip(z.split(1), order, strict=True)]
        every = torch.tensor(
            [[moved(model, query, left) for left in combinations(range(ENTRIES), 3)] for query in z.split(1)]
        )
        shares = model.attention_over_all(z).sort(descending=True).values[:, :3].sum(dim=-1)
    assert found.named == pytest.approx(sum(named) / 5)
    assert found.named_size == pytest.approx(found.curve_named[1])
    assert found.named_size == pytest.approx(sum(map(abs, named)) / 5)
    assert found.curve_named[0] == pytest.approx(sum(map(abs, first)) / 5)
    assert found.random == pytest.approx(float(every.mean()), abs=0.15 * float(every.abs().mean()))
    assert found.random_size == pytest.approx(found.curve_random[1])
    assert found.random_size == pytest.approx(float(every.abs().mean()), rel=0.15)
    assert found.attention == pytest.approx(float(shares.mean()))
    further = (torch.tensor(named).abs() > every.abs().mean(dim=-1)).double().mean()
    assert found.further == pytest.approx(float(further), abs=0.21), "one answer may be near to the mean of all draws"
    assert found.measure == ("comprehensiveness" if build is classifier else "absolute_change")


def test_the_whole_effect_is_that_of_adaptation() -> None:
    model, z = classifier(), queries()
    with torch.inference_mode():
        found, prediction = faithfulness(model, z), model(z)
    assert found is not None
    chosen = prediction.logits.argmax(-1, keepdim=True)
    gained = (prediction.logits.softmax(-1) - prediction.unadapted_logits.softmax(-1)).gather(1, chosen)
    assert found.whole == pytest.approx(float(gained.mean()))
    assert found.whole_size == pytest.approx(float(gained.abs().mean()))
    assert found.of_whole == pytest.approx(found.named_size / found.whole_size)


def test_peaky_attention_names_what_matters_and_flat_attention_does_not() -> None:
    peaky = faithfulness(classifier(60, temperature=0.02), queries(40))
    flat = faithfulness(classifier(60, temperature=1e4), queries(40))
    assert peaky is not None
    assert flat is not None
    assert peaky.further > 0.9
    assert peaky.verdict() is None
    assert flat.attention == pytest.approx(3 / 60, rel=1e-3)
    assert flat.is_noise
    still = faithfulness(classifier(60, step_size=0.0), queries(4))
    assert still is not None
    assert (still.named, still.whole_size) == pytest.approx((0, 0), abs=1e-12)
    assert (still.further, still.of_whole) == (0.5, None)


def test_large_dictionaries_are_looked_at_for_fewer_answers_and_one_entry_for_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = faithfulness(classifier(3), queries(40))
    assert found is not None
    assert (found.answers, found.left_out, found.curve_left_out) == (40, 2, (1, 2))
    monkeypatch.setattr(module, "_MOST_WORK", 1)
    fewer = faithfulness(classifier(3), queries(40))
    assert fewer is not None
    assert fewer.answers == 16
    assert faithfulness(classifier(1), queries(4)) is None
