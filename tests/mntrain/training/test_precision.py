"""Mixed precision: bfloat16 in the backbone while training, float32 everywhere else."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from mntrain.config import load_experiment
from mntrain.layers.heads import CosineHead
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods
from mntrain.training.fit import fit
from mntrain.training.run_folder import FitOptions

TINY = ["--backbone.width", "0.1", "--meta_neighborhoods.entries", "8", "--data.train_limit", "64", "--name", "run"]
TINY += ["--training.epochs", "1", "--training.batch_size", "32", "--training.accelerator", "cpu"]


@pytest.mark.parametrize("family", ["vanilla", "meta_neighborhoods", "maxl"])
def test_bf16_mixed_acts_on_the_backbone_and_only_while_training(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one device, where Fabric wraps no module that would cast by itself."""
    seen: set[tuple[str, bool, torch.dtype]] = set()

    def note(part: type[nn.Module], method: str) -> None:
        original = getattr(part, method)

        def noted(self: nn.Module, inputs: torch.Tensor) -> Any:
            answer = original(self, inputs)
            first = answer if isinstance(answer, torch.Tensor) else answer[0]
            lower = torch.is_autocast_enabled("cpu")
            assert part is nn.Conv2d or not lower, f"{part.__name__} computes in full precision"
            seen.add((part.__name__, self.training, first.dtype))
            return answer

        monkeypatch.setattr(part, method, noted)

    note(nn.Conv2d, "forward")
    note(CosineHead, "forward")
    note(MetaNeighborhoods, "classify")
    words = [*TINY, "--family", family, "--training.precision", "bf16-mixed"]
    assert fit(load_experiment("digits", words), FitOptions(runs=tmp_path, quiet=True)) is not None
    heads = {"CosineHead", "MetaNeighborhoods"} if family == "meta_neighborhoods" else {"CosineHead"}
    assert seen == {
        ("Conv2d", True, torch.bfloat16),
        ("Conv2d", False, torch.float32),
        *((head, training, torch.float32) for head in heads for training in (True, False)),
    }
