import numpy as np
import pytest
import torch

from mntrain.data.preprocessing import Preprocessing, PreprocessingConfig
from mntrain.errors import ConfigError


def test_normalises_each_channel_and_both_dtypes_agree() -> None:
    pixels = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (50, 3, 6, 5), dtype=np.uint8))
    config = PreprocessingConfig.from_images(pixels.numpy())
    module = Preprocessing(config)
    out = module(pixels)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(out.std((0, 2, 3), correction=0), torch.ones(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(out, module(pixels.float() / 255), atol=1e-5, rtol=1e-5)
    mean = torch.tensor(config.mean, dtype=torch.float64).view(1, 3, 1, 1)
    std = torch.tensor(config.std, dtype=torch.float64).view(1, 3, 1, 1)
    torch.testing.assert_close(out.double(), (pixels.double() / 255 - mean) / std, atol=1e-6, rtol=1e-6)


def test_statistics_match_numpy_and_a_flat_channel_is_left_alone() -> None:
    images = np.random.default_rng(1).integers(0, 256, (20, 2, 4, 4), dtype=np.uint8)
    images[:, 1] = 51
    config = PreprocessingConfig.from_images(images)
    assert config.mean == pytest.approx([images[:, 0].mean() / 255, 0.2])
    assert config.std == pytest.approx([images[:, 0].std() / 255, 1.0])


def test_identity_scales_to_one() -> None:
    module = Preprocessing(PreprocessingConfig.identity(1))
    assert module(torch.full((1, 1, 1, 1), 255, dtype=torch.uint8)).item() == pytest.approx(1.0)
    assert not module.state_dict()


def test_uint8_path_is_one_multiply_add_in_the_exported_graph() -> None:
    module = Preprocessing(PreprocessingConfig(mean=(0.5,), std=(0.25,))).eval()
    batch = torch.export.Dim("batch")
    example = torch.zeros(2, 1, 4, 4, dtype=torch.uint8)
    program = torch.export.export(module, (example,), dynamic_shapes=({0: batch},))
    calls = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert [name for name in calls if "mul" in name or "add" in name or "div" in name] == [
        "aten.mul.Tensor",
        "aten.add.Tensor",
    ]
    other = torch.randint(0, 256, (5, 1, 4, 4), dtype=torch.uint8)
    torch.testing.assert_close(program.module()(other), module(other))


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(TypeError, match="float64"):
        Preprocessing(PreprocessingConfig.identity(1))(torch.zeros(1, 1, 2, 2, dtype=torch.float64))


@pytest.mark.parametrize(("mean", "std"), [((), ()), ((0.0,), (1.0, 1.0)), ((float("nan"),), (1.0,)), ((0.0,), (0.0,))])
def test_wrong_means_and_deviations_are_refused(mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match="preprocessing"):
        PreprocessingConfig(mean=mean, std=std)
