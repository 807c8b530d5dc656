"""The models of a server as its engine processes have them, put together for the front ends.

A version is ready where at least one engine process serves it. What an engine process tells of a model is::

    {"name": str, "loaded": bool, "faults": [[version | null, reason], ...], "versions": [VERSION, ...]}

or ``{"name": str, "gone": true}``. A VERSION has its ``version``, its endpoint's number ``id``, the ``reason`` for
which it is not ready, a ``description``, see ``mnserve.remote.records``, and an estimate of ``rows_per_second``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from mnserve.processes.control import Message
from mnserve.processes.request_counters import RequestCounters
from mnserve.remote.records import ModelRecord, VersionRecord

RESTARTING: Final = "its engine process has ended and is being started again"
"""Reason of a version that is not ready for that."""


@dataclass(frozen=True)
class CatalogueChange:
    """What front ends are told.

    Attributes:
        models: Models that have changed.
        gone: Names of models that are not there any more.
    """

    models: tuple[ModelRecord, ...] = ()
    gone: tuple[str, ...] = ()


class MergedCatalogue:
    """Models of all engine processes.

    Args:
        counters: Gives loaded versions their slots.
    """

    def __init__(self, counters: RequestCounters) -> None:
        self._counters = counters
        self._generations: dict[int, int] = {}
        self._engines: dict[int, dict[str, Message]] = {}
        """Engine process -> name of a model -> its last message."""
        self._merged: dict[str, ModelRecord] = {}
        self._incomplete: set[int] = set()
        """Engine processes that have not loaded everything yet."""

    def begin(self, engine: int, generation: int) -> None:
        """Notes that an engine process was started."""
        self._generations[engine] = generation
        self._engines[engine] = {}
        self._incomplete.add(engine)

    def update(self, engine: int, message: Message) -> CatalogueChange:
        """Takes what an engine process tells of one model."""
        name = message["name"]
        if message.get("gone"):
            self._engines[engine].pop(name, None)
        else:
            self._engines[engine][name] = message
        return self._change([name])

    def lose(self, engine: int) -> CatalogueChange:
        """Takes out what an engine process served that has ended; what nobody else serves waits for its return."""
        self._incomplete.add(engine)
        return self._change(list(self._engines.pop(engine, {})))

    def complete(self, engine: int) -> CatalogueChange:
        """Notes that an engine process has loaded everything: what none of them names is gone."""
        self._incomplete.discard(engine)
        return self._change(list(self._merged))

    def everything(self) -> CatalogueChange:
        """Returns the change that tells all to a front end that knows nothing."""
        return CatalogueChange(tuple(self._merged.values()))

    def _change(self, names: list[str]) -> CatalogueChange:
        changed, gone = [], []
        for name in names:
            before, merged = self._merged.get(name), self._merge(name)
            if merged == before:
                continue
            kept = set() if merged is None else {version.version for version in merged.versions}
            for version in () if before is None else before.versions:
                if version.version not in kept:
                    self._counters.forget((name, version.version))
            if merged is None:
                del self._merged[name]
                gone.append(name)
            else:
                self._merged[name] = merged
                changed.append(merged)
        return CatalogueChange(tuple(changed), tuple(gone))

    def _merge(self, name: str) -> ModelRecord | None:
        before = self._merged.get(name)
        told = {
            number: models[name]
            for number, models in sorted(self._engines.items())
            if name in models and (models[name]["loaded"] or before is None or number not in self._incomplete)
        }  # a process that has not loaded it yet may do so soon
        if not told:
            return None if before is None or not self._incomplete else _restarting(before)
        copies: dict[int, list[tuple[int, Message]]] = {}
        faults: dict[int | None, str] = {}
        for number, message in told.items():
            faults |= dict(message["faults"])
            for version in message["versions"]:
                copies.setdefault(version["version"], []).append((number, version))
        versions = tuple(self._merge_version(name, copies[version]) for version in sorted(copies))
        if (
            before is not None
            and self._incomplete
            and not versions
            and any(item.recovering for item in before.versions)
        ):
            return _restarting(before)  # it is being loaded again
        return ModelRecord(
            name=name,
            loaded=any(message["loaded"] for message in told.values()),
            faults={version: reason for version, reason in faults.items() if version not in copies},
            versions=versions,
        )

    def _merge_version(self, name: str, copies: list[tuple[int, dict[str, Any]]]) -> VersionRecord:
        ready = [(number, copy) for number, copy in copies if not copy["reason"]]
        _, shown = (ready or copies)[0]
        return VersionRecord(
            version=shown["version"],
            slot=self._counters.slot((name, shown["version"])),
            # While they change to another form one after the other, those of the first one's form take the requests.
            places={
                number: (self._generations[number], copy["id"])
                for number, copy in ready
                if copy["description"]["signature"] == shown["description"]["signature"]
            },
            reason=shown["reason"],
            recovering=False,
            description=shown["description"],
        )


def _restarting(model: ModelRecord) -> ModelRecord:
    """Describes a model that no engine process serves now: what was ready waits for one."""
    versions = (
        version
        if version.reason and not version.recovering
        else replace(version, reason=RESTARTING, recovering=True, places={})
        for version in model.versions
    )
    return replace(model, versions=tuple(versions))
