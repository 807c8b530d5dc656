"""Candidates in ``config.pbtxt``: the candidate of a configuration, and the text that configures a candidate."""

from __future__ import annotations

from google.protobuf import text_format

from mnserve.engines.cpu import available_cpus
from mnserve.engines.instance_groups import instance_count
from mnserve.engines.thread_count import INTRA_OP_THREADS, instance_threads
from mnserve.protocol.model_config_pb2 import ModelConfig, ModelInstanceGroup
from mnserve.tuning.candidate import Candidate


def current_candidate(config: ModelConfig) -> Candidate:
    """Returns the candidate of a complete configuration, on a server without options for threads.

    Raises:
        ModelConfigError: The configuration has an invalid number of threads or instances.
    """
    count = instance_count(config)
    return Candidate(
        max_batch_size=config.max_batch_size,
        delay_us=config.dynamic_batching.max_queue_delay_microseconds if config.max_batch_size else 0,
        instances=count,
        threads=instance_threads(config, 0, count) or available_cpus(),
    )


def configured(text: str, candidate: Candidate) -> str:
    """Writes ``config.pbtxt`` with the fields of a candidate and all others unchanged.

    Preferred batch sizes above the new maximum are left out, since servers refuse them. Comments are lost.

    Args:
        text: Content of the file; empty without a file.
        candidate: The candidate.

    Raises:
        google.protobuf.text_format.ParseError: The text is no configuration.
    """
    config = text_format.Parse(text, ModelConfig())
    if candidate.max_batch_size:
        config.max_batch_size = candidate.max_batch_size
        batching = config.dynamic_batching
        batching.SetInParent()  # without it other servers do not batch requests
        batching.max_queue_delay_microseconds = candidate.delay_us
        reachable = [size for size in batching.preferred_batch_size if size <= candidate.max_batch_size]
        batching.preferred_batch_size[:] = reachable
    if instance_count(config) != candidate.instances:
        # All groups of a model run on the same device here, so the first one stands for all.
        group = ModelInstanceGroup()
        if config.instance_group:
            group.CopyFrom(config.instance_group[0])
        group.count = candidate.instances
        del config.instance_group[:]
        config.instance_group.append(group)
    config.parameters[INTRA_OP_THREADS].string_value = str(candidate.threads)
    return text_format.MessageToString(config, as_utf8=True)
