"""What neural similarity has learned, with what it answers for real images.

Shapes: N images, of which the first n are shown; K taps; similarities M [K] (diagonal) or [K, K] (unconstrained), for a
dynamic layer at every position p of its answers [H, W]. Across maps M [m, m] with m = H·W positions.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from mntrain.layers.similarity.conv import SimilarityConv
from mntrain.layers.similarity.global_similarity import GlobalSimilarity


@dataclass(frozen=True, kw_only=True, eq=False)
class LearnedSimilarity:
    """Similarity M = D R of a convolution; a tap that the kernel shape D has dropped is zero in it.

    Args:
        name: of the layer in its network.
        kernel: k.
        mean: M, of a dynamic layer its mean over images and positions: [K] or [K, K].
        distance: |M − I|, the root of the sum of squares; of a dynamic layer its mean.
        shape: D [K] of 0 and 1; None where all taps are there by construction.
        deviation: standard deviation over images and positions, like ``mean``; None where M is static.
        maps: of the images shown: m_k(p) [n, K, H, W] if diagonal, else |M(p) − I| [n, 1, H, W]; None where static.
    """

    name: str
    kernel: int
    mean: Tensor
    distance: float
    shape: Tensor | None
    deviation: Tensor | None = None
    maps: Tensor | None = None

    @property
    def diagonal(self) -> bool:
        """True where M is a mask over the taps."""
        return self.mean.dim() == 1

    @property
    def taps(self) -> int:
        """Count the taps that stay."""
        return self.kernel**2 if self.shape is None else int(self.shape.sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class LearnedMixing:
    """Similarity I + γ M of the positions of whole maps.

    Args:
        name: of the layer in its network.
        mode: static, dynamic or attention.
        gate: γ; None where M is learned with it.
        distance: |γ M|, the root of the sum of squares; its mean over images.
        position: row and column of the position p that is looked at.
        rows: what p takes of every position, for the images shown: [n, H, W].
    """

    name: str
    mode: str
    gate: float | None
    distance: float
    position: tuple[int, int]
    rows: Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class LearnedSimilarities:
    """All similarities of a network, in the order in which they act.

    Args:
        layers: convolutions.
        across: of whole maps.
    """

    layers: list[LearnedSimilarity] = field(default_factory=list)
    across: list[LearnedMixing] = field(default_factory=list)


@torch.inference_mode()
def learned_similarities(network: nn.Module, inputs: Tensor, shown: int) -> LearnedSimilarities | None:
    """Run a network in eval mode and look at each similarity on the way; None where it has none.

    Args:
        network: backbone.
        inputs: preprocessed images [N, channels, height, width].
        shown: n, images whose maps are kept.
    """
    found, hooks = LearnedSimilarities(), []
    for name, layer in network.named_modules():
        if isinstance(layer, SimilarityConv):
            module: nn.Module = layer if layer.predictor is None else layer.predictor
            hooks.append(module.register_forward_hook(_looking_at(name, layer, shown, found)))
        elif isinstance(layer, GlobalSimilarity):
            hooks.append(layer.register_forward_hook(_looking_across(name, layer, shown, found)))
    try:
        if hooks:
            network(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return found if hooks else None


_Hook = Callable[[nn.Module, tuple[Tensor], Tensor], None]


def _looking_at(name: str, layer: SimilarityConv, shown: int, found: LearnedSimilarities) -> _Hook:
    def look(module: nn.Module, given: tuple[Tensor], answers: Tensor) -> None:
        found.layers.append(_static(name, layer) if module is layer else _dynamic(name, layer, answers, shown))

    return look


def _looking_across(name: str, layer: GlobalSimilarity, shown: int, found: LearnedSimilarities) -> _Hook:
    def look(module: nn.Module, given: tuple[Tensor], answers: Tensor) -> None:
        height, width = answers.shape[-2:]
        middle = height // 2, width // 2
        matrices = layer.mixing(given[0]).expand(len(answers), -1, -1)
        gate = None if layer.gate is None else float(layer.gate)
        found.across.append(
            LearnedMixing(
                name=name,
                mode=layer.mode,
                gate=gate,
                distance=float(matrices.norm(dim=(1, 2)).mean()) * (1 if gate is None else abs(gate)),
                position=middle,
                rows=torch.unflatten(matrices[:shown, middle[0] * width + middle[1]], 1, (height, width)),
            )
        )

    return look


def _static(name: str, layer: SimilarityConv) -> LearnedSimilarity:
    assert layer.similarity is not None
    matrix = _shaped(layer.similarity.detach(), layer)
    return LearnedSimilarity(
        name=name,
        kernel=layer.window.kernel,
        mean=matrix,
        distance=float((matrix - _identity(matrix)).norm()),
        shape=None if layer.shape is None else layer.shape(),
    )


def _dynamic(name: str, layer: SimilarityConv, similarities: Tensor, shown: int) -> LearnedSimilarity:
    """Look at the similarities [N, K or K², H, W] that a layer has predicted."""
    taps = layer.window.kernel**2
    at_positions = similarities.permute(0, 2, 3, 1)
    matrices = _shaped(at_positions if layer.diagonal else torch.unflatten(at_positions, 3, (taps, taps)), layer)
    axes = (3,) if layer.diagonal else (3, 4)
    distances = (matrices - _identity(matrices[0, 0, 0])).square().sum(dim=axes).sqrt()  # [N, H, W]
    deviation, mean = torch.std_mean(matrices, dim=(0, 1, 2), correction=0)
    return LearnedSimilarity(
        name=name,
        kernel=layer.window.kernel,
        mean=mean,
        distance=float(distances.mean()),
        shape=None if layer.shape is None else layer.shape(),
        deviation=deviation,
        maps=(matrices.permute(0, 3, 1, 2) if layer.diagonal else distances.unsqueeze(1))[:shown].clone(),
    )


def _shaped(matrices: Tensor, layer: SimilarityConv) -> Tensor:
    """Take the dropped taps of the kernel out of M: [..., K] or, by its rows, [..., K, K]."""
    if layer.shape is None:
        return matrices
    mask: Tensor = layer.shape()
    return matrices * (mask if layer.diagonal else mask[:, None])


def _identity(matrix: Tensor) -> Tensor:
    return torch.ones_like(matrix) if matrix.dim() == 1 else torch.eye(len(matrix), dtype=matrix.dtype)
