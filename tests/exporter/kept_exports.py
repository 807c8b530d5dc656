"""PyTorch's exporter, which takes a second for the smallest network, run once for each network of the tests."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import torch
from torch import nn


class KeptExports:
    """``torch.onnx.export`` that reads a graph again where it has written it for an equal network.

    A network is equal if its classes, its settings, the bytes of its tensors and all options of the exporter are. A
    network with a class or a ``forward`` that a test made is exported each time.

    Args:
        folder: of the graphs; several processes may use it.
        export: the exporter.
    """

    def __init__(self, folder: Path, export: Callable[..., Any]) -> None:
        self._folder = folder
        self._export = export

    def __call__(self, module: nn.Module, inputs: tuple[Any, ...], *further: Any, **options: Any) -> Any:
        if further:  # a file that the exporter writes itself
            return self._export(module, inputs, *further, **options)
        key = _content(module, inputs, options)
        if key is None:
            return self._export(module, inputs, **options)
        kept = self._folder / f"{key}.onnx"
        if kept.exists():
            return SimpleNamespace(model_proto=onnx.load(kept))
        program = self._export(module, inputs, **options)
        half_written = kept.with_suffix(f".{os.getpid()}")
        half_written.write_bytes(program.model_proto.SerializeToString())
        half_written.replace(kept)
        return program


class _Digest(pickle.Pickler):
    """Writes tensors as digests: to pickle one twice gives different bytes."""

    def persistent_id(self, item: Any) -> Any:
        if not isinstance(item, torch.Tensor):
            return None
        content = item.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        return type(item).__name__, str(item.dtype), tuple(item.shape), hashlib.sha256(content).hexdigest()


def _content(module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> str | None:
    """Digest of everything that the exporter is given; None where that cannot be told."""
    if any("<" in type(part).forward.__qualname__ for part in module.modules()):
        return None
    translations = options.get("custom_translation_table") or {}
    named = options | {
        "custom_translation_table": [(str(key), one.__module__, one.__qualname__) for key, one in translations.items()],
        "dynamic_shapes": str(options["dynamic_shapes"]),
    }
    stream = io.BytesIO()
    try:
        _Digest(stream).dump((module, inputs, named))
    except (AttributeError, RuntimeError, TypeError, pickle.PicklingError):
        return None
    return hashlib.sha256(stream.getvalue()).hexdigest()
