"""Requests and checks of the fuzzer, and a second of fuzzing where atheris is installed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from fuzzing import http_target
from fuzzing import target as fuzzing_target
from fuzzing.dice import RandomDice
from fuzzing.http_target import HttpTarget
from fuzzing.seeds import CHOICES, MESSAGE, write_seeds
from fuzzing.signatures import SIGNATURES
from fuzzing.structured import valid
from fuzzing.target import Finding, Target

from mnserve.codec.signature import RequestSignature
from mnserve.errors import EngineRunError, InvalidRequestError
from mnserve.protocol import service_pb2 as pb

ROOT = Path(__file__).parents[2]


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(tmp_path)


@pytest.mark.parametrize("signature", SIGNATURES, ids=[signature.model for signature in SIGNATURES])
def test_every_model_answers_good_requests(target: Target, signature: RequestSignature) -> None:
    for seed in range(20):
        target.raw(valid(signature, RandomDice(seed)).SerializeToString())
    assert target.outcomes["answered"] >= 2
    assert set(target.outcomes) <= {"answered", "InvalidRequestError", "AnswerTooLargeError"}


def test_requests_that_are_nearly_right_are_answered_or_refused(target: Target) -> None:
    for seed in range(1500):
        target.structured(RandomDice(seed))
    assert set(target.outcomes) == {"answered", "InvalidRequestError", "UnsupportedError", "AnswerTooLargeError"}
    assert target.outcomes["answered"] > 200


def test_damaged_seeds_are_answered_or_refused(target: Target, tmp_path: Path) -> None:
    count = write_seeds(tmp_path / "seeds")
    inputs = [path.read_bytes() for path in sorted((tmp_path / "seeds").iterdir())]
    assert len(inputs) == count
    assert {content[:1] for content in inputs} == {MESSAGE, CHOICES}
    dice = random.Random(0)
    for content in inputs:
        damaged = bytearray(content[1:])
        for _ in range(3):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        target.raw(bytes(damaged))
    assert target.outcomes["no message"]
    assert target.outcomes["InvalidRequestError"]


def fail(error: Exception) -> Callable[..., Any]:
    def call(*_: object) -> Any:
        raise error

    return call


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (IndexError("list index out of range"), "out of range"),
        (EngineRunError("an error that stands for a fault of ours"), "has no status"),
        (InvalidRequestError("x" * 3000), "3000 characters"),
    ],
    ids=["bug", "internal", "long"],
)
def test_broken_rules_are_findings(
    target: Target, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    monkeypatch.setattr(fuzzing_target, "check_request", fail(error))
    with pytest.raises((Finding, IndexError), match=words):
        target.raw(valid(SIGNATURES[0], RandomDice(0)).SerializeToString())


def test_an_answer_with_other_values_is_a_finding(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    def shifted(**fields: Any) -> Any:
        return encode(**{**fields, "arrays": [array + 1 for array in fields["arrays"]]})

    encode = fuzzing_target.encode_response
    monkeypatch.setattr(fuzzing_target, "encode_response", shifted)
    request = pb.ModelInferRequest(raw_input_contents=[bytes(4)])
    request.inputs.add(name="a", datatype="FP32", shape=[1, 1])  # as the model "single" takes it
    with pytest.raises(Finding, match="'a' went out as"):
        target.raw(request.SerializeToString())


def test_bodies_of_http_are_answered_or_refused(tmp_path: Path) -> None:
    target = HttpTarget()
    for seed in range(300):
        target.structured(RandomDice(seed))
    for number in range(write_seeds(tmp_path / "seeds", "http")):
        target.raw((tmp_path / "seeds" / f"seed-{number:03}").read_bytes()[1:])
    assert set(target.outcomes) == {"answered", "InvalidRequestError", "UnsupportedError", "form"}
    assert target.outcomes["answered"] > 40


def test_a_body_that_means_something_else_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def shifted(*arguments: Any) -> bytes:
        return bytes(reversed(to_raw(*arguments)))

    to_raw = http_target.json_to_raw
    monkeypatch.setattr("mnserve.http.payloads.requests.json_to_raw", shifted)
    target = HttpTarget()

    def take_many() -> None:
        for seed in range(500):
            target.structured(RandomDice(seed))

    with pytest.raises(Finding, match="in the body, and"):
        take_many()


def fuzz(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "benchmarks/fuzz_codec.py", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=150, check=False, env=os.environ)


@pytest.mark.skipif(find_spec("atheris") is not None, reason="atheris is installed")
def test_a_missing_atheris_gets_the_command_that_installs_it() -> None:
    done = fuzz("--seconds", "1")
    assert done.returncode == 2
    assert "pip install -c constraints.txt '.[fuzz]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris is not installed: pip install '.[fuzz]'")
def test_a_second_of_fuzzing_has_no_finding(tmp_path: Path) -> None:
    done = fuzz("--seconds", "1", "--corpus", str(tmp_path / "corpus"), "--json", str(tmp_path / "fuzz.json"))
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "fuzz.json").read_text())
    assert record["executions"] > len(SIGNATURES)
    assert record["edges"] >= record["edges_of_seeds"] > 50
    assert not record["finding"]
    assert list((tmp_path / "corpus").iterdir())
    assert "No finding." in done.stdout
    assert fuzz("--replay", str(next((tmp_path / "corpus").iterdir()))).returncode == 0
