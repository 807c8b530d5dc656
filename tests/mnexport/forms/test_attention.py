"""Exported attention by distance is as precise far from the origin as near it.

Shapes: B queries, S entries, d features.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from mnexport.forms.meta_neighborhoods import AdaptiveHead
from mnexport.graph import write_onnx
from mnexport.signature import image_signature
from mntrain.artifact_config import InputSpec
from mntrain.backbones.flat import Identity
from mntrain.models.families import FAMILIES

BATCH, ENTRIES, FEATURES, TEMPERATURE = 128, 64, 64, 0.2


class Attention(nn.Module):
    """The attention of an exported head, in place of its answers."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.head = AdaptiveHead(model, "factored")
        self.eval().requires_grad_(False)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        weights = self.head.weights(inputs.flatten(1))
        return weights, weights


@pytest.mark.parametrize(("kind", "power"), [("euclidean", 2), ("distance", 1)])
def test_an_onnx_file_weighs_entries_as_double_precision_does(kind: str, power: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    family = FAMILIES["meta_neighborhoods"]
    config = family.config(entries=ENTRIES, similarity=kind, temperature=TEMPERATURE)
    model: Any = family.build(config, lambda: Identity(FEATURES), 4)
    queries = torch.randn(BATCH, FEATURES) * 0.3 + 100
    with torch.no_grad():
        model.dictionary.keys.normal_(100, 0.3)
    apart = torch.cdist(queries.double(), model.dictionary.keys.double(), compute_mode="donot_use_mm_for_euclid_dist")
    expected = (-apart.pow(power) / TEMPERATURE).softmax(-1).detach().numpy()

    names = tuple(f"entry {number}" for number in range(ENTRIES))
    signature = image_signature(InputSpec(channels=1, height=8, width=8), names, "float32")
    write_onnx(Attention(model), signature, 20, {}, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    (answer,) = session.run(["probabilities"], {"image": queries.view(BATCH, 1, 8, 8).numpy()})
    np.testing.assert_allclose(answer, expected, atol=5e-6, rtol=0)
