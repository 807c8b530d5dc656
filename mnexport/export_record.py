"""Record of a published version, ``export.json``."""

from importlib.metadata import version
from typing import Any

from mnexport.export_source import ExportSource
from mnexport.report import ExportReport
from mnexport.repository.model_card import ModelCard
from mntrain.artifact import current_versions

SCHEMA = 2


def export_record(source: ExportSource, card: ModelCard, report: ExportReport, dtype: str) -> dict[str, Any]:
    """Make the content of ``export.json`` without version and digests.

    Args:
        source: what was exported.
        card: its description.
        report: of the export.
        dtype: of the backbone.
    """
    results = report.to_dict()
    del results["path"]
    return {
        "schema": SCHEMA,
        "name": source.name,
        "input_type": card.signature.input_type,
        **card.to_dict(),
        "dtype": dtype,
        **results,
        "artifact": source.provenance,
        **({} if source.graft is None else {"network": source.graft.network.record.to_dict()}),
        "versions": current_versions() | {name: version(name) for name in ("onnx", "onnxscript", "onnxruntime")},
    }
