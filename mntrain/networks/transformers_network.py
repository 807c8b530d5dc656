"""Vision networks of Hugging Face ``transformers``: a name on the hub, or a folder.

Shapes: B images, H' and W' of the input, T tokens, d features, C classes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mntrain.errors import ConfigError, DataError
from mntrain.heads.classifier import LinearClassifier
from mntrain.networks.frozen_network import TorchBody
from mntrain.networks.hub import answers, hub_error, local_folder
from mntrain.networks.image_processor import default_rule, read_processor
from mntrain.networks.libraries import transformers_library
from mntrain.networks.opened import InputRule, OpenedNetwork
from mntrain.networks.options import NetworkOptions, Notify, Pooling
from mntrain.networks.pooling import pool
from mntrain.networks.processor_class import check_processor, find_processor, with_defaults
from mntrain.networks.weights_digest import weights_digest
from mntrain.regular_files import read_text

_PREFIX = "hf:"
_SEED = 0
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_PROCESSORS = ("preprocessor_config.json", "processor_config.json")
_IMAGE_CLASSIFIER = "ForImageClassification"


class TransformersFeatures(nn.Module):
    """Calls a network of `transformers` and pools its answer.

    Args:
        network: with ``logits`` that are features, or a pooled output or tokens.
        pooling: of tokens.
        patches: number of tokens that are patches; None where it is not known.
    """

    def __init__(self, network: nn.Module, pooling: Pooling, patches: int | None) -> None:
        super().__init__()
        self.network = network
        self.pooling: Pooling = pooling
        self.patches = patches

    def forward(self, inputs: Tensor) -> Tensor:
        """Input of the network [B, 3, H', W'] → features [B, d], or what cannot be pooled."""
        answer = self.network(pixel_values=inputs)
        size = (inputs.shape[2], inputs.shape[3])
        pooled: Tensor | None = getattr(answer, "logits", None)
        if pooled is None and self.pooling in ("auto", "pooled"):
            pooled = getattr(answer, "pooler_output", None)
        if pooled is not None:
            return pool(pooled, "auto", size=size)
        if self.pooling == "pooled":
            raise ConfigError("--pooling is pooled, but the network has no pooled output; choose cls or mean.")
        pooling: Pooling = "cls" if self._takes_cls(answer) else self.pooling
        return pool(answer.last_hidden_state, pooling, size=size, width=self._width(), patches=self.patches)

    def _width(self) -> int | None:
        """Number of channels of the last layer, where the configuration tells it."""
        config: Any = self.network.config
        width = getattr(config, "hidden_size", None) or (getattr(config, "hidden_sizes", None) or [None])[-1]
        return width if isinstance(width, int) else None

    def _takes_cls(self, answer: Any) -> bool:
        return self.pooling == "auto" and answer.last_hidden_state.dim() == 3


def open_transformers(options: NetworkOptions, notify: Notify) -> OpenedNetwork:
    """Open a vision network with pretrained weights; a folder with a configuration alone gets weights from seed 0.

    A classifier of images gives the input of its last linear layer, which becomes ``classifier``. Image and text
    networks such as CLIP give the pooled output of their image tower. Others give their pooled output, or the first
    token where they have none that was trained.

    Raises:
        ConfigError: there is no such network, or it takes no images.
        DataError: no weights can be had, or they are damaged.
    """
    options.refuse_onnx_options()
    library = transformers_library()
    name = options.source.removeprefix(_PREFIX)
    folder = local_folder(name)
    try:
        # Without an answer of the hub the files that were loaded before are read, and nothing is asked for.
        here = {"local_files_only": folder is not None or not answers(name)}
        network, pooler_trained = _load(library, str(folder or name), folder, here, notify)
        rule = _input_rule(library, str(folder or name), network.config, here, notify)
    except (ConfigError, DataError):
        raise
    except Exception as error:
        if folder is None:
            raise hub_error(name, error) from error
        reason = " ".join(str(error).split())[:300]
        raise DataError(f"hf:{name} cannot be opened ({type(error).__name__}: {reason}).") from error
    classifier, label_names = None, None
    if options.pooling == "auto" and (linear := _take_last_layer(network)) is not None:
        classifier = LinearClassifier(weight=_array(linear.weight), bias=_bias(linear))
        known: Any = network.config
        label_names = tuple(str(known.id2label.get(i, i)) for i in range(linear.out_features))
    pooling = _pooling(options.pooling, pooler_trained, notify)
    tower = network if classifier is not None else _image_tower(network, name)
    return OpenedNetwork(
        kind="transformers",
        name=str(folder.resolve()) if folder else name,
        sha256=weights_digest(tower),
        input=rule,
        body=TorchBody(module=TransformersFeatures(tower.eval().requires_grad_(False), pooling, _patches(tower, rule))),
        settings={"pooling": options.pooling},
        classifier=classifier,
        label_names=label_names,
    )


def _load(
    library: Any, place: str, folder: Path | None, here: Mapping[str, bool], notify: Notify
) -> tuple[nn.Module, bool]:
    """Load a network; returns it, and whether its pooled output was trained."""
    config = library.AutoConfig.from_pretrained(place, **here)
    named = (config.architectures or ("",))[0]
    classifies = named.endswith(_IMAGE_CLASSIFIER)
    kind = library.AutoModelForImageClassification if classifies else library.AutoModel
    if folder is not None and not any(file for pattern in _WEIGHTS for file in folder.glob(pattern)):
        notify(f"{place} holds a configuration without weights: they are drawn from seed {_SEED}, and know nothing")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(_SEED)
            return kind.from_config(config).float(), True
    network, report = kind.from_pretrained(place, output_loading_info=True, dtype=torch.float32, **here)
    missing = sorted(report["missing_keys"])
    others = [key for key in missing if "pooler" not in key]
    if others:
        raise DataError(
            f"{place} lacks {len(others)} weights of its network, such as {others[0]}; features would be partly "
            "random. Copy or save it again."
        )
    return network, not missing


def _take_last_layer(network: nn.Module) -> nn.Linear | None:
    """Put an identity in place of the linear last layer, so that ``logits`` are its input; None where it has none."""
    head = getattr(network, "classifier", None)
    if isinstance(head, nn.Linear):
        network.classifier = nn.Identity()
        return head
    if isinstance(head, nn.Sequential) and len(head) and isinstance(head[-1], nn.Linear):
        layers = list(head)
        if all(isinstance(layer, (nn.Flatten, nn.Identity, nn.Dropout)) for layer in layers[:-1]):
            network.classifier = nn.Sequential(*layers[:-1])
            last = layers[-1]
            assert isinstance(last, nn.Linear)
            return last
    return None


def _image_tower(network: nn.Module, name: str) -> nn.Module:
    """Part of a network that takes images alone."""
    tower = getattr(network, "vision_model", None)
    if isinstance(tower, nn.Module):
        return tower
    base = getattr(network, "base_model", network)
    assert isinstance(base, nn.Module)
    if getattr(base, "main_input_name", "pixel_values") != "pixel_values":
        raise ConfigError(f"hf:{name} takes {base.main_input_name}, no images; choose a vision network.")
    return base


def _pooling(asked: Pooling, trained: bool, notify: Notify) -> Pooling:
    if trained or asked in ("cls", "mean"):
        return asked
    if asked == "pooled":
        raise ConfigError("--pooling is pooled, but the pooled output has no trained weights; choose cls or mean.")
    notify("the pooled output has no trained weights: features are the first token")
    return "cls"


def _patches(network: nn.Module, rule: InputRule) -> int | None:
    patch = getattr(network.config, "patch_size", None)
    if not isinstance(patch, int) or rule.size is None:
        return None
    return (rule.size[0] // patch) * (rule.size[1] // patch)


def _input_rule(library: Any, place: str, config: Any, here: Mapping[str, bool], notify: Notify) -> InputRule:
    for name in _PROCESSORS:
        file = library.utils.cached_file(place, name, _raise_exceptions_for_missing_entries=False, **here)
        if file is not None:
            try:
                values = json.loads(read_text(Path(file)))
                values = values.get("image_processor", values)
            except (OSError, ValueError, AttributeError) as error:
                raise DataError(f"{file} cannot be read ({error}); copy it again.") from error
            processor = find_processor(library, values)
            rule = read_processor(values if processor is None else with_defaults(values, processor), str(file))
            if processor is not None:
                check_processor(processor, rule, str(file))
            return rule
    rule = default_rule(getattr(config, "vision_config", config))
    notify(
        f"{place} has no {_PROCESSORS[0]}: images of {rule.size} pixels, mean {list(rule.normalization.mean)} and "
        f"deviation {list(rule.normalization.std)} are assumed"
    )
    return rule


def _array(tensor: Tensor) -> Any:
    return tensor.detach().float().cpu().numpy().copy()


def _bias(linear: nn.Linear) -> Any:
    return _array(torch.zeros(linear.out_features) if linear.bias is None else linear.bias)
