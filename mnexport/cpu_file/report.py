"""Report on ``cpu.onnx``."""

from dataclasses import asdict, dataclass
from typing import Any

from mnexport.blocked.assemble import BlockedReport
from mnexport.precision.accuracy import AccuracyReport
from mnexport.repository.layout import CPU_NAME


@dataclass(frozen=True, kw_only=True)
class CpuFileReport:
    """State of the file for CPUs, of a model that may have one.

    Args:
        accuracy: what its backbone in int8 costs; None where that is float32, or the file left out.
        blocked: iFiLM in the layout of this machine's processor; None where there is none, or the file left out.
        unblocked: why iFiLM, or some of it, is in the ordinary layout; None where it is not, or there is none.
        left_out: why there is no such file; None where there is.
        scattered: layers whose predicted similarities are added up where they belong.
    """

    accuracy: AccuracyReport | None = None
    blocked: BlockedReport | None = None
    unblocked: str | None = None
    left_out: str | None = None
    scattered: int = 0

    @classmethod
    def of_blocked(cls, blocked: BlockedReport, layers: int) -> "CpuFileReport":
        """Report a file in the blocked layout, of a model with so many layers of iFiLM."""
        kept = f"{CPU_NAME} keeps {blocked.maps} of {layers} affine maps in the blocked layout"
        unblocked = f"{kept}; the others are not recognised" if blocked.maps < layers else None
        return cls(blocked=blocked, unblocked=unblocked)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``export.json``."""
        return asdict(self)

    def describe(self) -> str | None:
        """Return one line for the command line; None where all that is to say stands elsewhere."""
        if self.left_out is not None:
            return f"no {CPU_NAME}: {self.left_out}"
        lines = [self._similarity(), self._layout()]
        return "; ".join(line for line in lines if line is not None) or None

    def _similarity(self) -> str | None:
        if not self.scattered:
            return None
        layers = "1 layer" if self.scattered == 1 else f"{self.scattered} layers"
        return f"{CPU_NAME} adds up the predicted similarities of {layers} where they belong"

    def _layout(self) -> str | None:
        """Describe the layout of iFiLM, or what the file costs in accuracy."""
        if self.blocked is not None and self.unblocked is not None:
            return self.unblocked
        if self.unblocked is not None:
            return f"iFiLM is in the ordinary layout, which CPUs are slower in: {self.unblocked}"
        if self.blocked is not None:
            layers, block = self.blocked.maps, self.blocked.block
            return f"{CPU_NAME}: iFiLM of {layers} layers stays in the convolutions' blocks of {block} channels"
        return None if self.accuracy is None else f"{CPU_NAME}, {self.accuracy.describe()}"
