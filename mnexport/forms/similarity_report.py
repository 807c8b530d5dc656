"""Report on layers with neural similarity: the form of each, and operations over those of the ordinary network."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from mnexport.forms.similarity import DynamicConv
from mntrain.layers.similarity.conv import SimilarityConv, SphereConv
from mntrain.layers.similarity.global_similarity import GlobalSimilarity
from mntrain.layers.similarity.plain import plain_twin


@dataclass(frozen=True, kw_only=True)
class SimilarityReport:
    """Layers with similarity in an exported network.

    Args:
        folded: layers that became ordinary convolutions.
        forms: number of predicted layers in each form: shifts, patches or matrices.
        operations: multiplications and additions of convolutions and products, for one image, of the backbone.
        operations_over_plain: the same over those of the network with inner products.
    """

    folded: int
    forms: dict[str, int]
    operations: int
    operations_over_plain: float

    def describe(self) -> str:
        """Describe the layers in a line."""
        predicted = ", ".join(f"{count} as {form}" for form, count in self.forms.items())
        parts = [f"{self.folded} folded into their kernels"] if self.folded else []
        parts += [f"predicted: {predicted}"] if predicted else []
        return (
            f"neural similarity ({'; '.join(parts) or 'across maps, or of spheres'}): "
            f"{self.operations_over_plain:.2f} times the operations of the plain network"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``export.json``."""
        return asdict(self)


def similarity_report(trained: nn.Module, static: nn.Module, shape: tuple[int, ...]) -> SimilarityReport | None:
    """Count layers and operations; None for a network without similarity.

    Args:
        trained: backbone.
        static: its static form.
        shape: of one preprocessed image, without batch.
    """
    kinds = (SimilarityConv, SphereConv, GlobalSimilarity)
    layers = [layer for layer in trained.modules() if isinstance(layer, kinds)]
    if not layers:
        return None
    forms: Counter[str] = Counter()

    def note(layer: nn.Module, _: object, answers: Tensor) -> None:
        assert isinstance(layer, DynamicConv)
        forms[layer.form_on(answers.shape[-2:])] += 1

    hooks = [layer.register_forward_hook(note) for layer in static.modules() if isinstance(layer, DynamicConv)]
    operations, plain = _operations(static, shape), _operations(plain_twin(trained).eval(), shape)
    for hook in hooks:
        hook.remove()
    folded = sum(isinstance(layer, SimilarityConv) and layer.predictor is None for layer in layers)
    return SimilarityReport(
        folded=folded, forms=dict(forms), operations=operations, operations_over_plain=round(operations / plain, 3)
    )


def _operations(network: nn.Module, shape: tuple[int, ...]) -> int:
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        network(torch.zeros(1, *shape))
    return int(counter.get_total_flops())
