"""Work before a model is loaded on demand, where its files come from elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mnserve.protocol.model_config_pb2 import ModelConfig

BeforeLoad = Callable[[str, ModelConfig | None], Awaitable[None]]
"""Awaited with the name of the model and the configuration of the call; its errors are those of the load."""
