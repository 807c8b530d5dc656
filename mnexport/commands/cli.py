"""Command line of mnexport.

Exit codes: 0 done, 1 the work failed, 2 wrong usage, 130 interrupted, 143 terminated (128 and the signal's number).
"""

import json
import sys
from collections.abc import Sequence
from importlib.metadata import version

from rich.console import Console

from mnexport.commands.settings import ExportCommand
from mnexport.errors import MnExportError, UsageError
from mnexport.signals import Terminated, terminable
from mntrain.commands.options import add_options, read_options
from mntrain.commands.output import end_at_sigterm, run_command
from mntrain.commands.parser import CommandParser
from mntrain.errors import MnTrainError
from mntrain.missing_packages import missing_extra
from mntrain.terminal_text import plain, printable

_EPILOG = """\
examples:

  mnexport runs/digits-meta-neighborhoods/artifact repository/digits-mn
  mnexport runs/digits-meta-neighborhoods/artifact repository/digits-plain --vanilla
  mnexport runs/fashion-mnist-meta-neighborhoods/artifact repository/fashion-mn --form explicit --parity test
  mnexport runs/digits-meta-neighborhoods/artifact repository/digits-mn --tolerance 1e-4 --explain 5
  mnexport runs/digits-meta-neighborhoods/artifact repository/digits-mn --format tensorrt-rtx --batch-profile 1,16,64
  mnexport runs/digits-meta-neighborhoods/artifact repository/digits-mn --input-type float32 --json

The result is a model repository in Triton's layout: serve it with `mnserve serve repository`.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    end_at_sigterm()
    words = _parser().parse_args(argv)
    try:
        return run_command(lambda: _export(read_options(ExportCommand, words)))
    except (MnExportError, MnTrainError) as error:
        print(f"mnexport: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    except ModuleNotFoundError as error:
        sentence = missing_extra(error, "this command", "export")
        if sentence is None:
            raise
        print(f"mnexport: {sentence}", file=sys.stderr)
        return UsageError.exit_code
    except Terminated as ended:
        print("mnexport: terminated.", file=sys.stderr)
        return ended.exit_code
    except KeyboardInterrupt:
        print("mnexport: interrupted.", file=sys.stderr)
        return 130


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="mnexport",
        description="Turn a trained adaptive model into a static ONNX graph, prove that it answers as the trained "
        "model does, and publish it in a model repository.",
        epilog=_EPILOG,
    )
    add_options(parser, ExportCommand)
    parser.add_argument(
        "--about", action="version", version=f"mn-runtime {version('mn-runtime')}", help="print the version"
    )
    return parser


def _export(command: ExportCommand) -> int:
    # PyTorch takes seconds to import: help and wrong usage do not wait for it.
    from mnexport.commands.report_text import print_report
    from mnexport.pipeline import export

    options = command.export_options()
    console = Console(stderr=True)
    with terminable():
        if command.json:
            report = export(options)
        elif console.is_terminal:
            with console.status("exporting") as status:
                report = export(options, lambda message: status.update(plain(message)))
        else:
            report = export(options, lambda message: console.print(plain(message), soft_wrap=True))
    if command.json:
        print(json.dumps(report.to_dict()))
    else:
        print_report(report)
    return 0
