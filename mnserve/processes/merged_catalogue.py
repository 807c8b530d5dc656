"""The models of a server as its engine processes have them, put together for the front ends.

A version is ready where at least one engine process serves it. What engine processes send is described in
``mnserve.shared_catalogue.catalogue_message``. In what front ends get, each version also has

- ``slot``: its slot in the pages of counters, null where it is not loaded;
- ``endpoints``: pairs of an engine process and the number of the endpoint there, of those that serve it;
- ``restarting``: true while none serves it only since an engine process has ended, and is being started again.
"""

from __future__ import annotations

from typing import Any, Final

from mnserve.processes.control import Message
from mnserve.processes.request_counters import RequestCounters

RESTARTING: Final = "its engine process has ended and is being started again; try again later"
"""Reason of a version that is not ready for that."""


class MergedCatalogue:
    """Models of all engine processes.

    Args:
        counters: Gives loaded versions their slots.
    """

    def __init__(self, counters: RequestCounters) -> None:
        self._counters = counters
        self._engines: dict[int, dict[str, Message]] = {}
        """Engine process -> name of a model -> its last message."""
        self._merged: dict[str, Message] = {}
        self._lost: set[int] = set()

    def update(self, engine: int, message: Message) -> Message:
        """Takes what an engine process tells of one model.

        Args:
            engine: Number of the engine process.
            message: Description of the model; without versions and with ``gone`` once it is forgotten.

        Returns:
            Change for the front ends, with ``models`` and ``gone``.
        """
        models = self._engines.setdefault(engine, {})
        if message.get("gone"):
            models.pop(message["name"], None)
        else:
            models[message["name"]] = message
        return self._change([message["name"]])

    def lose(self, engine: int) -> Message:
        """Takes out what an engine process served that has ended; what nobody else serves waits for its return."""
        self._lost.add(engine)
        return self._change(list(self._engines.pop(engine, {})))

    def returned(self, engine: int) -> Message:
        """Takes an engine process for complete again: what it has not named since it was started is gone."""
        self._lost.discard(engine)
        return self._change(list(self._merged))

    def everything(self) -> Message:
        """Returns the change that tells all to a front end that knows nothing."""
        return {"models": list(self._merged.values()), "gone": []}

    def models(self) -> list[Message]:
        """Lists the merged models."""
        return list(self._merged.values())

    def _change(self, names: list[str]) -> Message:
        changed, gone = [], []
        for name in names:
            before, merged = self._merged.get(name), self._merge(name)
            if merged is None:
                self._forget(name, [])
                if self._merged.pop(name, None) is not None:
                    gone.append(name)
            elif merged != before:
                self._forget(name, [version["version"] for version in merged["versions"] if "config" in version])
                self._merged[name] = merged
                changed.append(merged)
        return {"models": changed, "gone": gone}

    def _forget(self, name: str, kept: list[int]) -> None:
        for version in self._merged.get(name, {"versions": ()})["versions"]:
            if version["version"] not in kept:
                self._counters.forget((name, version["version"]))

    def _merge(self, name: str) -> Message | None:
        told = {number: models[name] for number, models in self._engines.items() if name in models}
        before = self._merged.get(name)
        if not told:
            return _restarting(before) if self._lost and before is not None else None
        versions: dict[int | None, list[tuple[int, dict[str, Any]]]] = {}
        for number, message in sorted(told.items()):
            for version in message["versions"]:
                versions.setdefault(version["version"], []).append((number, version))
        return {
            "name": name,
            "loaded": any(message["loaded"] for message in told.values()),
            "versions": [self._merge_version(name, copies) for copies in versions.values()],
        }

    def _merge_version(self, name: str, copies: list[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
        endpoints = [[number, copy["id"]] for number, copy in copies if copy["id"] is not None and not copy["reason"]]
        # The first one that is ready describes it; without one, the first that is loaded, or any.
        _, best = min(copies, key=lambda item: (item[1]["id"] is None, bool(item[1]["reason"])))
        merged = {key: value for key, value in best.items() if key != "id"}
        loaded = best["id"] is not None
        merged["slot"] = self._counters.slot((name, best["version"])) if loaded else None
        return {**merged, "endpoints": endpoints, "restarting": False}


def _restarting(model: Message) -> Message:
    """Describes a model that no engine process serves now: what was ready waits for one."""
    versions = [
        {**version, "reason": version["reason"] or RESTARTING, "restarting": "config" in version, "endpoints": []}
        for version in model["versions"]
    ]
    return {**model, "versions": versions}
