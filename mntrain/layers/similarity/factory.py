"""Factories of the layers of a backbone with neural similarity."""

import torch
from torch import nn

from mntrain.layers.factories import Layers, plain_conv
from mntrain.layers.norm import NormFactory
from mntrain.layers.similarity.apply import Window
from mntrain.layers.similarity.config import SimilarityConfig
from mntrain.layers.similarity.conv import SharedPredictor, SimilarityConv, SphereConv
from mntrain.layers.similarity.global_similarity import GlobalSimilarity
from mntrain.layers.similarity.predictor import SimilarityPredictor
from mntrain.random_draws import forked_generator

_SALT = 1
"""Other keys of iFiLM are drawn from a generator of the same origin."""


def similarity_layers(config: SimilarityConfig, norm: NormFactory) -> Layers:
    """Make the factories of one backbone.

    Predictors are drawn aside, so that everything else of a network starts as it does without them.

    Args:
        config: settings; by default all layers are ordinary.
        norm: makes the normalisation of C channels.
    """
    generator = torch.Generator().manual_seed(forked_generator().initial_seed() + _SALT)
    across = None
    if config.across_map != "none":

        def across(channels: int, positions: int) -> nn.Module:
            return GlobalSimilarity(channels, positions, config.across_map, generator)

    conv = plain_conv if config.mode == "none" else _Convolutions(config, generator)
    stem = conv if config.mode == "sphere" else plain_conv
    return Layers(norm=norm, conv=conv, stem=stem, across=across)


class _Convolutions:
    """Makes convolutions with similarity; kernels of one tap stay ordinary.

    Args:
        config: settings; mode is not none.
        generator: that the weights of predictors are drawn from.
    """

    def __init__(self, config: SimilarityConfig, generator: torch.Generator) -> None:
        self._config = config
        self._generator = generator
        self._shared: dict[int, SimilarityPredictor] = {}

    def __call__(
        self, before: int, after: int, kernel: int, *, stride: int = 1, padding: int = 0, groups: int = 1
    ) -> nn.Module:
        """See :class:`mntrain.layers.factories.ConvFactory`."""
        if kernel == 1:
            return plain_conv(before, after, kernel, stride=stride, padding=padding, groups=groups)
        window = Window(kernel, stride, padding, groups=groups)
        if self._config.mode == "sphere":
            return SphereConv(before, after, window, self._config)
        predictor = self._predictor(before, window) if self._config.mode == "dynamic" else None
        return SimilarityConv(before, after, window, self._config, predictor)

    def _predictor(self, channels: int, window: Window) -> nn.Module:
        config = self._config
        if not config.shared:
            return SimilarityPredictor(channels, window, config, self._generator)
        width, known = config.hidden_channels, self._shared.get(window.kernel)
        shared = known or SimilarityPredictor(width, window, config, self._generator)
        self._shared[window.kernel] = shared
        return SharedPredictor(channels, window, shared, owns=known is None, generator=self._generator)
