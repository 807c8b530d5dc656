"""Log settings: levels that build on each other, and ids of requests."""

from __future__ import annotations

import io
import json
import logging
import re

import pytest

from mnserve.errors import InvalidRequestError, UnsupportedError
from mnserve.observability.log_settings import LogControl, LogValue
from mnserve.observability.logs import REQUEST_ID, JsonFormatter, TextFormatter


@pytest.fixture
def logger() -> logging.Logger:
    return logging.Logger("test", logging.INFO)


def steps(control: LogControl) -> str:
    """Of the four levels those that are on, by their first letters."""
    names = ("log_verbose_level", "log_info", "log_warning", "log_error")
    return "".join(name[4] for name in names if control.settings()[name])


def test_settings_follow_the_level_of_the_logger(logger: logging.Logger) -> None:
    assert LogControl("json", logger).settings() == {
        "log_file": "",
        "log_verbose_level": 0,
        "log_info": True,
        "log_warning": True,
        "log_error": True,
        "log_format": "json",
    }


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        ("iwe", {}, "iwe"),
        ("iwe", {"log_verbose_level": 1}, "viwe"),
        ("we", {"log_verbose_level": 3}, "viwe"),
        ("viwe", {"log_verbose_level": 0}, "iwe"),
        ("viwe", {"log_info": False}, "we"),
        ("iwe", {"log_warning": False}, "e"),
        ("iwe", {"log_error": False}, ""),
        ("", {"log_warning": True}, "we"),
        ("e", {"log_info": False}, "e"),
        ("viwe", {"log_info": False, "log_warning": False, "log_error": True}, "e"),
        ("iwe", {"log_file": "", "log_format": "text"}, "iwe"),
        ("iwe", {"log_info": False, "log_format": "default"}, "we"),
        ("iwe", {"log_verbose_level": 1, "log_format": "ISO8601"}, "viwe"),
    ],
)
def test_levels_that_are_not_named_follow(
    before: str, wanted: dict[str, LogValue], after: str, logger: logging.Logger
) -> None:
    levels = {"viwe": 10, "iwe": 20, "we": 30, "e": 40, "": 50}
    logger.setLevel(levels[before])
    control = LogControl("text", logger)
    control.change(wanted)
    assert steps(control) == after
    assert logger.level == levels[after]


@pytest.mark.parametrize(
    ("wanted", "words", "kind"),
    [
        ({"log_info": True, "log_error": False}, "log_info is on and log_error off", InvalidRequestError),
        ({"log_verbose_level": 1, "log_info": False}, "log_verbose_level is on and log_info off", InvalidRequestError),
        ({"log_colour": True}, "there is no log setting 'log_colour'", InvalidRequestError),
        ({"log_info": "yes"}, "log_info comes as string_param, expected bool_param", InvalidRequestError),
        ({"log_verbose_level": True}, "comes as bool_param, expected uint32_param", InvalidRequestError),
        ({"log_file": "/etc/passwd"}, "log_file stays ''", UnsupportedError),
        (
            {"log_info": False, "log_format": "json"},
            "log_format is 'json', expected default or ISO86",
            InvalidRequestError,
        ),
        ({"log_info": False, "log_format": True}, "comes as bool_param, expected string_param", InvalidRequestError),
    ],
)
def test_an_invalid_setting_changes_no_level(
    wanted: dict[str, LogValue], words: str, kind: type[Exception], logger: logging.Logger
) -> None:
    control = LogControl("text", logger)
    with pytest.raises(kind, match=words):
        control.change(wanted)
    assert steps(control) == "iwe"


def test_the_format_changes_the_times_of_lines_of_text(logger: logging.Logger) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextFormatter())
    logger.addHandler(handler)
    control = LogControl("text", logger, [handler])
    for name in ("default", "ISO8601", "text"):
        control.change({"log_format": name})
        logger.info(name)
    first, second, third = stream.getvalue().splitlines()
    assert re.match(r"[\d-]{10} [\d:]{8},\d{3} INFO", first)
    assert re.match(r"[\d-]{10}T[\d:]{8}\.\d{3}\+00:00 INFO", second)
    assert re.match(r"[\d-]{10} [\d:]{8},\d{3} INFO", third)
    control.change({"log_format": "ISO8601"})
    assert control.settings()["log_format"] == "ISO8601"
    control.change({"log_format": "default"})
    assert control.settings()["log_format"] == "default"
    whole = control.settings()
    control.change(whole)
    assert control.settings() == whole


def test_lines_of_json_stay_what_they_are(logger: logging.Logger) -> None:
    control = LogControl("json", logger, [])
    control.change({"log_info": False, "log_format": "default"})
    assert (control.settings()["log_format"], logger.level) == ("json", logging.WARNING)
    control.change(control.settings())


def test_a_name_with_a_line_break_leaves_a_line_of_text_whole(logger: logging.Logger) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextFormatter())
    logger.addHandler(handler)
    logger.info("model '%s' is served", "a\nforged\u2028")
    logger.info("model '%s' is served", "größe")
    first, second = stream.getvalue().splitlines()
    assert first.endswith(r"model 'a\nforged\u2028' is served")
    assert second.endswith("model 'größe' is served")


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_nothing_in_a_line_or_a_traceback_can_steer_a_terminal(
    formatter: logging.Formatter, logger: logging.Logger
) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger.addHandler(handler)
    name = "größe\x1b[2J\x9b\u2028\u202e\ud800"
    try:
        raise ValueError(name)
    except ValueError:
        logger.exception("model '%s' fails", name)
    text = stream.getvalue()
    shown = r"größe\x1b[2J\x9b\u2028\u202e\ud800"
    if isinstance(formatter, JsonFormatter):
        entry = json.loads(text)
        assert entry["message"] == f"model '{shown}' fails"
        assert entry["traceback"].endswith(f"ValueError: {shown}")
    else:
        first, *_, last = text.splitlines()
        assert first.endswith(f"model '{shown}' fails")
        assert last == f"ValueError: {shown}"
    assert all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_a_line_names_the_request_it_is_about(formatter: logging.Formatter, logger: logging.Logger) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger.addHandler(handler)
    logger.info("before")
    token = REQUEST_ID.set("r-1\nforged" + "x" * 500)
    logger.info("meanwhile")
    REQUEST_ID.reset(token)
    before, meanwhile = stream.getvalue().splitlines()
    assert "request" not in before
    if isinstance(formatter, JsonFormatter):
        assert json.loads(meanwhile)["request_id"].startswith("r-1\\nforged")
    else:
        assert "meanwhile [request r-1\\nforged" in meanwhile
    assert len(meanwhile) < 400
