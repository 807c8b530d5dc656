"""Trace settings of callers: Triton's TraceSetting, for one model or for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mnserve.errors import InvalidRequestError, UnsupportedError
from mnserve.observability.trace_counts import OwnTraceCounts, TraceCounts

_LEVELS: Final = ("OFF", "TIMESTAMPS")
_FIXED: Final = {"trace_mode": ["opentelemetry"], "trace_file": [""], "log_frequency": ["0"]}
"""Further settings of Triton, which are constant here."""
_MAX_NUMBER: Final = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class TraceChoice:
    """Choice of the requests that are traced.

    Attributes:
        level: OFF, or TIMESTAMPS for spans.
        rate: One request of this many is traced, and every request whose caller is traced.
        count: Requests that are traced from now on; -1 for no limit.
    """

    level: str = "TIMESTAMPS"
    rate: int = 1000
    count: int = -1

    def values(self) -> dict[str, list[str]]:
        """Returns the settings in the form of the protocol."""
        return {
            "trace_level": [self.level],
            "trace_rate": [str(self.rate)],
            "trace_count": [str(self.count)],
            **_FIXED,
        }


class TraceSettings:
    """Trace settings of all models, and of single models.

    Args:
        start: Settings of all models at the start; a cleared setting returns to them.
        counts: Requests that were traced of those that may be; None counts those of this process.
    """

    def __init__(self, start: TraceChoice, counts: TraceCounts | None = None) -> None:
        self._start = start
        self._all = start
        self._changed: dict[str, dict[str, str | int]] = {}  # model -> settings of its own
        self._seen: dict[str, int] = {}  # model -> requests; "" counts those of models without own settings
        self._counts = OwnTraceCounts() if counts is None else counts

    def of(self, model: str) -> TraceChoice:
        """Returns the settings of one model; "" stands for all."""
        return replace(self._all, **self._changed.get(model, {}))  # type: ignore[arg-type]  # checked when it was set

    def change(self, model: str, changes: Mapping[str, Sequence[str]], *, anew: bool = True) -> None:
        """Changes the named settings; an empty list returns to the settings of all models, or to those of the start.

        Args:
            model: Name of an existing model, or "" for all.
            changes: Setting -> values.
            anew: Begin to count traced requests anew; another process that shares the counts may have done so.

        Raises:
            InvalidRequestError: A setting is unknown, or a value is invalid.
            UnsupportedError: A setting is constant.
        """
        parsed = {name: _parsed(name, values) for name, values in changes.items() if name not in _FIXED}
        for name in _FIXED.keys() & changes.keys():
            if changes[name] and list(changes[name]) != _FIXED[name]:
                raise UnsupportedError(f"{name} stays '{_FIXED[name][0]}'; spans go where --trace-endpoint says")
        changed = dict(self._changed.get(model, {})) if model else {}
        for name, value in parsed.items():
            field = name.removeprefix("trace_")
            if model and value is None:
                changed.pop(field, None)
            else:
                changed[field] = getattr(self._start, field) if value is None else value
        if model:
            self._changed[model] = changed
        else:
            self._all = replace(self._all, **changed)  # type: ignore[arg-type]  # as above
        self._seen.pop(model, None)
        if anew:
            self._counts.reset(model)

    def take(self, model: str, sampled: bool | None) -> bool:
        """Decides for one more request if it is traced.

        Args:
            model: Name of the model.
            sampled: The caller is traced; None where the call does not tell.
        """
        scope = model if model in self._changed else ""
        choice = self.of(model)
        if choice.level == "OFF" or sampled is False:
            return False
        seen = self._seen[scope] = self._seen.get(scope, 0) + 1
        if sampled is None and seen % choice.rate:
            return False
        return choice.count < 0 or self._counts.take(scope, choice.count)


def _parsed(name: str, values: Sequence[str]) -> str | int | None:
    """Parses the value of a setting; None for a cleared one."""
    if name not in ("trace_level", "trace_rate", "trace_count"):
        known = ", ".join(TraceChoice().values())
        raise InvalidRequestError(f"there is no trace setting '{name[:64]}'; there are {known}")
    if not values:
        return None
    if name == "trace_level":
        level = "OFF" if set(values) == {"OFF"} else "TIMESTAMPS"
        if not set(values) <= set(_LEVELS) or (level != "OFF" and "OFF" in values):
            raise InvalidRequestError(
                f"trace_level is {', '.join(values)[:64]}; here it is OFF or TIMESTAMPS; tensors are not traced"
            )
        return level
    minimum = 1 if name == "trace_rate" else -1
    text = values[0]
    number = int(text) if len(text) <= 11 and text.removeprefix("-").isdecimal() and text.isascii() else minimum - 1
    if len(values) != 1 or not minimum <= number <= _MAX_NUMBER:
        raise InvalidRequestError(
            f"{name} is '{', '.join(values)[:64]}'; it is a whole number from {minimum} to {_MAX_NUMBER}"
        )
    return number
