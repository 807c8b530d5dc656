"""The command line of mnexport.

Exit codes: 0 done, 1 the work failed, 2 wrong usage.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

if TYPE_CHECKING:
    from mnexport.pipeline import ExportReport

FORMS = ("auto", "explicit", "factored", "low_rank")
_EPILOG = """\
examples:

  mnexport runs/digits-meta-neighborhoods/artifact repository/digits-mn
  mnexport runs/digits-meta-neighborhoods/artifact repository/digits-plain --vanilla
  mnexport runs/fashion-mnist-meta-neighborhoods/artifact repository/fashion-mn --form explicit --parity test
  mnexport runs/digits-meta-neighborhoods/artifact repository/digits-mn --tolerance 1e-4 --explain 5
  mnexport runs/digits-meta-neighborhoods/artifact repository/digits-mn --input-type float32 --json

The result is a model repository in Triton's layout: serve it with `mnserve serve repository`.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    arguments = _parser().parse_args(argv)
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mnexport",
        description="Turn a trained adaptive model into a static ONNX graph, prove that it answers as the trained "
        "model does, and publish it in a model repository.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("artifact", type=Path, metavar="ARTIFACT", help="artifact folder (runs/NAME/artifact)")
    parser.add_argument("target", type=Path, metavar="REPOSITORY/NAME", help="model repository and name of the model")
    parser.add_argument(
        "--form", default="auto", choices=FORMS, help="static form (auto: the cheapest within the tolerance)"
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=1e-3,
        metavar="P",
        help="largest error of a probability that an approximated form may have (1e-3); exact forms have none",
    )
    parser.add_argument(
        "--calibration",
        default="samples",
        choices=("samples", "train"),
        help="images that an approximation is fitted to and judged by: those in the artifact, or the training and "
        "validation splits (samples)",
    )
    parser.add_argument("--vanilla", action="store_true", help="the same backbone and head without the dictionary")
    parser.add_argument(
        "--explain",
        type=int,
        default=0,
        metavar="K",
        help="further outputs, computed for those alone who ask: the K neighbours with the largest share in an answer, "
        "and the answer without adaptation (0: none)",
    )
    parser.add_argument(
        "--input-type",
        default="uint8",
        choices=("uint8", "float32"),
        help="uint8 takes pixels 0..255, float32 pixels 0..1 (uint8)",
    )
    parser.add_argument("--version", type=int, metavar="N", dest="number", help="version (the next free one)")
    parser.add_argument("--overwrite", action="store_true", help="replace the version if it exists")
    parser.add_argument("--max-batch-size", type=int, default=64, metavar="N", help="rows in a server batch (64)")
    parser.add_argument("--opset", type=int, default=20, choices=(18, 19, 20), help="ONNX operator set (20)")
    parser.add_argument("--atol", type=float, default=1e-4, help="absolute tolerance on logits (1e-4)")
    parser.add_argument("--rtol", type=float, default=0.0, help="relative tolerance on logits (0)")
    parser.add_argument(
        "--parity",
        default="samples",
        choices=("samples", "test"),
        help="check on the held-out images in the artifact, or on the whole test split (samples)",
    )
    parser.add_argument(
        "--data-path", metavar="PATH", help="where the data lies now, for --parity test and --calibration train"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON, and no progress")
    parser.add_argument(
        "--about", action="version", version=f"mn-runtime {version('mn-runtime')}", help="print the version"
    )
    return parser


def _export(arguments: argparse.Namespace) -> int:
    from mnexport.graph import GraphOptions
    from mnexport.options import ExportOptions
    from mnexport.pipeline import export
    from mnexport.repository import Target
    from mnexport.tolerance import Tolerance

    options = ExportOptions(
        artifact=arguments.artifact,
        target=Target(
            repository=arguments.target.parent,
            name=arguments.target.name,
            version=arguments.number,
            overwrite=arguments.overwrite,
        ),
        form=arguments.form,
        approximation=arguments.tolerance,
        calibration=arguments.calibration,
        explain=arguments.explain,
        vanilla=arguments.vanilla,
        graph=GraphOptions(input_type=arguments.input_type, opset=arguments.opset),
        tolerance=Tolerance(atol=arguments.atol, rtol=arguments.rtol),
        parity_images=arguments.parity,
        data_path=arguments.data_path,
        max_batch_size=arguments.max_batch_size,
    )
    if arguments.json:
        print(json.dumps(export(options).to_dict()))
        return 0
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status("exporting") as status:
            report = export(options, status.update)
    else:
        report = export(options, lambda message: console.print(message, highlight=False, soft_wrap=True))
    _print(report)
    return 0


def _print(report: "ExportReport") -> None:
    from mntrain.result_table import ResultTable

    comparisons = report.parity.comparisons
    answers = [name for name in ("logits", "probabilities", "value") if name in comparisons[0].max_error]
    explained = ["explanation"] if any(len(item.max_error) > len(answers) for item in comparisons) else []
    rows = []
    for item in comparisons:
        others = [error for name, error in item.max_error.items() if name not in answers]
        rows.append(
            [
                f"{item.what} – {item.reference}",
                str(item.batch),
                str(item.examples),
                *(f"{item.max_error[name]:.2e}" for name in answers),
                *(f"{max(others):.2e}" if others else "" for _ in explained),
                str(item.argmax_differences),
            ]
        )
    errors = [f"max |Δ {name}|" for name in (*answers, *explained)]
    allowed = dict.fromkeys(f"{item.what} within {item.tolerance}" for item in comparisons)
    table = ResultTable(
        headings=("compared", "batch", "examples", *errors, "other class"),
        rows=rows,
        caption=f"Allowed: {'; '.join(allowed)}.",
    )
    size = (
        f"{report.family}, form {report.form}: {report.graph.nodes} operators, {report.graph.size / 1e6:.2f} MB, "
        f"opset {report.graph.opset}"
    )
    notes = (size, _why(report.adaptation), f"published {report.path}")
    table.show(Console(), title=f"parity ({report.parity.source})", notes=notes)


def _why(adaptation: dict[str, Any]) -> str:
    """Why the form was chosen, and how far it is from the trained model."""
    if "rank" not in adaptation:
        return str(adaptation.get("reason", "no adaptation"))
    costs, calibration = adaptation["costs"], adaptation["calibration"]
    saved = costs["exact"]["multiplications"] / costs["low_rank"]["multiplications"]
    return (
        f"rank {adaptation['rank']} of the {adaptation['kind']}: {saved:.1f} times fewer multiplications in the head; "
        f"largest error {calibration['held_out_error']:.1e} on {calibration['held_out']} held-out examples, "
        f"{calibration['fitted_error']:.1e} on {calibration['fitted']} that it was fitted to; allowed "
        f"{adaptation['tolerance']:g}"
    )


if __name__ == "__main__":
    sys.exit(main())
