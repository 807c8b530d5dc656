"""The classifier's options: the auxiliary head and step sizes that stay as they are.

Shapes: features [B, 6] of an identity backbone, logits [B, 3].
"""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from mntrain.errors import ConfigError
from mntrain.layers.heads import build_head
from mntrain.layers.mlp import Mlp
from mntrain.models.base import Batch
from mntrain.models.families import FAMILIES
from mntrain.models.meta_neighborhoods.config import MetaNeighborhoodsConfig
from mntrain.models.meta_neighborhoods.dictionary import Dictionary
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods
from mntrain.training.optimizer import build_optimizer
from mntrain.training_config import TrainingConfig

FEATURES, CLASSES = 6, 3


def build(**settings: object) -> MetaNeighborhoods:
    torch.manual_seed(0)
    config = MetaNeighborhoodsConfig(entries=20, dropout=0.0, **settings)  # type: ignore[arg-type]
    backbone = nn.Linear(FEATURES, FEATURES)
    dictionary = Dictionary(config, features=FEATURES, classes=CLASSES)
    head = build_head(config.head, FEATURES, CLASSES, config.scale)
    auxiliary = build_head(config.head, FEATURES, CLASSES, config.scale) if config.auxiliary else None
    return MetaNeighborhoods(backbone, (head, auxiliary), dictionary, config)


def batch() -> Batch:
    generator = torch.Generator().manual_seed(1)
    return Batch(torch.randn(9, FEATURES, generator=generator), torch.arange(9) % CLASSES)


@pytest.mark.parametrize("head", ["cosine", "dot"])
def test_the_auxiliary_loss_is_that_of_a_head_of_its_own(head: str) -> None:
    model, data = build(auxiliary=0.7, head=head), batch()
    loss, prediction = model.loss(data)
    assert model.auxiliary_head is not None
    assert type(model.auxiliary_head) is type(model.head)
    features = model.backbone(data.inputs)
    expected = cross_entropy(prediction.logits, data.targets) + 0.7 * cross_entropy(
        model.auxiliary_head(features), data.targets
    )
    torch.testing.assert_close(loss, expected)


def test_the_auxiliary_head_trains_the_features_and_neither_head_nor_dictionary() -> None:
    def gradients(model: MetaNeighborhoods) -> dict[str, Tensor]:
        model.loss(batch())[0].backward()
        return {name: value.grad for name, value in model.named_parameters() if value.grad is not None}

    plain, helped = gradients(build()), gradients(build(auxiliary=1.0))
    differing = {name.partition(".")[0] for name in plain if not torch.equal(plain[name], helped[name])}
    assert differing == {"backbone"}
    assert {name.partition(".")[0] for name in helped.keys() - plain.keys()} == {"auxiliary_head"}


def test_the_auxiliary_head_does_not_answer() -> None:
    model = build(auxiliary=1.0).eval()
    before = model(batch().inputs)
    assert model.auxiliary_head is not None
    nn.init.zeros_(model.auxiliary_head.weight)
    after = model(batch().inputs)
    torch.testing.assert_close(after.logits, before.logits, atol=0, rtol=0)
    torch.testing.assert_close(after.unadapted_logits, before.unadapted_logits, atol=0, rtol=0)


def test_without_weight_there_is_no_auxiliary_head() -> None:
    model = build()
    assert model.auxiliary_head is None
    assert not any(name.startswith("auxiliary") for name in model.state_dict())


@pytest.mark.parametrize("form", ["scalar", "per_feature", "per_parameter"])
def test_a_step_size_that_is_not_learned_is_saved_and_stays(form: str) -> None:
    model = build(learn_step_size=False, step_size=3.0, step_size_form=form)
    assert "raw_step_size" in model.state_dict()
    assert "raw_step_size" not in dict(model.named_parameters())
    assert "step_size" not in [group.name for group in model.parameter_groups()]
    assert bool((model.step_size == 3.0).all())
    other = build(learn_step_size=True, step_size=1.0, step_size_form=form)
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(other(batch().inputs).logits, model(batch().inputs).logits)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("key_init", "xavier", "normal or uniform"),
        ("key_range", 0.0, "above 0"),
        ("values", "free", "learned or fixed"),
        ("similarity", "manhattan", "cosine, euclidean or distance"),
        ("auxiliary", -1.0, "from 0"),
        ("auxiliary", float("nan"), "finite"),
    ],
)
def test_a_wrong_setting_is_named(field: str, value: object, expected: str) -> None:
    with pytest.raises(ConfigError, match=rf"meta_neighborhoods\.{field} is .*{expected}"):
        MetaNeighborhoodsConfig(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(("field", "value"), [("values", "fixed"), ("auxiliary", 1.0)])
def test_regression_refuses_what_only_a_classifier_has(field: str, value: object) -> None:
    build_regressor = FAMILIES["meta_neighborhoods"].build_regressor
    assert build_regressor is not None
    config = MetaNeighborhoodsConfig(**{field: value})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=rf"meta_neighborhoods\.{field} is .*regression takes"):
        build_regressor(config, Mlp(3, 2, 8, 1), [(0.0, 1.0)])


def test_regression_takes_uniform_keys_distances_and_a_fixed_step() -> None:
    build_regressor = FAMILIES["meta_neighborhoods"].build_regressor
    assert build_regressor is not None
    config = MetaNeighborhoodsConfig(entries=50, key_init="uniform", similarity="distance", learn_step_size=False)
    model = build_regressor(config, Mlp(3, 2, 8, 1), [(0.0, 1.0)])
    assert "step_size" not in [group.name for group in model.parameter_groups()]
    data = Batch(torch.randn(4, 3), torch.randn(4))
    loss, _ = model.loss(data)
    loss.backward()
    assert all(
        bool(torch.isfinite(parameter.grad).all()) for parameter in model.parameters() if parameter.grad is not None
    )


def test_values_and_step_size_can_learn_at_rates_of_their_own() -> None:
    model, data = build(value_rate=10.0, step_size_rate=5.0), batch()
    optimizer = build_optimizer(model.parameter_groups(), TrainingConfig(learning_rate=1e-3, weight_decay=0.0))
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    model.loss(data)[0].backward()
    optimizer.step()
    # The first step of Adam is as long as the rate, in every element that has a gradient.
    moved = {name: float((value.detach() - before[name]).abs().max()) for name, value in model.named_parameters()}
    assert moved["dictionary.keys"] == pytest.approx(1e-3, rel=1e-2)
    assert moved["dictionary.value_logits"] == pytest.approx(1e-2, rel=1e-2)
    assert moved["raw_step_size"] == pytest.approx(5e-3, rel=1e-2)
