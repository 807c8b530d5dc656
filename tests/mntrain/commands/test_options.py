"""Options made from the fields of a dataclass."""

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from mntrain.commands.cli import COMMANDS
from mntrain.commands.lists import names, numbers, whole_numbers
from mntrain.commands.options import (
    Count,
    FilePath,
    Option,
    OtherWords,
    add_options,
    read_options,
    takes_other_words,
)
from mntrain.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Settings with a field of every kind.

    Args:
        sources: files to read
        words: other words
        kind: how they are read
        opset: version, 100% of them known
        share: part of
            them
        limit: most of them
        seeds: of the draws
        log: file of messages
        extra: further files; repeatable
        dry_run: write nothing
        check: look at the result
    """

    sources: tuple[Path, ...]
    words: OtherWords = ()
    kind: Literal["fast", "exact"] = "fast"
    opset: Literal[18, 20] = 20
    share: float = 1e-3
    limit: Count | None = None
    seeds: Annotated[tuple[int, ...], Option(metavar="A,B", parse=whole_numbers("--seeds", "0,1"))] = (0, 1)
    log: FilePath | None = None
    extra: tuple[FilePath, ...] = ()
    dry_run: bool = False
    check: bool = True


def parse(*words: str) -> Sample:
    parser = argparse.ArgumentParser(prog="sample", allow_abbrev=False)
    add_options(parser, Sample)
    return read_options(Sample, *parser.parse_known_args(words))


def help_text(settings: type[Any]) -> str:
    parser = argparse.ArgumentParser(prog="sample")
    add_options(parser, settings)
    return " ".join(parser.format_help().split())


def test_fields_left_out_have_their_defaults() -> None:
    assert parse("a") == Sample(sources=(Path("a"),))


def test_values_have_the_types_of_their_fields() -> None:
    words = ["a", "b", "--kind", "exact", "--opset", "18", "--share", "0.5", "--limit", "3", "--seeds", "4,5"]
    words += ["--log", "c", "--extra", "d", "--extra", "e", "--dry-run", "--no-check", "--deep.field", "7"]
    assert parse(*words) == Sample(
        sources=(Path("a"), Path("b")),
        words=("--deep.field", "7"),
        kind="exact",
        opset=18,
        share=0.5,
        limit=3,
        seeds=(4, 5),
        log=Path("c"),
        extra=(Path("d"), Path("e")),
        dry_run=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "the following arguments are required: sources"),
        (["a", "--kind", "slow"], "argument --kind: invalid choice: 'slow' (choose from"),
        (["a", "--opset", "19"], "argument --opset: invalid choice: 19 (choose from 18, 20)"),
        (["a", "--limit", "few"], "argument --limit: invalid int value: 'few'"),
    ],
)
def test_wrong_words_are_named(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(*words)
    assert caught.value.code == 2
    assert sentence in capsys.readouterr().err


def test_errors_of_a_reader_leave_the_parser() -> None:
    with pytest.raises(ConfigError, match=r"--seeds is 'a'; it must be whole numbers separated by commas, as in 0,1\."):
        parse("a", "--seeds", "a")


def test_help_holds_descriptions_and_defaults() -> None:
    text = help_text(Sample)
    for part in (
        "sources files to read",
        "--kind {fast,exact} how they are read (fast)",
        "version, 100% of them known (20)",
        "--share SHARE part of them (0.001)",
        "--limit N most of them --seeds A,B of the draws (0,1)",
        "--log FILE file of messages --extra FILE further files; repeatable --dry-run write nothing",
        "--check, --no-check look at the result (--check)",
    ):
        assert part in text
    assert "other words" not in text


def test_only_commands_with_overrides_take_other_words() -> None:
    assert takes_other_words(Sample)
    assert {name for name, command in COMMANDS.items() if takes_other_words(command.options)} == {
        "data",
        "fit",
        "evaluate",
        "compare",
        "crossval",
        "features",
        "fewshot",
        "head",
        "adapt",
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_every_command_is_described(name: str) -> None:
    parser = argparse.ArgumentParser(add_help=False)
    add_options(parser, COMMANDS[name].options)
    assert [action.dest for action in parser._actions if not action.help] == []


def test_lists_are_separated_by_commas() -> None:
    assert names(" a, b,,") == ("a", "b")
    assert numbers("--decays", "0,1")("0,0.5") == (0.0, 0.5)
    with pytest.raises(ConfigError, match="--decays is '0,x'; it must be numbers separated by commas, as in 0,1"):
        numbers("--decays", "0,1")("0,x")


@pytest.mark.parametrize("words", [["--help"], ["fit", "--help"], ["crossval", "--layers", "two", "uci"]])
def test_help_and_wrong_words_do_not_load_heavy_libraries(words: list[str]) -> None:
    script = (
        "import contextlib, json, sys\n"
        "from mntrain.commands.cli import main\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(sys.stderr):\n"
        "    main(sys.argv[1:])\n"
        "print(json.dumps(sorted(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = set(json.loads(done.stdout))
    assert "mntrain.commands.options" in loaded
    assert loaded.isdisjoint({"torch", "numpy", "datasets", "sklearn", "jsonargparse", "rich"})


def test_a_list_between_commas_that_is_given_again_adds_to_the_list() -> None:
    assert parse("a.csv").seeds == (0, 1)
    assert parse("a.csv", "--seeds", "2,3", "--seeds", "4").seeds == (2, 3, 4)
