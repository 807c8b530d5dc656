"""Outcomes of all models: counts, reasons in groups, and the record."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mntrain.result_table import ResultTable

_QUOTED: Final = re.compile(r"'[^']*'")
_LIST: Final = re.compile(r"\[[-\d, ]*\]")
_NUMBER: Final = re.compile(r"\d+")
_RUNTIME: Final = ": Non-zero status code"
_WIDTH: Final = 120
_OUTCOMES: Final = {
    "equal": "served, every bit equal",
    "wrong": "served with another answer",
    "refused": "refused",
    "no type": "of types that the protocol lacks",
}


@dataclass(kw_only=True)
class Outcomes:
    """Outcome of each model that ONNX Runtime runs.

    Attributes:
        suite: number of models in the suite.
        not_run: name and reason of models that ONNX Runtime alone does not run.
        models: name -> outcome and reason.
        non_finite: names of models whose inputs hold NaN or infinity.
    """

    suite: int = 0
    not_run: dict[str, str] = field(default_factory=dict)
    models: dict[str, tuple[str, str]] = field(default_factory=dict)
    non_finite: set[str] = field(default_factory=set)

    def count(self, outcome: str) -> int:
        """Count the models of an outcome."""
        return sum(1 for found, _ in self.models.values() if found == outcome)

    def groups(self, outcome: str) -> dict[str, list[str]]:
        """Group the models of an outcome by reason, the largest group first."""
        groups: dict[str, list[str]] = {}
        for name, (found, reason) in self.models.items():
            if found == outcome:
                groups.setdefault(kind_of_reason(reason), []).append(name)
        return dict(sorted(groups.items(), key=lambda item: -len(item[1])))

    def table(self) -> ResultTable:
        """Lay out counts, and below each the groups of reasons with an example."""
        rows = [
            ["in the suite", str(self.suite), ""],
            ["run by ONNX Runtime alone", str(len(self.models)), ""],
        ]
        for outcome, text in _OUTCOMES.items():
            rows.append([text, str(self.count(outcome)), ""])
            for reason, names in self.groups(outcome).items():
                if reason:
                    rows.append([f"  {reason}", str(len(names)), names[0]])
        unfit = sum(1 for name in self.non_finite if self.models[name][0] == "refused")
        caption = f"{len(self.non_finite)} models have inputs with NaN or infinity; {unfit} of them are refused."
        return ResultTable(headings=("models", "number", "example"), rows=rows, caption=caption)

    def record(self) -> Mapping[str, Any]:
        """Return all of it for a JSON file."""
        return {
            "suite": self.suite,
            "run": len(self.models),
            "counts": {outcome: self.count(outcome) for outcome in _OUTCOMES},
            "non_finite": sorted(self.non_finite),
            "not_run": self.not_run,
            "models": {name: {"outcome": found, "reason": why} for name, (found, why) in self.models.items()},
        }


def kind_of_reason(reason: str) -> str:
    """Strip names, numbers and what ONNX Runtime says in full, so that equal kinds of faults compare equal."""
    text = _QUOTED.sub("'…'", reason.partition(_RUNTIME)[0])
    return _NUMBER.sub("#", _LIST.sub("[#]", text))[:_WIDTH]
