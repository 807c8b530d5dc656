"""Measurements of refusals: on a server on a very small scale, and what is over its bound."""

import json
import sys
from pathlib import Path

import pytest
import refusals
from refusing.messages import KINDS
from refusing.served import Figure

from mnserve.protocol import service_pb2 as pb
from mnserve.rpc.messages import LIMITS
from mnserve.rpc.wire import NotAMessageError, WireShape, first_excess


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["refusals.py", *words])
    for name in ("no_proxy", "NO_PROXY"):  # the script sets them
        monkeypatch.setenv(name, "127.0.0.1")
    return refusals.main()


def test_a_huge_region_costs_the_server_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--only", "shared-memory", "--json", str(tmp_path / "figures.json")) == 0
    kept, waited = json.loads((tmp_path / "figures.json").read_text())["figures"]
    assert kept["note"] == "20 GiB: INVALID_ARGUMENT, 32 bytes: OK"
    assert 0 < waited["value"] < waited["bound"]
    assert "2 measurements, 0 over their bound" in capsys.readouterr().out


def test_a_figure_over_its_bound_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = [Figure(what="calls", value=value, unit="refused", bound=1, note="3 OK") for value in (1, 2)]
    monkeypatch.setitem(refusals._MEASUREMENTS, "at-once", lambda count: iter(figures))
    assert run(monkeypatch, "--only", "at-once") == 1
    assert "2 measurements, 1 over their bound" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["32 million empty strings", "62 million packed integers", "5 million parameters"])
def test_large_messages_have_too_many_elements(kind: str) -> None:
    assert first_excess(KINDS[kind](), WireShape.of(pb.ModelInferRequest.DESCRIPTOR), LIMITS) is not None  # type: ignore[arg-type]


def test_a_message_that_is_none_is_found_without_a_parser() -> None:
    with pytest.raises(NotAMessageError):
        first_excess(KINDS["no message"](), WireShape.of(pb.ModelInferRequest.DESCRIPTOR), LIMITS)  # type: ignore[arg-type]
