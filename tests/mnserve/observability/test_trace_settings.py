"""Trace settings: the choice of the requests that are traced."""

from __future__ import annotations

import pytest

from mnserve.errors import InvalidRequestError, UnsupportedError
from mnserve.observability.trace_settings import TraceChoice, TraceSettings


def taken(settings: TraceSettings, model: str, count: int, sampled: bool | None = None) -> list[int]:
    """Numbers of the requests that are traced, from 1."""
    return [number for number in range(1, count + 1) if settings.take(model, sampled)]


def test_one_request_of_so_many_is_traced_whatever_its_model() -> None:
    settings = TraceSettings(TraceChoice(rate=3))
    assert [settings.take(model, None) for model in "abcabc"] == [False, False, True] * 2


def test_the_callers_own_trace_decides_where_there_is_one() -> None:
    settings = TraceSettings(TraceChoice(rate=1000))
    assert taken(settings, "m", 5, sampled=True) == [1, 2, 3, 4, 5]
    settings = TraceSettings(TraceChoice(rate=1))
    assert taken(settings, "m", 5, sampled=False) == []


def test_the_count_runs_out_and_starts_anew_with_a_change() -> None:
    settings = TraceSettings(TraceChoice(rate=1, count=2))
    assert taken(settings, "m", 5) == [1, 2]
    assert taken(settings, "n", 5, sampled=True) == []
    settings.change("", {"trace_count": ["1"]})
    assert taken(settings, "m", 5) == [1]


def test_settings_of_one_model_can_be_changed_and_reset() -> None:
    settings = TraceSettings(TraceChoice(rate=1))
    settings.change("m", {"trace_level": ["OFF"]})
    assert taken(settings, "m", 3, sampled=True) == []
    assert taken(settings, "n", 3) == [1, 2, 3]
    settings.change("", {"trace_rate": ["2"]})
    assert settings.of("m").values()["trace_rate"] == ["2"], "what was not changed follows the choice for all"
    settings.change("m", {"trace_level": []})
    assert settings.of("m") == settings.of("")
    settings.change("", {"trace_rate": []})
    assert settings.of("m").values() == {
        "trace_level": ["TIMESTAMPS"],
        "trace_rate": ["1"],
        "trace_count": ["-1"],
        "trace_mode": ["opentelemetry"],
        "trace_file": [""],
        "log_frequency": ["0"],
    }


@pytest.mark.parametrize(
    ("wanted", "words", "kind"),
    [
        ({"trace_colour": ["1"]}, "there is no trace setting 'trace_colour'", InvalidRequestError),
        ({"trace_level": ["TENSORS"]}, "trace_level is TENSORS", InvalidRequestError),
        ({"trace_level": ["OFF", "TIMESTAMPS"]}, "trace_level is OFF, TIMESTAMPS", InvalidRequestError),
        ({"trace_rate": ["0"]}, "trace_rate is '0'; it is a whole number from 1", InvalidRequestError),
        ({"trace_rate": ["1", "2"]}, "trace_rate is '1, 2'", InvalidRequestError),
        ({"trace_rate": ["9" * 5000]}, "trace_rate is '9{64}'", InvalidRequestError),
        ({"trace_count": ["-2"]}, "trace_count is '-2'", InvalidRequestError),
        ({"trace_count": ["-"]}, "trace_count is '-'", InvalidRequestError),
        ({"trace_count": ["٣"]}, "trace_count is '٣'", InvalidRequestError),
        ({"trace_mode": ["triton"]}, "trace_mode stays 'opentelemetry'", UnsupportedError),
        ({"trace_rate": ["5"], "trace_file": ["spans.json"]}, "trace_file stays ''", UnsupportedError),
    ],
)
@pytest.mark.parametrize("model", ["", "m"])
def test_an_invalid_setting_changes_no_choice(
    model: str, wanted: dict[str, list[str]], words: str, kind: type[Exception]
) -> None:
    settings = TraceSettings(TraceChoice(rate=7))
    with pytest.raises(kind, match=words):
        settings.change(model, wanted)
    assert settings.of("m") == settings.of("") == TraceChoice(rate=7)
