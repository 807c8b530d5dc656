"""Options of the command line: described, with the defaults and choices of the export itself."""

import argparse
import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import docstring_parser

from mnexport.commands.settings import ExportCommand
from mnexport.forms.plan import FORMS
from mnexport.options import ExportOptions
from mnexport.precision.accuracy import DTYPES
from mnexport.repository.target import Target
from mnexport.tensorrt import ENGINE_FORMATS
from mntrain.commands.options import add_options, read_options

ARTIFACT, TARGET = Path("run/artifact"), Path("repository/m")


def test_without_options_the_command_asks_for_a_default_export() -> None:
    options = ExportCommand(artifact=ARTIFACT, target=TARGET).export_options()
    assert options == ExportOptions(artifact=ARTIFACT, target=Target(repository=TARGET.parent, name="m"))


def test_choices_are_those_of_the_export() -> None:
    hints = get_type_hints(ExportCommand)
    assert get_args(hints["form"]) == FORMS
    assert get_args(hints["dtype"]) == DTYPES
    assert get_args(hints["format"]) == ("onnx", *ENGINE_FORMATS)


def test_every_option_is_described() -> None:
    described = {item.arg_name: item.description for item in docstring_parser.parse_from_object(ExportCommand).params}
    assert described.keys() == {field.name for field in dataclasses.fields(ExportCommand)}
    assert all(described.values())


def test_help_does_not_wait_for_pytorch() -> None:
    script = "import sys, mnexport.commands.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_lists_between_commas_may_be_given_again() -> None:
    parser = argparse.ArgumentParser()
    add_options(parser, ExportCommand)
    words = ["a", "r/m", "--format", "tensorrt-rtx", "--compute-capability", "8.6", "--compute-capability", "8.9,12.0"]
    assert read_options(ExportCommand, parser.parse_args(words)).compute_capability == "8.6,8.9,12.0"
