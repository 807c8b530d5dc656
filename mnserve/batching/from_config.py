"""Limits of a model's batcher, read from ``dynamic_batching`` in its configuration."""

from __future__ import annotations

from typing import Final

from mnserve.batching.options import BatcherOptions
from mnserve.batching.queue_policy import QueuePolicy, QueueRules
from mnserve.errors import ModelConfigError, SettingsError
from mnserve.protocol.model_config_pb2 import ModelConfig, ModelQueuePolicy

QUEUE_BATCHES: Final = 64
"""Batches that may wait where the configuration sets no other limit."""
_MAX_DELAY_US: Final = 3_600_000_000
"""Longest queue delay, in microseconds: an hour. A longer one is a mistake."""


def batcher_options(config: ModelConfig, *, max_queue_rows: int, max_queue_bytes: int) -> BatcherOptions:
    """Reads the limits that a complete configuration asks for.

    Args:
        config: The model's configuration.
        max_queue_rows: Most rows that may wait; 0 allows for max_queue_size, and QUEUE_BATCHES at least.
        max_queue_bytes: Most bytes of tensors that may wait.

    Raises:
        ModelConfigError: A setting contradicts another, or is out of range.
    """
    delay = config.dynamic_batching.max_queue_delay_microseconds
    if delay > _MAX_DELAY_US:
        raise ModelConfigError(
            f"model '{config.name}': config.pbtxt has max_queue_delay_microseconds {delay}; it may be up to "
            f"{_MAX_DELAY_US}, an hour, so lower it"
        )
    rules = queue_rules(config)
    batch = max(1, config.max_batch_size)
    try:
        return BatcherOptions(
            max_batch_size=config.max_batch_size,
            max_queue_rows=max_queue_rows or batch * max(QUEUE_BATCHES, rules.max_requests),
            max_queue_bytes=max_queue_bytes,
            max_delay=delay / 1e6 if delay else None,
            preferred_sizes=tuple(config.dynamic_batching.preferred_batch_size),
            queue=rules,
        )
    except SettingsError as error:
        raise ModelConfigError(f"model '{config.name}': {error}") from error


def queue_rules(config: ModelConfig) -> QueueRules:
    """Reads priorities and queue policies.

    Raises:
        ModelConfigError: They contradict each other.
    """
    batching = config.dynamic_batching
    levels, default = batching.priority_levels, batching.default_priority_level
    policies = dict(batching.priority_queue_policy.items())
    where = f"model '{config.name}': config.pbtxt"
    if levels and not 1 <= default <= levels:
        raise ModelConfigError(f"{where} has default_priority_level {default}; it must be from 1 to {levels}")
    if not levels and (default or policies):
        setting = "priority_queue_policy" if policies else "default_priority_level"
        raise ModelConfigError(f"{where} has {setting} but no priority_levels; add them, or remove it")
    if unknown := sorted(level for level in policies if not 1 <= level <= levels):
        raise ModelConfigError(
            f"{where} has a priority_queue_policy for level {unknown[0]}; levels are from 1 to {levels}"
        )
    delays = ModelQueuePolicy.TimeoutAction.Value("DELAY")
    if batching.preserve_ordering and (
        levels > 1
        or any(policy.timeout_action == delays for policy in (batching.default_queue_policy, *policies.values()))
    ):
        raise ModelConfigError(
            f"{where} asks for preserve_ordering together with priorities or timeout_action DELAY, which let requests "
            "overtake each other; remove one of them"
        )
    return QueueRules(
        levels=levels,
        default_level=default,
        default_policy=_policy(batching.default_queue_policy),
        policies={level: _policy(policy) for level, policy in policies.items()},
    )


def _policy(message: ModelQueuePolicy) -> QueuePolicy:
    return QueuePolicy(
        max_requests=message.max_queue_size,
        timeout=message.default_timeout_microseconds / 1e6,
        delay_late=message.timeout_action == ModelQueuePolicy.TimeoutAction.Value("DELAY"),
        allow_override=message.allow_timeout_override,
    )
