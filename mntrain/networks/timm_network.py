"""Networks of ``timm``, whose torchvision has to match the build of PyTorch.

Shapes: B images, d features.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from torch import Tensor, nn

from mntrain.data.preprocessing import PreprocessingConfig
from mntrain.errors import ConfigError, DataError
from mntrain.heads.classifier import LinearClassifier
from mntrain.networks.frozen_network import TorchBody
from mntrain.networks.libraries import timm_library
from mntrain.networks.opened import InputRule, OpenedNetwork
from mntrain.networks.options import NetworkOptions
from mntrain.networks.weights_digest import weights_digest

_PREFIX = "timm:"


class TimmFeatures(nn.Module):
    """Computes the input of the last layer of a network of `timm`.

    Args:
        network: as ``timm.create_model`` makes it.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network: Any = network

    def forward(self, inputs: Tensor) -> Tensor:
        """Input of the network [B, 3, H', W'] → features [B, d]."""
        features: Tensor = self.network.forward_head(self.network.forward_features(inputs), pre_logits=True)
        return features


def open_timm(options: NetworkOptions) -> OpenedNetwork:
    """Open a pretrained network of `timm`; its own linear last layer is the classifier.

    Raises:
        ConfigError: `timm` or torchvision is missing, or there is no such network, or an option has no use.
        DataError: its weights cannot be had.
    """
    options.refuse_onnx_options()
    if options.pooling != "auto":
        raise ConfigError(f"--pooling is {options.pooling!r}, but networks of timm pool themselves; leave it out.")
    library, name = timm_library(), options.source.removeprefix(_PREFIX)
    if not library.is_model(name.partition(".")[0]):
        close = get_close_matches(name, library.list_models(), n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"timm has no network {name!r}.{hint}")
    try:
        network = library.create_model(name, pretrained=True).eval().requires_grad_(False)
    except (OSError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        raise DataError(
            f"The pretrained weights of timm:{name} cannot be had ({type(error).__name__}: {reason}); connect to the "
            "Hugging Face hub once."
        ) from error
    described = library.data.resolve_model_data_config(network)
    last = network.get_classifier()
    classifier = None
    if isinstance(last, nn.Linear) and last.bias is not None:
        classifier = LinearClassifier(weight=last.weight.numpy().copy(), bias=last.bias.numpy().copy())
    return OpenedNetwork(
        kind="timm",
        name=name,
        sha256=weights_digest(network),
        input=InputRule(
            normalization=PreprocessingConfig(mean=tuple(described["mean"]), std=tuple(described["std"])),
            size=(int(described["input_size"][1]), int(described["input_size"][2])),
            fit="crop",
        ),
        body=TorchBody(module=TimmFeatures(network)),
        classifier=classifier,
    )
