"""The derivative of batch normalisation along a direction, against PyTorch's own."""

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from mntrain.layers.norm import batch_norm


def _moved(layer: nn.Module, maps: Tensor, directions: list[Tensor]) -> tuple[Tensor, Tensor]:
    with torch.no_grad(), forward_ad.dual_level():
        duals = [
            forward_ad.make_dual(value, along)
            for value, along in zip((maps, layer.weight, layer.bias), directions, strict=True)
        ]
        buffers = {name: buffer.clone() for name, buffer in layer.named_buffers()}
        values = {"weight": duals[1], "bias": duals[2], **buffers}
        result = forward_ad.unpack_dual(torch.func.functional_call(layer, values, (duals[0],)))
        return result.primal, result.tangent


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.bfloat16, 0.05)])
def test_the_tangent_is_the_one_of_pytorch(dtype: torch.dtype, tolerance: float) -> None:
    torch.manual_seed(0)
    layer = batch_norm(5)
    nn.init.uniform_(layer.weight, 0.5, 2.0)
    nn.init.normal_(layer.bias)
    layer.to(torch.float64 if dtype is torch.float64 else torch.float32)
    maps = (3 + 2 * torch.randn(7, 5, 4, 3)).to(dtype).contiguous(memory_format=torch.channels_last)
    directions = [torch.randn_like(value) for value in (maps, layer.weight, layer.bias)]
    plain = nn.BatchNorm2d(5, eps=layer.eps).to(torch.float64)
    plain.load_state_dict(layer.state_dict())
    expected = _moved(plain, maps.double(), [along.double() for along in directions])

    found = _moved(layer, maps, directions)

    for mine, oracle in zip(found, expected, strict=True):
        assert mine.dtype == dtype
        torch.testing.assert_close(mine.double(), oracle, atol=tolerance, rtol=tolerance)


def test_the_running_statistics_are_left_alone() -> None:
    layer = batch_norm(2)
    before = layer.running_mean.clone()
    maps = 5 + torch.randn(4, 2, 3, 3)

    with torch.no_grad(), forward_ad.dual_level():
        weight = forward_ad.make_dual(layer.weight.detach(), torch.ones(2))
        torch.func.functional_call(layer, {"weight": weight}, (maps,))

    assert torch.equal(layer.running_mean, before)


def test_a_gradient_still_flows_where_one_is_recorded() -> None:
    layer = batch_norm(2)
    with forward_ad.dual_level():
        maps = forward_ad.make_dual(torch.randn(4, 2, 3, 3), torch.randn(4, 2, 3, 3))
        layer(maps).square().mean().backward()

    assert layer.weight.grad is not None
    assert layer.weight.grad.abs().max() > 0
