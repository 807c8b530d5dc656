"""The command line of mnexport.

Exit codes: 0 done, 1 the work failed, 2 wrong usage.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from rich.console import Console

from mnexport.arguments import options_of, parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    arguments = parser().parse_args(argv)
    # PyTorch takes seconds to import: help and usage errors do not wait for it.
    from mnexport.errors import MnExportError
    from mntrain.errors import MnTrainError
    from mntrain.output import run_command

    try:
        return run_command(lambda: _export(arguments))
    except (MnExportError, MnTrainError) as error:
        print(f"mnexport: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("mnexport: interrupted.", file=sys.stderr)
        return 130


def _export(arguments: argparse.Namespace) -> int:
    from mnexport.pipeline import export
    from mnexport.report_text import print_report

    options = options_of(arguments)
    if arguments.json:
        print(json.dumps(export(options).to_dict()))
        return 0
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status("exporting") as status:
            report = export(options, status.update)
    else:
        report = export(options, lambda message: console.print(message, highlight=False, soft_wrap=True))
    print_report(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
