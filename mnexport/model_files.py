"""Stage that writes a static form in float32 as ONNX files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from mnexport.export_source import ExportSource
from mnexport.forms.plan import StaticModel
from mnexport.graph import GraphReport, write_core, write_onnx
from mnexport.progress import OnProgress
from mnexport.repository.layout import CORE_NAME
from mnexport.signature import ExportSignature


@dataclass(frozen=True, kw_only=True)
class ModelFile:
    """An ONNX file of a version.

    Args:
        path: of the file.
        signature: its input and outputs.
        approximates: it computes something else than the static form that it is made from, such as products with
            rounded keys, and is held to the trained model by itself.
    """

    path: Path
    signature: ExportSignature
    approximates: bool = False


def write_files(source: ExportSource, static: StaticModel, file: Path, on_progress: OnProgress) -> GraphReport:
    """Trace a static form and write ``model.onnx``, with ``core.onnx`` beside it where outputs are on request.

    Args:
        source: what is exported.
        static: its static form.
        file: ``model.onnx``.
        on_progress: gets a line before the form is traced.

    Raises:
        GraphError: the form does not become a valid ONNX file.
    """
    on_progress(f"tracing the {static.form} form")
    report = write_model(source, static.module, source.signature, source.metadata(static.form), file)
    write_core_file(file, source.signature)
    return report


def write_model(
    source: ExportSource,
    module: nn.Module,
    signature: ExportSignature,
    metadata: dict[str, str],
    file: Path,
    translations: dict[Any, Any] | None = None,
) -> GraphReport:
    """Write one ONNX file in float32, behind the frozen network where there is one.

    Args:
        source: what is exported.
        module: static form of the model.
        signature: of the whole file.
        metadata: written into the file.
        file: to write.
        translations: of custom operators, for the exporter.

    Raises:
        GraphError: the form does not become a valid ONNX file.
    """
    if source.graft is not None:
        return source.graft.write(module, signature, metadata, file, translations)
    return write_onnx(module, signature, source.opset, metadata, file, translations)


def write_core_file(file: Path, signature: ExportSignature) -> None:
    """Cut ``core.onnx`` out of ``model.onnx``; nothing is written where no output is on request."""
    if signature.explains:
        write_core(file, signature, file.with_name(CORE_NAME))


def model_files(file: Path, signature: ExportSignature) -> tuple[ModelFile, ...]:
    """List the files that :func:`write_files` has written."""
    whole = ModelFile(path=file, signature=signature)
    if not signature.explains:
        return (whole,)
    return whole, ModelFile(path=file.with_name(CORE_NAME), signature=signature.without_explanation())
