"""TensorRT engines, built from an ONNX file ahead of time for a range of batch sizes.

Two builders have one interface. TensorRT for RTX (``tensorrt_rtx``) builds on any machine, for given compute
capabilities; standard TensorRT (``tensorrt``) builds for the GPU of the machine. Both get a strongly typed network,
whose precision is that of the ONNX graph.
"""

import importlib
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from mnexport.errors import TensorRTError, UsageError
from mnexport.signature import ExportSignature

EngineFormat = Literal["tensorrt", "tensorrt-rtx"]
ENGINE_FORMATS: tuple[EngineFormat, ...] = ("tensorrt", "tensorrt-rtx")
ENGINE_NAMES: dict[EngineFormat, str] = {"tensorrt": "model.plan", "tensorrt-rtx": "model.rtx"}
_MODULES: dict[EngineFormat, str] = {"tensorrt": "tensorrt", "tensorrt-rtx": "tensorrt_rtx"}
CAPABILITIES = ("7.5", "8.0", "8.6", "8.9", "12.0", "12.1")
# Ampere, Ada and Blackwell.
USUAL_CAPABILITIES = ("8.6", "8.9", "12.0")


@dataclass(frozen=True, kw_only=True)
class BatchProfile:
    """Batch sizes that an engine is built for.

    Args:
        minimum: smallest batch it takes.
        optimum: batch it is tuned for.
        maximum: largest batch it takes.

    Raises:
        UsageError: the sizes are not in this order, or the smallest is below 1.
    """

    minimum: int = 1
    optimum: int = 8
    maximum: int = 64

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.optimum <= self.maximum:
            raise UsageError(
                f"--batch-profile is {self.minimum},{self.optimum},{self.maximum}; it must be smallest, usual and "
                "largest batch, in this order and from 1 (such as 1,8,64)."
            )


@dataclass(frozen=True, kw_only=True)
class TensorRTOptions:
    """Format, batch sizes and GPUs of an engine.

    Args:
        format: tensorrt or tensorrt-rtx.
        profile: batch sizes.
        capabilities: compute capabilities that tensorrt-rtx builds for; tensorrt takes the GPU's.

    Raises:
        UsageError: a compute capability that tensorrt-rtx does not build for, or one twice.
    """

    format: EngineFormat
    profile: BatchProfile = BatchProfile()
    capabilities: tuple[str, ...] = USUAL_CAPABILITIES

    def __post_init__(self) -> None:
        unknown = [item for item in self.capabilities if item not in CAPABILITIES]
        if unknown or not self.capabilities:
            raise UsageError(
                f"--compute-capability is {','.join(self.capabilities)!r}; choose from {', '.join(CAPABILITIES)}."
            )
        if len(set(self.capabilities)) < len(self.capabilities):
            raise UsageError(f"--compute-capability is {','.join(self.capabilities)!r}; name each of them once.")


@dataclass(frozen=True, kw_only=True)
class EngineReport:
    """Engine that was built.

    Args:
        format: tensorrt or tensorrt-rtx.
        version: of the builder.
        profile: batch sizes.
        capabilities: compute capabilities; empty for the GPU of the machine that built it.
        size: bytes.
        seconds: that building took.
        warnings: of parser and builder, each once.
    """

    format: EngineFormat
    version: str
    profile: BatchProfile
    capabilities: tuple[str, ...]
    size: int
    seconds: float
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``export.json``."""
        return asdict(self)


def build_engine(file: Path, signature: ExportSignature, options: TensorRTOptions, target: Path) -> EngineReport:
    """Build an engine from an ONNX file and write it.

    Args:
        file: the ONNX file.
        signature: its inputs.
        options: format, batch sizes and GPUs.
        target: file to write.

    Raises:
        TensorRTError: the builder is not installed, finds no GPU where it needs one, or cannot take the graph.
    """
    trt = _builder(options.format)
    start = time.perf_counter()
    log = _log(trt)
    builder = _create_builder(trt, log, options.format)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, log)
    if not parser.parse(file.read_bytes()):
        reasons = "; ".join(parser.get_error(index).desc() for index in range(parser.num_errors))
        raise TensorRTError(f"{options.format} cannot read the exported graph: {reasons or 'no reason was given'}.")
    config = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    for tensor in signature.inputs:
        shapes = [(batch, *tensor.shape) for batch in asdict(options.profile).values()]
        profile.set_shape(tensor.name, *shapes)
    config.add_optimization_profile(profile)
    capabilities = options.capabilities if options.format == "tensorrt-rtx" else ()
    if capabilities:
        config.num_compute_capabilities = len(capabilities)
        for index, capability in enumerate(capabilities):
            name = f"SM{capability.replace('.', '')}"
            config.set_compute_capability(getattr(trt.ComputeCapability, name), index)
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        raise TensorRTError(f"{options.format} built no engine: {'; '.join(log.errors) or 'no reason was given'}.")
    target.write_bytes(engine)
    return EngineReport(
        format=options.format,
        version=trt.__version__,
        profile=options.profile,
        capabilities=capabilities,
        size=target.stat().st_size,
        seconds=time.perf_counter() - start,
        warnings=tuple(log.warnings),
    )


def check_inputs(signature: ExportSignature, format: EngineFormat) -> None:
    """Refuse a model that takes strings.

    Raises:
        UsageError: TensorRT has no strings.
    """
    strings = [tensor.name for tensor in signature.inputs if tensor.datatype == "BYTES"]
    if strings:
        raise UsageError(
            f"--format {format} builds an engine, and engines of TensorRT take no strings, which this model's input "
            f"{strings[0]!r} has (categories); export --format onnx, or train "
            "without these columns (data.exclude_columns)."
        )


def check_installed(format: EngineFormat) -> None:
    """Refuse a format whose builder is not installed.

    Raises:
        TensorRTError: the builder cannot be imported.
    """
    _builder(format)


def _builder(format: EngineFormat) -> Any:
    try:
        return importlib.import_module(_MODULES[format])
    except (ImportError, OSError) as error:
        raise TensorRTError(
            f"--format {format} needs a builder that is not installed ({error}); install it, in a clone of "
            f"mn-runtime, with pip install '.[{format}]', or export --format onnx."
        ) from error


def _create_builder(trt: Any, log: Any, format: EngineFormat) -> Any:
    try:
        builder = trt.Builder(log)
    except (RuntimeError, TypeError) as error:  # no builder without a GPU: pybind11 calls the null pointer a TypeError
        builder, reason = None, str(error)
    else:
        reason = ""
    if builder is None:
        reasons = "; ".join([*log.errors, *([reason] if reason else [])])
        raise TensorRTError(
            f"{format} cannot start its builder here ({reasons}); standard TensorRT builds on a machine with the GPU "
            "that the engine is for, --format tensorrt-rtx on any machine."
        )
    return builder


def _log(trt: Any) -> Any:
    """Make a logger that keeps messages instead of printing them."""

    class Log(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.warnings: dict[str, None] = {}
            self.errors: dict[str, None] = {}

        def log(self, severity: Any, message: str) -> None:
            if severity == trt.ILogger.WARNING:
                self.warnings[message] = None
            elif severity in (trt.ILogger.ERROR, trt.ILogger.INTERNAL_ERROR):
                self.errors[message] = None

    return Log()
