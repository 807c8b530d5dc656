"""Report of a finished export."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mnexport.cpu_file.report import CpuFileReport
from mnexport.forms.similarity_report import SimilarityReport
from mnexport.graft.report import GraftReport
from mnexport.graph import GraphReport
from mnexport.parity.report import ParityReport
from mnexport.precision.accuracy import AccuracyReport
from mnexport.repository.neighbors import NeighborsReport
from mnexport.tensorrt import EngineReport


@dataclass(frozen=True, kw_only=True)
class ExportReport:
    """Published version of a model.

    Args:
        path: of the ONNX file.
        form: static form that was chosen.
        family: model family.
        adaptation: reason for the form; rank, errors and costs of an approximation.
        graph: size of the graph.
        parity: differences from the trained model.
        accuracy: cost of a lower precision, or None.
        cpu: report on the file for CPUs; None where the form has none.
        engine: the TensorRT engine that was built beside it, or None.
        neighbors: the training images that the artifact carries, or None.
        similarity: layers with neural similarity, or None.
        graft: the frozen network in front of a head, or None.
    """

    path: Path
    form: str
    family: str
    adaptation: dict[str, Any]
    graph: GraphReport
    parity: ParityReport
    accuracy: AccuracyReport | None = None
    cpu: CpuFileReport | None = None
    engine: EngineReport | None = None
    neighbors: NeighborsReport | None = None
    similarity: SimilarityReport | None = None
    graft: GraftReport | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``--json`` and ``export.json``."""
        return {
            "path": str(self.path),
            "family": self.family,
            "form": self.form,
            "adaptation": self.adaptation,
            "graph": asdict(self.graph),
            "parity": self.parity.to_dict(),
            "accuracy": None if self.accuracy is None else self.accuracy.to_dict(),
            "cpu": None if self.cpu is None else self.cpu.to_dict(),
            "engine": None if self.engine is None else self.engine.to_dict(),
            "neighbors": None if self.neighbors is None else self.neighbors.to_dict(),
            **({} if self.similarity is None else {"similarity": self.similarity.to_dict()}),
            **({} if self.graft is None else {"graft": self.graft.to_dict()}),
        }
