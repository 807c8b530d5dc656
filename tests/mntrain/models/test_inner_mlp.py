"""The closed form of the update of a whole perceptron, against autograd on weights materialised for each query.

Shapes: B 5 queries, S 9 entries, F 4 features, T 1 or 3 targets, two hidden layers of 6 units.
"""

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from mntrain.layers.attention import attention, key_index, similarity
from mntrain.layers.mlp import Mlp, as_values
from mntrain.models.meta_neighborhoods.inner_mlp import adapted_values, layer_tables, weight_change

QUERIES, ENTRIES, FEATURES = 5, 9, 4


class Setting:
    """A network with a dictionary in double precision; every part requires a gradient."""

    def __init__(self, layers: int = 2, seed: int = 0, targets: int = 1) -> None:
        generator = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed)
        self.mlp = Mlp(FEATURES, layers, 6, targets).double()
        self.keys = torch.randn(ENTRIES, FEATURES, generator=generator, dtype=torch.float64, requires_grad=True)
        shape = (ENTRIES,) if targets == 1 else (ENTRIES, targets)
        self.values = torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
        self.step_size = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
        self.queries = torch.randn(QUERIES, FEATURES, generator=generator, dtype=torch.float64, requires_grad=True)

    def weights(self) -> Tensor:
        return attention(similarity(self.queries, key_index(self.keys, "cosine")), 0.1)

    def closed_form(self, weights: Tensor) -> Tensor:
        layers = self.mlp.parameters_of_layers()
        tables = layer_tables(self.keys, self.values, layers)
        return adapted_values(self.queries, weights, layers, tables, self.step_size)

    def materialised(self, weights: Tensor) -> Tensor:
        """One query after the other: autograd gives the update, and a copy of the network answers."""
        moved = self.moved_parameters(weights)
        queries = zip(self.queries, moved, strict=True)
        return torch.stack([as_values(functional_call(self.mlp, parameters, query)) for query, parameters in queries])

    def moved_parameters(self, weights: Tensor) -> list[dict[str, Tensor]]:
        """Parameters of every query after the update, by autograd."""
        parameters = dict(self.mlp.named_parameters())
        answers = []
        for omega in weights:
            errors = functional_call(self.mlp, parameters, self.keys) - self.values.reshape(ENTRIES, -1)
            inner = (omega.unsqueeze(-1) * errors.square()).sum()
            gradients = torch.autograd.grad(inner, list(parameters.values()), create_graph=True)
            answers.append(
                {
                    name: value - self.step_size * gradient
                    for (name, value), gradient in zip(parameters.items(), gradients, strict=True)
                }
            )
        return answers


@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("layers", [1, 2, 4])
def test_the_change_of_the_weights_is_that_of_autograd(layers: int, targets: int) -> None:
    setting = Setting(layers, targets=targets)
    plain = dict(setting.mlp.named_parameters())
    length = torch.cat([value.flatten() for value in plain.values()]).norm()
    expected = [
        torch.cat([(moved[name] - plain[name]).flatten() for name in plain]).norm() / length
        for moved in setting.moved_parameters(setting.weights())
    ]
    parameters = setting.mlp.parameters_of_layers()
    tables = layer_tables(setting.keys, setting.values, parameters)
    found = weight_change(setting.weights(), parameters, tables, setting.step_size)
    torch.testing.assert_close(found, torch.stack(expected), atol=1e-12, rtol=0)


@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("layers", [1, 2, 4])
def test_values_equal_the_materialised_update(layers: int, targets: int) -> None:
    setting = Setting(layers, targets=targets)
    found, expected = setting.closed_form(setting.weights()), setting.materialised(setting.weights())
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    plain = as_values(setting.mlp(setting.queries))
    assert found.shape == plain.shape == ((QUERIES,) if targets == 1 else (QUERIES, targets))
    assert (found - plain).abs().amax(dim=0).min() > 1e-2, "the update moves the answers of every target"


def test_the_last_layer_moves_for_each_target_as_for_that_target_alone() -> None:
    """Only the last layer differs between targets: without hidden layers three targets are three regressors."""
    together = Setting(layers=0, targets=3)
    (weight, bias), weights = together.mlp.parameters_of_layers()[0], together.weights()
    found = together.closed_form(weights)
    for target in range(3):
        layers = [(weight[target : target + 1], bias[target : target + 1])]
        tables = layer_tables(together.keys, together.values[:, target], layers)
        alone = adapted_values(together.queries, weights, layers, tables, together.step_size)
        torch.testing.assert_close(found[:, target], alone, atol=1e-14, rtol=0)


@pytest.mark.parametrize("several", [1, 3])
@pytest.mark.parametrize("layers", [1, 2, 4])
def test_meta_gradients_equal_second_order_autograd(layers: int, several: int) -> None:
    setting = Setting(layers, targets=several)
    targets = as_values(torch.linspace(-1, 1, QUERIES * several, dtype=torch.float64).reshape(QUERIES, several))
    wanted = [*setting.mlp.parameters(), setting.keys, setting.values, setting.step_size, setting.queries]
    losses = [
        (answer(setting.weights()) - targets).square().mean() for answer in (setting.closed_form, setting.materialised)
    ]
    found, expected = (torch.autograd.grad(loss, wanted) for loss in losses)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-11, rtol=0)
        assert theirs.abs().max() > 0


def test_without_a_step_the_network_is_plain() -> None:
    setting = Setting()
    with torch.no_grad():
        setting.step_size.zero_()
        found = setting.closed_form(setting.weights())
        torch.testing.assert_close(found, setting.mlp(setting.queries).squeeze(-1), atol=1e-15, rtol=0)


def test_attention_on_one_entry_is_one_step_of_gradient_descent_on_it() -> None:
    setting = Setting()
    weights = torch.zeros(QUERIES, ENTRIES, dtype=torch.float64)
    weights[:, 3] = 1
    found = setting.closed_form(weights)
    optimizer = torch.optim.SGD(setting.mlp.parameters(), lr=0.3)
    (setting.mlp(setting.keys.detach()[3]).squeeze() - setting.values.detach()[3]).square().backward()
    optimizer.step()
    torch.testing.assert_close(found, setting.mlp(setting.queries).squeeze(-1), atol=1e-12, rtol=0)


def test_a_constant_model_on_real_points_is_kernel_regression() -> None:
    """The papers' view of nearest neighbors: only the bias of the last layer has a gradient, α = 1/2 solves for it."""
    setting = Setting()
    with torch.no_grad():
        for layer in setting.mlp.layers:
            assert isinstance(layer, nn.Linear)
            layer.weight.zero_()
            layer.bias.zero_()
        setting.step_size.fill_(0.5)
        weights = setting.weights()
        torch.testing.assert_close(setting.closed_form(weights), weights @ setting.values, atol=1e-12, rtol=0)
