"""Description of a served version in values of JSON, for processes that have no engine of it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from mnserve.codec.datatypes import DATATYPES
from mnserve.codec.signature import RequestSignature, TensorRule
from mnserve.models.catalogue import Endpoint
from mnserve.protocol.model_config_pb2 import ModelConfig

Json = Mapping[str, Any]


def describe_endpoint(served: Endpoint) -> dict[str, Any]:
    """Describes what a front end has to know of a version to check its requests and encode its answers."""
    signature = served.signature
    return {
        "config": base64.b64encode(served.config.SerializeToString()).decode(),
        "signature": {
            "max_batch_size": signature.max_batch_size,
            "inputs": [_rule_fields(rule) for rule in signature.inputs],
            "outputs": [_rule_fields(rule) for rule in signature.outputs],
            "optional_inputs": [_rule_fields(rule) for rule in signature.optional_inputs],
            "on_request": sorted(signature.on_request),
            "allow_non_finite": signature.allow_non_finite,
            "allow_nan": signature.allow_nan,
            "labels": {name: list(labels) for name, labels in signature.labels.items()},
        },
    }


def described_config(fields: Json) -> ModelConfig:
    """Reads the configuration out of :func:`describe_endpoint`."""
    return ModelConfig.FromString(base64.b64decode(fields["config"]))


def described_signature(model: str, fields: Json) -> RequestSignature:
    """Reads the signature out of :func:`describe_endpoint`.

    Args:
        model: Name of the model.
        fields: The description.
    """
    signature = fields["signature"]
    return RequestSignature(
        model=model,
        max_batch_size=signature["max_batch_size"],
        inputs=_rules(signature["inputs"]),
        outputs=_rules(signature["outputs"]),
        optional_inputs=_rules(signature["optional_inputs"]),
        on_request=frozenset(signature["on_request"]),
        allow_non_finite=signature["allow_non_finite"],
        allow_nan=signature["allow_nan"],
        labels={name: tuple(labels) for name, labels in signature["labels"].items()},
    )


def _rule_fields(rule: TensorRule) -> list[Any]:
    return [rule.name, rule.datatype.name, list(rule.dims), rule.any_shape, rule.optional]


def _rules(rows: Sequence[Sequence[Any]]) -> tuple[TensorRule, ...]:
    return tuple(
        TensorRule(name=name, datatype=DATATYPES[datatype], dims=tuple(dims), any_shape=any_shape, optional=optional)
        for name, datatype, dims, any_shape, optional in rows
    )


@dataclass(frozen=True, kw_only=True)
class VersionRecord:
    """A version of a model in the catalogue that the supervisor sends.

    Attributes:
        version: Number of the version.
        slot: Row of its request counters in the pages of all front ends.
        places: Engine process -> generation of that process, and number of the version in it.
        reason: Reason for which it is not ready; empty where it is.
        recovering: It will be ready again by itself, so requests may wait for it.
        description: See :func:`describe_endpoint`.
    """

    version: int
    slot: int
    places: Mapping[int, tuple[int, int]]
    reason: str
    recovering: bool
    description: Json

    def fields(self) -> dict[str, Any]:
        """Writes the record in values of JSON."""
        return {
            "version": self.version,
            "slot": self.slot,
            "places": {str(engine): list(place) for engine, place in self.places.items()},
            "reason": self.reason,
            "recovering": self.recovering,
            "description": self.description,
        }

    @classmethod
    def from_fields(cls, fields: Json) -> Self:
        """Reads a record."""
        places = {int(engine): (place[0], place[1]) for engine, place in fields["places"].items()}
        return cls(**{**fields, "places": places})


@dataclass(frozen=True, kw_only=True)
class ModelRecord:
    """A model in the catalogue that the supervisor sends.

    Attributes:
        name: Name of the model.
        loaded: It is to be served at all.
        faults: Version -> reason for which it is not served; None stands for a version that was not found.
        versions: Its served versions.
    """

    name: str
    loaded: bool
    faults: Mapping[int | None, str] = field(default_factory=dict)
    versions: Sequence[VersionRecord] = ()

    def fields(self) -> dict[str, Any]:
        """Writes the record in values of JSON."""
        return {
            "name": self.name,
            "loaded": self.loaded,
            "faults": [[version, reason] for version, reason in self.faults.items()],
            "versions": [version.fields() for version in self.versions],
        }

    @classmethod
    def from_fields(cls, fields: Json) -> Self:
        """Reads a record."""
        return cls(
            name=fields["name"],
            loaded=fields["loaded"],
            faults=dict(fields["faults"]),
            versions=tuple(VersionRecord.from_fields(version) for version in fields["versions"]),
        )
