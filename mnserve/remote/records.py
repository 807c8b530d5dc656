"""Records of the catalogue that the supervisor sends to the front ends, in values of JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

Json = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class VersionRecord:
    """A version of a model in the catalogue that the supervisor sends.

    Attributes:
        version: Number of the version.
        slot: Row of its request counters in the pages of all front ends.
        places: Engine process -> generation of that process, and number of the version in it.
        reason: Reason for which it is not ready; empty where it is.
        recovering: It will be ready again by itself, so requests may wait for it.
        description: See :func:`mnserve.shared_catalogue.catalogue_message.version_message`.
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
