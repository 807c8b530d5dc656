"""The command line of mnexport.

Exit codes: 0 done, 1 the work failed, 2 wrong usage, 130 interrupted, 143 terminated (128 and the signal's number).
"""

import argparse
import json
import sys
from collections.abc import Sequence

from rich.console import Console

from mnexport.commands.arguments import options_of, parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    arguments = parser().parse_args(argv)
    # PyTorch takes seconds to import: help and usage errors do not wait for it.
    from mnexport.errors import MnExportError
    from mnexport.signals import Terminated
    from mntrain.commands.output import run_command
    from mntrain.errors import MnTrainError

    try:
        return run_command(lambda: _export(arguments))
    except (MnExportError, MnTrainError) as error:
        print(f"mnexport: {error}", file=sys.stderr)
        return error.exit_code
    except Terminated as ended:
        print("mnexport: terminated.", file=sys.stderr)
        return ended.exit_code
    except KeyboardInterrupt:
        print("mnexport: interrupted.", file=sys.stderr)
        return 130


def _export(arguments: argparse.Namespace) -> int:
    from mnexport.commands.report_text import print_report
    from mnexport.pipeline import export
    from mnexport.signals import terminable

    options = options_of(arguments)
    console = Console(stderr=True)
    with terminable():
        if arguments.json:
            report = export(options)
        elif console.is_terminal:
            with console.status("exporting") as status:
                report = export(options, status.update)
        else:
            report = export(options, lambda message: console.print(message, highlight=False, soft_wrap=True))
    if arguments.json:
        print(json.dumps(report.to_dict()))
    else:
        print_report(report)
    return 0
