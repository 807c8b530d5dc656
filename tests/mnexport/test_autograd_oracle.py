"""Independent graph: the gradient step traced from autograd itself, exported, against our closed form.

Shapes: B queries, S entries, C classes, d features.
"""

import copy
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

from mnexport.forms.dispatch import static_form
from mnexport.forms.plan import FormPlan
from mnexport.graph import write_onnx
from mnexport.signature import image_signature
from mntrain.artifact import load_artifact
from mntrain.layers.attention import unit
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods


def adapted_logits(model: MetaNeighborhoods, features: Tensor) -> Tensor:
    """Compute logits [B, C] of features [B, d] by one autograd step for all queries: their weights do not interact."""
    keys, values, scale = unit(model.dictionary.keys), model.dictionary.values(), model.head.scale
    query = unit(features)
    weights = (query @ keys.mT / model.temperature).softmax(-1)
    weight = model.head.weight.detach().expand(features.shape[0], -1, -1).clone().requires_grad_()
    log_probabilities = (scale * keys @ unit(weight).mT).log_softmax(-1)
    loss = -(weights * (values * log_probabilities).sum(-1)).sum()
    (gradient,) = torch.autograd.grad(loss, weight)
    return scale * (unit(weight - model.step_size * gradient) @ query.unsqueeze(-1)).squeeze(-1)


class FromAutograd(nn.Module):
    """Classifier whose graph autograd has written."""

    def __init__(self, preprocessing: nn.Module, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.preprocessing, self.backbone, self.head = preprocessing, backbone, head

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.head(self.backbone(self.preprocessing(image)))
        return logits, logits.softmax(-1)


def test_our_graph_equals_the_graph_of_autograd(runs: Path, tmp_path: Path) -> None:
    artifact = load_artifact(runs / "meta_neighborhoods" / "artifact")
    model = copy.deepcopy(artifact.model)
    assert isinstance(model, MetaNeighborhoods)
    model.raw_step_size.fill_(2.0)  # a large step, so that adaptation decides

    example = torch.randn(2, model.head.weight.shape[1], generator=torch.Generator().manual_seed(0))
    head = make_fx(
        lambda features: adapted_logits(model, features), tracing_mode="symbolic", _allow_non_fake_inputs=True
    )(example)
    theirs, ours = tmp_path / "theirs.onnx", tmp_path / "ours.onnx"
    oracle = FromAutograd(copy.deepcopy(artifact.preprocessing), copy.deepcopy(model.backbone), head).eval()
    signature = image_signature(artifact.config.input, artifact.config.labels)
    write_onnx(oracle, signature, 20, {}, theirs)
    static = static_form(model, FormPlan(form="factored"), artifact.preprocessing)
    write_onnx(static.module, signature, 20, {}, ours)

    images = artifact.samples.images
    expected = onnxruntime.InferenceSession(str(theirs)).run(["logits"], {"image": images})[0]
    found = onnxruntime.InferenceSession(str(ours)).run(["logits"], {"image": images})[0]
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=0)
    plain = model(artifact.preprocessing(torch.from_numpy(images))).unadapted_logits.numpy()
    assert np.abs(found - plain).max() > 0.1, "adaptation must matter, or the comparison shows nothing"
