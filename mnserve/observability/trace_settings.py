"""Which requests are traced, as callers see and change it: Triton's TraceSetting, for one model or for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mnserve.errors import InvalidRequestError, UnsupportedError

_LEVELS: Final = ("OFF", "TIMESTAMPS")
_FIXED: Final = {"trace_mode": ["opentelemetry"], "trace_file": [""], "log_frequency": ["0"]}
"""What Triton has, too, and what stays as it is here."""
_MAX_NUMBER: Final = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class TraceChoice:
    """Which requests are traced.

    Attributes:
        level: OFF, or TIMESTAMPS for spans.
        rate: One request of so many; those whose caller is traced itself are always.
        count: How many requests are traced from now on; -1 is no limit.
    """

    level: str = "TIMESTAMPS"
    rate: int = 1000
    count: int = -1

    def values(self) -> dict[str, list[str]]:
        """As callers see it."""
        return {
            "trace_level": [self.level],
            "trace_rate": [str(self.rate)],
            "trace_count": [str(self.count)],
            **_FIXED,
        }


class TraceSettings:
    """A choice for all models, and others for some.

    Args:
        start: The choice for all; a setting that is cleared goes back to it.
    """

    def __init__(self, start: TraceChoice) -> None:
        self._start = start
        self._all = start
        self._changed: dict[str, dict[str, str | int]] = {}  # by model, what differs from all
        self._seen: dict[str, int] = {}  # requests by model, or by "" for those that go by the common choice
        self._left: dict[str, int] = {}  # of the count, by the same

    def of(self, model: str) -> TraceChoice:
        """The choice for one model; "" is for all."""
        return replace(self._all, **self._changed.get(model, {}))  # type: ignore[arg-type]  # checked when it was set

    def change(self, model: str, wanted: Mapping[str, Sequence[str]]) -> None:
        """Changes what is named; an empty list goes back to the choice for all, or to that of the start.

        Args:
            model: Name of a model that is there, or "" for all.
            wanted: By setting.

        Raises:
            InvalidRequestError: No such setting, or a value that cannot be.
            UnsupportedError: What cannot be changed.
        """
        parsed = {name: _parsed(name, values) for name, values in wanted.items() if name not in _FIXED}
        for name in _FIXED.keys() & wanted.keys():
            if wanted[name] and list(wanted[name]) != _FIXED[name]:
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
        self._left.pop(model, None)

    def take(self, model: str, sampled: bool | None) -> bool:
        """Whether a request is traced; it counts.

        Args:
            model: Its model.
            sampled: Whether its caller is traced; None where it says nothing.
        """
        scope = model if model in self._changed else ""
        choice = self.of(model)
        if choice.level == "OFF" or sampled is False:
            return False
        seen = self._seen[scope] = self._seen.get(scope, 0) + 1
        left = self._left.get(scope, choice.count)
        if not left or (sampled is None and seen % choice.rate):
            return False
        self._left[scope] = left - 1 if left > 0 else left
        return True


def _parsed(name: str, values: Sequence[str]) -> str | int | None:
    """A setting's value; None where it is cleared."""
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
    least = 1 if name == "trace_rate" else -1
    text = values[0]
    number = int(text) if len(text) <= 11 and text.removeprefix("-").isdecimal() and text.isascii() else least - 1
    if len(values) != 1 or not least <= number <= _MAX_NUMBER:
        raise InvalidRequestError(
            f"{name} is '{', '.join(values)[:64]}'; it is a whole number from {least} to {_MAX_NUMBER}"
        )
    return number
