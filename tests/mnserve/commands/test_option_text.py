"""Options in files and in the environment: read as on the command line, or refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mnserve.settings import ServeSettings

CommandLine = Callable[[Sequence[str]], tuple[int, ServeSettings | None]]

MANY = "9" * 5000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"grpc_port: null", "--grpc-port has no value; write one, or leave it out"),
        (b"grpc_port:", "--grpc-port has no value; write one, or leave it out"),
        (b"host: ~", "--host has no value; write one, or leave it out"),
        (b"load_model: [a, null]", "--load-model has no value; write one, or leave it out"),
        (f"grpc_port: {MANY}".encode(), "...'; it must be a whole number of at most 100 characters"),
        (b"host: {a: 1}", "--host is a mapping ({'a': '1'}); write one value"),
        (b"host: [a]", "--host is a list (['a']); write one value"),
        (b"load_model: [[a]]", "--load-model is a list (['a']); write one value"),
        (b"strict: maybe", "--strict is 'maybe'; it must be true or false"),
        (b"grpc_port: *a", "--config is no YAML: found undefined alias 'a' at line 1, column 12; correct it there"),
        (b"a: 1\nb: [", "--config is no YAML: expected the node content, but found '<stream end>' at line 2"),
        (b"a: \x01", "--config is no YAML: "),
        (b"[" * 100_000, "--config is nested too deeply; write one `option: value` a line"),
        (b"host: \xff\xfe", "given with --config is not UTF-8; save it as UTF-8"),
    ],
)
def test_files_with_mistakes_are_refused_in_a_sentence(
    command_line: CommandLine, text: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "serve.yaml"
    file.write_bytes(text)
    assert command_line(["serve", "models", "--config", str(file)]) == (2, None)
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("mnserve: ")
    assert error.count("\n") == 1
    assert len(error) < 400


@pytest.mark.parametrize(
    "text",
    [
        "load_model: a\nhost: 127.1\nmodel_control: explicit\nshared_memory: on\nstrict: on\n",
        "load_model: [a]\nhost: '127.1'\nmodel_control: explicit\nshared_memory: 'on'\nstrict: 'true'\n",
    ],
    ids=["bare", "quoted"],
)
def test_values_in_a_file_are_read_as_on_the_command_line(command_line: CommandLine, text: str, tmp_path: Path) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text(text)
    expected = ServeSettings(
        repository="models",
        load_model=("a",),
        host="127.1",
        model_control="explicit",
        shared_memory="on",
        strict=True,
    )
    assert command_line(["serve", "models", "--config", str(file)]) == (0, expected)


@pytest.mark.parametrize("text", ["[1, 8]", "1 8", "1,8", " 1,  8 "])
def test_spaces_commas_and_brackets_make_a_list_in_the_environment(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("MNSERVE_CUDA_GRAPH_BATCHES", text)
    monkeypatch.setenv("MNSERVE_PROVIDERS", "cuda cpu")
    monkeypatch.setenv("MNSERVE_PROVIDER_OPTIONS", "cuda.a=1,2 cuda.b=3")
    code, settings = command_line(["serve", "models"])
    assert code == 0
    assert settings is not None
    assert settings.cuda_graph_batches == (1, 8)
    assert settings.providers == ("cuda", "cpu")
    assert settings.provider_options == ("cuda.a=1,2", "cuda.b=3")


@pytest.mark.parametrize(("text", "names"), [("a b", ("a", "b")), ("a,b", ("a", "b")), ('["a b", c]', ("a b", "c"))])
def test_names_with_spaces_in_the_environment_need_brackets(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch, text: str, names: tuple[str, ...]
) -> None:
    monkeypatch.setenv("MNSERVE_MODEL_CONTROL", "explicit")
    monkeypatch.setenv("MNSERVE_LOAD_MODEL", text)
    expected = ServeSettings(repository="models", model_control="explicit", load_model=names)
    assert command_line(["serve", "models"]) == (0, expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1", "MNSERVE_CUDA_GRAPH_BATCHES is no YAML: "),
        ("[1, null]", "MNSERVE_CUDA_GRAPH_BATCHES has no value"),
        (f"[{MANY}]", "'; it must be a whole number of at most 100 characters"),
        ("1 x", "--cuda-graph-batches is 'x'; it must be a whole number"),
    ],
)
def test_lists_with_mistakes_in_the_environment_are_refused_in_a_sentence(
    command_line: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
    message: str,
) -> None:
    monkeypatch.setenv("MNSERVE_CUDA_GRAPH_BATCHES", text)
    assert command_line(["serve", "models"]) == (2, None)
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
