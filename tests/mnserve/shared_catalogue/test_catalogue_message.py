"""Served versions cross to other processes as JSON."""

from __future__ import annotations

import json

from mnserve.batching.queue_policy import QueuePolicy, QueueRules
from mnserve.codec.datatypes import DATATYPES
from mnserve.codec.input_rules import InputRules, RowLimit, SharedAxis, ValueRange
from mnserve.codec.signature import RequestSignature, TensorRule
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.shared_catalogue.catalogue_message import config_from, queue_rules_from, signature_from, version_message


def test_a_version_comes_back_as_it_was() -> None:
    config = ModelConfig(name="m", max_batch_size=8)
    x = TensorRule(name="x", datatype=DATATYPES["BF16"], dims=(-1, 4))
    y = TensorRule(name="y", datatype=DATATYPES["BYTES"], dims=(), any_shape=True)
    extra = TensorRule(name="extra", datatype=DATATYPES["FP32"], dims=(2,), optional=True)
    rules = InputRules(
        shared_axes=(SharedAxis(name="n", places=(("x", 1), ("extra", 0))),),
        row_limit=RowLimit(inputs=("x",), most=7),
        value_ranges=(ValueRange(input="x", least=0, below="extra"), ValueRange(input="x", least=0, below=3)),
    )
    signature = RequestSignature(
        model="m",
        max_batch_size=8,
        inputs=(x,),
        outputs=(y, x),
        on_request=frozenset({"x"}),
        allow_nan=True,
        optional_inputs=(extra,),
        input_rules=rules,
        labels={"y": ("cat", "dog")},
    )
    policy = QueuePolicy(max_requests=3, timeout=0.5, delay_late=True, allow_override=True)
    queue = QueueRules(levels=3, default_level=2, policies={1: policy})
    message = json.loads(json.dumps(version_message(config, signature, queue)))
    assert config_from(message) == config
    assert queue_rules_from(message) == queue
    read = signature_from(message)
    assert (read.inputs, read.outputs, read.optional_inputs) == ((x,), (y, x), (extra,))
    assert (read.on_request, read.allow_nan, read.max_batch_size, read.model) == ({"x"}, True, 8, "m")
    assert read.input_rules == rules
    assert read.labels == {"y": ["cat", "dog"]}
