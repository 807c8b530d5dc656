"""The words of the command line of mnexport, and what they ask for."""

import argparse
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mnexport.options import ExportOptions
    from mnexport.tensorrt import TensorRTOptions

FORMS = ("auto", "explicit", "factored", "low_rank")
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


def parser() -> argparse.ArgumentParser:
    """All options; PyTorch takes seconds to import, so nothing here needs it."""
    words = argparse.ArgumentParser(
        prog="mnexport",
        description="Turn a trained adaptive model into a static ONNX graph, prove that it answers as the trained "
        "model does, and publish it in a model repository.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    words.add_argument("artifact", type=Path, metavar="ARTIFACT", help="artifact folder (runs/NAME/artifact)")
    words.add_argument("target", type=Path, metavar="REPOSITORY/NAME", help="model repository and name of the model")
    words.add_argument(
        "--form", default="auto", choices=FORMS, help="static form (auto: the cheapest within the tolerance)"
    )
    words.add_argument(
        "--tolerance",
        type=float,
        default=1e-3,
        metavar="P",
        help="largest error of a probability that an approximated form may have (1e-3); exact forms have none",
    )
    words.add_argument(
        "--rank",
        type=int,
        metavar="R",
        help="directions that an approximated form takes (the fewest within the tolerance)",
    )
    words.add_argument(
        "--calibration",
        default="samples",
        choices=("samples", "train"),
        help="images that an approximation is fitted to and judged by: those in the artifact, or the training and "
        "validation splits (samples)",
    )
    words.add_argument("--vanilla", action="store_true", help="the same backbone and head without the dictionary")
    words.add_argument(
        "--dtype",
        default="float32",
        choices=("float32", "float16", "bfloat16", "int8"),
        help="of the backbone; what adapts stays float32 (float32)",
    )
    words.add_argument(
        "--max-accuracy-drop",
        type=float,
        default=0.01,
        metavar="SHARE",
        help="largest loss of accuracy that a lower --dtype may have, on the examples of --parity (0.01: one point)",
    )
    words.add_argument(
        "--format",
        default="onnx",
        choices=("onnx", "tensorrt", "tensorrt-rtx"),
        help="an engine to build beside the ONNX file: tensorrt for the GPU of this machine, tensorrt-rtx for GPUs "
        "that need not be here (onnx: none)",
    )
    words.add_argument(
        "--batch-profile",
        metavar="MIN,OPT,MAX",
        help="batch sizes of the engine (1,8,--max-batch-size)",
    )
    words.add_argument(
        "--compute-capability",
        metavar="CC",
        help="what tensorrt-rtx builds for, separated by commas (8.6,8.9,12.0)",
    )
    words.add_argument(
        "--explain",
        type=int,
        default=0,
        metavar="K",
        help="further outputs, computed for those alone who ask: the K neighbors with the largest share in an answer, "
        "and the answer without adaptation (0: none)",
    )
    words.add_argument(
        "--input-type",
        default="uint8",
        choices=("uint8", "float32"),
        help="uint8 takes pixels 0..255, float32 pixels 0..1 (uint8)",
    )
    words.add_argument("--version", type=int, metavar="N", dest="number", help="version (the next free one)")
    words.add_argument(
        "--overwrite", action="store_true", help="replace the version that --version names, if it exists"
    )
    words.add_argument("--max-batch-size", type=int, default=64, metavar="N", help="rows in a server batch (64)")
    words.add_argument("--opset", type=int, default=20, choices=(18, 19, 20), help="ONNX operator set (20)")
    words.add_argument("--atol", type=float, default=1e-4, help="absolute tolerance on logits (1e-4)")
    words.add_argument("--rtol", type=float, default=0.0, help="relative tolerance on logits (0)")
    words.add_argument(
        "--parity",
        default="samples",
        choices=("samples", "test"),
        help="check on the held-out images in the artifact, or on the whole test split (samples)",
    )
    words.add_argument(
        "--data-path", metavar="PATH", help="where the data lies now, for --parity test and --calibration train"
    )
    words.add_argument("--json", action="store_true", help="print the result as JSON, and no progress")
    words.add_argument(
        "--about", action="version", version=f"mn-runtime {version('mn-runtime')}", help="print the version"
    )
    return words


def options_of(arguments: argparse.Namespace) -> "ExportOptions":
    """What the words ask for.

    Raises:
        UsageError: a value that cannot be.
    """
    from mnexport.graph import GraphOptions
    from mnexport.options import ExportOptions
    from mnexport.parity.tolerance import Tolerance
    from mnexport.precision.accuracy import Precision
    from mnexport.repository.target import Target

    return ExportOptions(
        artifact=arguments.artifact,
        target=Target(
            repository=arguments.target.parent,
            name=arguments.target.name,
            version=arguments.number,
            overwrite=arguments.overwrite,
        ),
        form=arguments.form,
        approximation_tolerance=arguments.tolerance,
        rank=arguments.rank,
        calibration=arguments.calibration,
        explain=arguments.explain,
        vanilla=arguments.vanilla,
        graph=GraphOptions(input_type=arguments.input_type, opset=arguments.opset),
        precision=Precision(dtype=arguments.dtype, max_accuracy_drop=arguments.max_accuracy_drop),
        engine=_engine(arguments),
        parity_tolerance=Tolerance(atol=arguments.atol, rtol=arguments.rtol),
        parity_images=arguments.parity,
        data_path=arguments.data_path,
        max_batch_size=arguments.max_batch_size,
    )


def _engine(arguments: argparse.Namespace) -> "TensorRTOptions | None":
    """The engine that is asked for.

    Raises:
        UsageError: an option of an engine without one, or one that cannot be read.
    """
    from mnexport.errors import UsageError
    from mnexport.tensorrt import USUAL_CAPABILITIES, BatchProfile, TensorRTOptions

    if arguments.format == "onnx":
        for name in ("batch_profile", "compute_capability"):
            if getattr(arguments, name) is not None:
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"{option} is of an engine; add --format tensorrt or tensorrt-rtx, or leave it out.")
        return None
    largest = arguments.max_batch_size
    sizes = arguments.batch_profile or f"1,{min(8, largest)},{largest}"
    try:
        minimum, optimum, maximum = (int(size) for size in sizes.split(","))
    except ValueError as error:
        raise UsageError(f"--batch-profile is {sizes!r}; give three whole numbers, such as 1,8,64.") from error
    given = arguments.compute_capability
    if given is not None and arguments.format == "tensorrt":
        raise UsageError("--compute-capability is of tensorrt-rtx; tensorrt builds for the GPU of this machine.")
    capabilities = USUAL_CAPABILITIES if given is None else tuple(item.strip() for item in given.split(","))
    profile = BatchProfile(minimum=minimum, optimum=optimum, maximum=maximum)
    return TensorRTOptions(format=arguments.format, profile=profile, capabilities=capabilities)
