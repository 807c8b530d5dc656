"""Candidates in ``config.pbtxt``: what a configuration amounts to, and the text that asks for another candidate."""

from __future__ import annotations

from google.protobuf import text_format

from mnserve.engines.cpu import available_cpus
from mnserve.engines.instance_groups import instance_count
from mnserve.engines.thread_count import INTRA_OP_THREADS, instance_threads
from mnserve.protocol.model_config_pb2 import ModelConfig, ModelInstanceGroup
from mnserve.tuning.candidate import Candidate


def current_candidate(config: ModelConfig) -> Candidate:
    """What a complete configuration asks for, on a server that is told nothing about threads.

    Raises:
        ModelConfigError: it asks for threads or instances that cannot be.
    """
    count = instance_count(config)
    return Candidate(
        max_batch_size=config.max_batch_size,
        delay_us=config.dynamic_batching.max_queue_delay_microseconds if config.max_batch_size else 0,
        instances=count,
        threads=instance_threads(config, 0, count) or available_cpus(),
    )


def configured(text: str, candidate: Candidate) -> str:
    """A text of ``config.pbtxt`` with the fields of a candidate set, and all others as they were.

    Preferred batch sizes that no batch can reach any more are left out, since servers refuse them. Comments are lost.

    Args:
        text: what the file says; empty where there is none.
        candidate: what to ask for.

    Raises:
        google.protobuf.text_format.ParseError: the text is no configuration.
    """
    config = text_format.Parse(text, ModelConfig())
    if candidate.max_batch_size:
        config.max_batch_size = candidate.max_batch_size
        batching = config.dynamic_batching
        batching.SetInParent()  # other servers join no requests without it
        batching.max_queue_delay_microseconds = candidate.delay_us
        reachable = [size for size in batching.preferred_batch_size if size <= candidate.max_batch_size]
        batching.preferred_batch_size[:] = reachable
    if instance_count(config) != candidate.instances:
        # All groups of a model run on the same device here, so that the first stands for all.
        group = ModelInstanceGroup()
        if config.instance_group:
            group.CopyFrom(config.instance_group[0])
        group.count = candidate.instances
        del config.instance_group[:]
        config.instance_group.append(group)
    config.parameters[INTRA_OP_THREADS].string_value = str(candidate.threads)
    return text_format.MessageToString(config, as_utf8=True)
