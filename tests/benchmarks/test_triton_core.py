"""benchmarks/triton_core.py, with a small program in the place of tritonserver; its words are those of version 2.51."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MISSING = "UNAVAILABLE: Invalid argument: unable to find backend library for backend 'onnxruntime', try specifying"
POLL = (
    "E1128 17:24 model_repository_manager.cc:1460] \"Poll failed for model directory 'bad': failed to read text proto"
)
TABLE = ["| Model | Version | Status |", *(f"| {name} | 1 | {MISSING} runtime. |" for name in ("a", "b"))]

MakeWheel = Callable[..., Path]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def make_wheel(tmp_path: Path) -> MakeWheel:
    """Make a wheel whose tritonserver is a shell script."""

    def make(*commands: str, name: str = "pytriton/tritonserver/bin/tritonserver") -> Path:
        wheel = tmp_path / "nvidia_pytriton-0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(name, "\n".join(["#!/bin/sh", *commands, ""]))
            archive.writestr("pytriton/tritonserver/lib/libx.so.1", "")
        return wheel

    return make


@pytest.fixture
def run(run_script: Callable[..., Any]) -> Run:
    def call(*words: object) -> tuple[int, str, str]:
        done = run_script("triton_core", *words)
        return done.code, done.stdout, done.stderr

    return call


@pytest.fixture
def models(repository: Path) -> Path:
    """Write a repository with models a and b."""
    for name in ("a", "b", ".hidden"):
        (repository / name).mkdir()
    (repository / "README").touch()
    return repository


def echo(lines: list[str]) -> list[str]:
    return ["cat <<'END'", *lines, "END"]


def test_only_the_backend_may_be_missing(run: Run, make_wheel: MakeWheel, models: Path) -> None:
    code, out, err = run(models, make_wheel(*echo(TABLE), "exit 1"))
    assert (code, err) == (0, "")
    assert out == "a: configuration taken, backend missing\nb: configuration taken, backend missing\n"


def test_the_core_is_asked_for_every_model_and_finds_its_libraries(
    run: Run, make_wheel: MakeWheel, models: Path
) -> None:
    wheel = make_wheel('echo "| a | 1 | $LD_LIBRARY_PATH |"', 'echo "| b | 1 | $* |"')
    code, out, _ = run(models, wheel)
    first, second = out.splitlines()
    assert code == 1
    assert first.endswith("pytriton/tritonserver/lib")
    assert f"--model-repository={models.resolve()} --model-control-mode=explicit" in second
    assert "--load-model=a --load-model=b --allow" in second
    assert "--exit-on-error=true" in second


def test_models_with_errors_or_without_a_line_are_shown(run: Run, make_wheel: MakeWheel, models: Path) -> None:
    assert run(models, make_wheel(*echo(TABLE[::2])))[:2] == (
        1,
        "a: not mentioned\nb: configuration taken, backend missing\n",
    )
    (models / "bad").mkdir()
    code, out, _ = run(models, make_wheel(*echo([POLL, *TABLE[:2]]), "exit 1"))
    assert code == 1
    assert out.splitlines() == ["a: configuration taken, backend missing", "b: not mentioned", f"bad: {POLL}"]


def test_a_core_that_does_not_end_is_ended(run: Run, make_wheel: MakeWheel, models: Path) -> None:
    code, out, err = run(models, make_wheel("echo waiting for a GPU", "exec sleep 100"), "--timeout", "0.5")
    assert (code, out) == (2, "")
    assert err == (
        "triton_core: tritonserver did not end within 0.5 s, its last line: waiting for a GPU; raise --timeout\n"
    )


def test_a_core_that_names_no_model_is_an_error(run: Run, make_wheel: MakeWheel, models: Path) -> None:
    code, out, err = run(models, make_wheel("echo libcudart.so.12: cannot open shared object file", "exit 127"))
    assert (code, out) == (2, "")
    assert "said nothing about any model; its last line: libcudart.so.12: cannot open shared object file" in err
    assert run(models, make_wheel("exit 0"))[2] == "triton_core: tritonserver said nothing about any model\n"


def test_a_core_that_cannot_be_run_is_one_sentence(
    run: Run, make_wheel: MakeWheel, models: Path, tmp_path: Path
) -> None:
    (tmp_path / "no.whl").write_text("no archive")
    (tmp_path / "void").mkdir()
    wheel = make_wheel()
    for words, message in (
        ((tmp_path / "gone", wheel), "gone cannot be read: No such file or directory"),
        ((tmp_path / "no.whl", wheel), "no.whl cannot be read: Not a directory"),
        ((tmp_path / "void", wheel), "void holds no model"),
        ((models, tmp_path / "gone.whl"), "gone.whl cannot be unpacked: No such file or directory"),
        ((models, tmp_path), "cannot be unpacked: Is a directory"),
        ((models, tmp_path / "no.whl"), "no.whl is no wheel, or is damaged"),
        ((models, make_wheel(name="bin/other")), "holds no bin/tritonserver"),
    ):
        code, out, err = run(*words)
        assert (code, out) == (2, "")
        assert err.startswith("triton_core: ")
        assert message in err
        assert len(err.splitlines()) == 1


def test_a_binary_of_another_machine_is_an_error(run: Run, make_wheel: MakeWheel, models: Path, tmp_path: Path) -> None:
    wheel = make_wheel()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("bin/tritonserver", b"\x7fELF" + bytes(60))
    assert run(models, wheel)[::2] == (2, "triton_core: tritonserver does not start here: Exec format error\n")


def test_a_timeout_is_above_zero(run: Run, models: Path) -> None:
    code, _, err = run(models, "x.whl", "--timeout", "0")
    assert code == 2
    assert "argument --timeout: '0' is not a number above 0" in err
