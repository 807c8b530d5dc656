"""An opened network before it is known which images it gets.

Shapes: B images, C channels, H' height and W' width of the network's input, d features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from mntrain.data.config import ImageFit
from mntrain.data.preprocessing import PreprocessingConfig
from mntrain.errors import ConfigError, DataError
from mntrain.heads.classifier import LinearClassifier
from mntrain.networks.frozen_network import FrozenNetwork, OnnxBody, TorchBody
from mntrain.networks.pixels import NetworkInput
from mntrain.networks.record import Layout, NetworkKind, NetworkRecord, PixelRule
from mntrain.networks.trial import check_answers, trial_images


@dataclass(frozen=True, kw_only=True)
class InputRule:
    """Input that a network takes.

    Args:
        normalization: mean and deviation of each channel of RGB pixels in 0..1.
        size: H' and W'; None for any size.
        fit: how files are brought to this size.
        layout: NCHW or NHWC.
        reverse_channels: True for BGR.
    """

    normalization: PreprocessingConfig
    size: tuple[int, int] | None
    fit: ImageFit = "stretch"
    layout: Layout = "NCHW"
    reverse_channels: bool = False

    @property
    def channels(self) -> int:
        """C."""
        return len(self.normalization.mean)

    @property
    def side(self) -> int | None:
        """Side of a square input; None for others."""
        return self.size[0] if self.size is not None and self.size[0] == self.size[1] else None


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenedNetwork:
    """A network with its weights.

    Args:
        kind: where it comes from.
        name: folder, file, or name on the hub.
        sha256: digest of its weights.
        input: what it takes.
        body: input → features.
        output: of an ONNX file, the tensor of the features; else empty.
        settings: what else builds it again.
        classifier: its own linear last layer, None where there is none.
        label_names: of that layer, None where they are not known.
    """

    kind: NetworkKind
    name: str
    sha256: str
    input: InputRule
    body: TorchBody | OnnxBody
    output: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    classifier: LinearClassifier | None = None
    label_names: tuple[str, ...] | None = None

    def for_images(self, shape: tuple[int, int, int], fit: str | None = None) -> FrozenNetwork:
        """Join the network to images of a stored shape.

        Args:
            shape: channels, height and width of stored images; another size than the network's is resized in the graph.
            fit: how files of other sizes were brought to the stored size.

        Raises:
            ConfigError: the network takes another number of channels.
            DataError: its features are no vector of each image alone.
        """
        channels, height, width = shape
        if channels != self.input.channels:
            color = "L" if self.input.channels == 1 else "RGB"
            raise ConfigError(
                f"The images have {channels} channel(s), but {self.name} takes {self.input.channels}; set "
                f"--data.color {color}."
            )
        size = self.input.size
        rule = PixelRule(
            channels=channels,
            height=height,
            width=width,
            mean=self.input.normalization.mean,
            std=self.input.normalization.std,
            resize=None if size in (None, (height, width)) else size,
            layout=self.input.layout,
            reverse_channels=self.input.reverse_channels,
            fit=fit,
        )
        pixels = NetworkInput(rule).eval()
        with torch.inference_mode():
            width_of_features = check_answers(lambda images: self.body(pixels(images)), trial_images(shape), self.name)
        if self.classifier is not None and self.classifier.features != width_of_features:
            raise DataError(
                f"{self.name} has {width_of_features} features, but its last layer takes {self.classifier.features}; "
                "name the tensor of the features with --output."
            )
        record = NetworkRecord(
            kind=self.kind,
            name=self.name,
            sha256=self.sha256,
            features=width_of_features,
            pixels=rule,
            output=self.output,
            settings=dict(self.settings),
        )
        return FrozenNetwork(
            record=record,
            pixels=pixels,
            body=self.body,
            classifier=self.classifier,
            label_names=self.label_names,
        )
