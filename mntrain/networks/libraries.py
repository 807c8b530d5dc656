"""Libraries that networks of others need, without reports of usage. All modules import them from here.

The hub is told versions of libraries with every request, unless a variable is set before the import.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from mntrain.errors import ConfigError
from mntrain.missing_packages import missing_extra

# A user who wants the reports sets 0.
if not os.environ.get("HF_HUB_DISABLE_TELEMETRY"):
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"


def transformers_library() -> Any:
    """Import ``transformers``, which then prints errors alone.

    Raises:
        ConfigError: it is not installed.
    """
    return _loaded(_transformers, "hf:NAME", "huggingface")


def timm_library() -> Any:
    """Import ``timm``.

    Raises:
        ConfigError: it is not installed, or torchvision is not.
    """
    return _loaded(_timm, "timm:NAME", "timm")


def onnx_library() -> Any:
    """Import ``onnx``.

    Raises:
        ConfigError: it is not installed.
    """
    return _loaded(_onnx, "a network in an ONNX file", "export")


def runtime_library() -> Any:
    """Import ONNX Runtime.

    Raises:
        ConfigError: it is not installed.
    """
    return _loaded(_runtime, "a network in an ONNX file", "export")


def _loaded(load: Callable[[], Any], who: str, extra: str) -> Any:
    try:
        return load()
    except ModuleNotFoundError as error:
        sentence = missing_extra(error, who, extra)
        if sentence is None:
            raise
        if error.name == "torchvision":
            sentence = (
                f"{who} needs torchvision, which is not installed; install the release that belongs to your PyTorch "
                "(https://pytorch.org/get-started), since another one cannot be loaded. hf:NAME needs none"
            )
        raise ConfigError(f"{sentence}.") from error


def _transformers() -> Any:
    import transformers

    logging: Any = transformers.logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    return transformers


def _timm() -> Any:
    import timm
    import timm.data

    return timm


def _onnx() -> Any:
    import onnx

    return onnx


def _runtime() -> Any:
    from mntrain.networks.runtime import onnxruntime

    return onnxruntime
