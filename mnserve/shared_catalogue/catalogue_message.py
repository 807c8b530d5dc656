"""Served versions as values of JSON, for processes that have no engines.

One model is described as::

    {"name": str, "loaded": bool, "versions": [VERSION, ...]}

and one VERSION, of which all but the first two are only there where it is loaded, as::

    {"version": int | null, "reason": str, "config": str, "signature": {...}, "queue": {...}}

``reason`` is empty where it answers requests; ``config`` is a ModelConfig in base64.
"""

from __future__ import annotations

import dataclasses
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from mnserve.batching.queue_policy import QueuePolicy, QueueRules
from mnserve.codec.datatypes import DATATYPES
from mnserve.codec.input_rules import InputRules, RowLimit, SharedAxis, ValueRange
from mnserve.codec.signature import RequestSignature, TensorRule
from mnserve.protocol.model_config_pb2 import ModelConfig


def version_message(config: ModelConfig, signature: RequestSignature, queue: QueueRules) -> dict[str, Any]:
    """Describes what callers see of a loaded version.

    Args:
        config: Its complete configuration.
        signature: Its rules for requests.
        queue: Its queue rules.
    """
    return {
        "config": b64encode(config.SerializeToString()).decode(),
        "signature": _signature_message(signature),
        "queue": dataclasses.asdict(queue),
    }


def config_from(message: Mapping[str, Any]) -> ModelConfig:
    """Reads the configuration of a version that :func:`version_message` has described."""
    return ModelConfig.FromString(b64decode(message["config"]))


def signature_from(message: Mapping[str, Any]) -> RequestSignature:
    """Reads the rules for requests of a version that :func:`version_message` has described."""
    fields = dict(message["signature"])
    for name in ("inputs", "outputs", "optional_inputs"):
        fields[name] = tuple(map(_rule_from, fields[name]))
    fields["on_request"] = frozenset(fields["on_request"])
    fields["input_rules"] = _input_rules_from(fields["input_rules"])
    return RequestSignature(**fields)


def queue_rules_from(message: Mapping[str, Any]) -> QueueRules:
    """Reads the queue rules of a version that :func:`version_message` has described."""
    fields = dict(message["queue"])
    fields["default_policy"] = QueuePolicy(**fields["default_policy"])
    fields["policies"] = {int(level): QueuePolicy(**policy) for level, policy in fields["policies"].items()}
    return QueueRules(**fields)


def _signature_message(signature: RequestSignature) -> dict[str, Any]:
    fields = {item.name: getattr(signature, item.name) for item in dataclasses.fields(signature)}
    for name in ("inputs", "outputs", "optional_inputs"):
        fields[name] = [{**vars(rule), "datatype": rule.datatype.name} for rule in fields[name]]
    fields["on_request"] = sorted(fields["on_request"])
    fields["input_rules"] = dataclasses.asdict(signature.input_rules)
    fields["labels"] = {name: list(labels) for name, labels in fields["labels"].items()}
    return fields


def _rule_from(fields: Mapping[str, Any]) -> TensorRule:
    return TensorRule(**{**fields, "datatype": DATATYPES[fields["datatype"]], "dims": tuple(fields["dims"])})


def _input_rules_from(fields: Mapping[str, Any]) -> InputRules:
    limit = fields["row_limit"]
    return InputRules(
        shared_axes=tuple(
            SharedAxis(name=axis["name"], places=tuple((name, place) for name, place in axis["places"]))
            for axis in fields["shared_axes"]
        ),
        row_limit=None if limit is None else RowLimit(inputs=tuple(limit["inputs"]), most=limit["most"]),
        value_ranges=tuple(ValueRange(**allowed) for allowed in fields["value_ranges"]),
    )
