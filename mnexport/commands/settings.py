"""Options of the command line of mnexport.

Nothing here needs PyTorch, which takes seconds to import: help and wrong usage do not wait for it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from mnexport.errors import UsageError
from mntrain.commands.options import ArtifactPath, Count, DataPath, Option

if TYPE_CHECKING:
    from mnexport.options import ExportOptions
    from mnexport.tensorrt import TensorRTOptions


@dataclass(frozen=True, kw_only=True)
class ExportCommand:
    """Options of ``mnexport``.

    Args:
        artifact: artifact folder (runs/NAME/artifact)
        target: model repository and name of the model
        form: static form; auto takes the cheapest within the tolerance
        tolerance: largest error of a probability that an approximated form may have; exact forms have none
        rank: directions that an approximated form takes (the fewest within the tolerance)
        calibration: images that an approximation is fitted to and judged by: those in the artifact, or the training
            and validation splits
        vanilla: the same backbone and head without the dictionary
        few_shot: a classifier of new classes: each request brings support images with labels, and images to classify
        dtype: of the backbone; what adapts stays float32
        max_accuracy_drop: largest loss of accuracy that a lower --dtype may have, on the examples of --parity; 0.01 is
            one point
        format: an engine to build beside the ONNX file: tensorrt for the GPU of this machine, tensorrt-rtx for GPUs
            that need not be here, onnx for none
        batch_profile: batch sizes of the engine (1,8,--max-batch-size)
        compute_capability: what tensorrt-rtx builds for, separated by commas (8.6,8.9,12.0)
        explain: further outputs, computed for those alone who ask: the K neighbors with the largest share in an answer,
            and the answer without adaptation; 0 for none
        input_type: uint8 takes pixels 0..255, float32 pixels 0..1
        version: version (the next free one)
        overwrite: replace the version that --version names, if it exists
        max_batch_size: rows in a server batch (64); with --few-shot support images and images to classify of one
            request together (1024)
        opset: ONNX operator set
        atol: absolute tolerance on logits and probabilities
        rtol: relative tolerance on logits, of the largest of a row (1e-5)
        parity: check on the held-out images in the artifact, or on the whole test split
        data_path: where the data lies now, for --parity test and --calibration train
        backbone: where the frozen network of a head on features lies now (where it lay)
        json: print the result as JSON, and no progress

    Raises:
        UsageError: an option of an engine without an engine that has it.
    """

    artifact: ArtifactPath
    target: Annotated[Path, Option(metavar="REPOSITORY/NAME")]
    form: Literal["auto", "explicit", "factored", "low_rank"] = "auto"
    tolerance: Annotated[float, Option(metavar="P")] = 1e-3
    rank: Annotated[int, Option(metavar="R")] | None = None
    calibration: Literal["samples", "train"] = "samples"
    vanilla: bool = False
    few_shot: bool = False
    dtype: Literal["float32", "float16", "bfloat16", "int8"] = "float32"
    max_accuracy_drop: Annotated[float, Option(metavar="SHARE")] = 0.01
    format: Literal["onnx", "tensorrt", "tensorrt-rtx"] = "onnx"
    batch_profile: Annotated[str, Option(metavar="MIN,OPT,MAX", between_commas=True)] | None = None
    compute_capability: Annotated[str, Option(metavar="CC", between_commas=True)] | None = None
    explain: Annotated[int, Option(metavar="K")] = 0
    input_type: Literal["uint8", "float32"] = "uint8"
    version: Count | None = None
    overwrite: bool = False
    max_batch_size: Count | None = None
    opset: Literal[18, 19, 20] = 20
    atol: float = 1e-4
    rtol: float | None = None
    parity: Literal["samples", "test"] = "samples"
    data_path: DataPath | None = None
    backbone: Annotated[Path, Option(metavar="PATH")] | None = None
    json: bool = False

    def __post_init__(self) -> None:
        engine_words = {"--batch-profile": self.batch_profile, "--compute-capability": self.compute_capability}
        given = [option for option, word in engine_words.items() if word is not None]
        if self.format == "onnx" and given:
            raise UsageError(f"{given[0]} is of an engine; add --format tensorrt or tensorrt-rtx, or leave it out.")
        if self.format == "tensorrt" and self.compute_capability is not None:
            raise UsageError("--compute-capability is of tensorrt-rtx; tensorrt builds for the GPU of this machine.")

    def export_options(self) -> "ExportOptions":
        """Make the options of the export.

        Raises:
            UsageError: a value or a combination of values that cannot be.
        """
        from mnexport.graph import GraphOptions
        from mnexport.options import ExportOptions
        from mnexport.parity.tolerance import Tolerance
        from mnexport.precision.accuracy import Precision
        from mnexport.repository.target import Target

        return ExportOptions(
            artifact=self.artifact,
            target=Target(
                repository=self.target.parent, name=self.target.name, version=self.version, overwrite=self.overwrite
            ),
            form=self.form,
            approximation_tolerance=self.tolerance,
            rank=self.rank,
            calibration=self.calibration,
            explain=self.explain,
            vanilla=self.vanilla,
            few_shot=self.few_shot,
            graph=GraphOptions(input_type=self.input_type, opset=self.opset),
            precision=Precision(dtype=self.dtype, max_accuracy_drop=self.max_accuracy_drop),
            engine=self._engine_options(),
            parity_tolerance=Tolerance(atol=self.atol, rtol=self.rtol),
            parity_images=self.parity,
            data_path=self.data_path,
            backbone=self.backbone,
            max_batch_size=self.max_batch_size,
        )

    def _engine_options(self) -> "TensorRTOptions | None":
        """Make the options of the engine; None without one.

        Raises:
            UsageError: a list that cannot be read, or values that cannot be.
        """
        from mnexport.options import USUAL_ROWS
        from mnexport.tensorrt import USUAL_CAPABILITIES, BatchProfile, TensorRTOptions

        if self.format == "onnx":
            return None
        capabilities: tuple[str, ...] = USUAL_CAPABILITIES
        if self.compute_capability is not None:
            capabilities = tuple(item.strip() for item in self.compute_capability.split(","))
        rows = USUAL_ROWS if self.max_batch_size is None else self.max_batch_size
        sizes = self.batch_profile or f"1,{min(8, rows)},{rows}"
        try:
            minimum, optimum, maximum = (int(size) for size in sizes.split(","))
        except ValueError as error:
            raise UsageError(f"--batch-profile is {sizes!r}; give three whole numbers, such as 1,8,64.") from error
        profile = BatchProfile(minimum=minimum, optimum=optimum, maximum=maximum)
        return TensorRTOptions(format=self.format, profile=profile, capabilities=capabilities)
