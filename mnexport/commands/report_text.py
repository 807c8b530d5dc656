"""Report of an export on the terminal."""

from typing import Any

from rich.console import Console

from mnexport.report import ExportReport
from mntrain.result_table import ResultTable


def print_report(report: ExportReport) -> None:
    """Print errors of the parity check, size, the reason for the form, and the place of publication."""
    comparisons = report.parity.comparisons
    outputs = [name for name in ("logits", "probabilities", "value") if name in comparisons[0].max_error]
    explained = ["explanation"] if any(len(item.max_error) > len(outputs) for item in comparisons) else []
    rows = []
    for item in comparisons:
        explanation_errors = [error for name, error in item.max_error.items() if name not in outputs]
        rows.append(
            [
                f"{item.what} – {item.reference}",
                str(item.batch),
                str(item.examples),
                *(f"{item.max_error[name]:.2e}" for name in outputs),
                *(f"{max(explanation_errors):.2e}" if explanation_errors else "" for _ in explained),
                str(item.argmax_differences),
            ]
        )
    errors = [f"max |Δ {name}|" for name in (*outputs, *explained)]
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
    notes = [size, _reason(report.adaptation)]
    notes += [part.describe() for part in (report.graft, report.similarity) if part is not None]
    if report.accuracy is not None:
        notes.append(report.accuracy.describe())
        if report.accuracy.engine == "PyTorch":
            notes.append("ONNX Runtime computes bfloat16 convolutions on GPUs only; serve this file there")
    if report.cpu is not None and (cpu_note := report.cpu.describe()) is not None:
        notes.append(cpu_note)
    if report.engine is not None:
        batches = f"batches of {report.engine.profile.minimum} to {report.engine.profile.maximum}"
        capabilities = ", ".join(report.engine.capabilities) or "this machine"
        notes.append(
            f"{report.engine.format} {report.engine.version}: {report.engine.size / 1e6:.1f} MB for {capabilities}, "
            f"{batches}, built in {report.engine.seconds:.1f} s"
        )
        notes += [f"{report.engine.format} warns: {warning}" for warning in report.engine.warnings]
    if report.neighbors is not None:
        notes.append(report.neighbors.describe())
    notes.append(f"published {report.path}")
    table.show(Console(), title=f"parity ({report.parity.source})", notes=notes)


def _reason(adaptation: dict[str, Any]) -> str:
    """Describe the reason for the form, and the errors of an approximation."""
    if "rank" not in adaptation:
        return str(adaptation.get("reason", "the classifier does not adapt"))
    costs, calibration = adaptation["costs"], adaptation["calibration"]
    integer = adaptation.get("integer_keys")
    on_cpus = ""
    if integer is not None:
        rounded = "keys and tables" if integer["tables"] else "keys"
        on_cpus = f"; with {rounded} in 8 bits {integer['held_out_error']:.1e} at rank {integer['rank']}"
    saved = costs["exact"]["multiplications"] / costs["low_rank"]["multiplications"]
    return (
        f"rank {adaptation['rank']} of the {adaptation['kind']}: {saved:.1f} times fewer multiplications in the head; "
        f"largest error {calibration['held_out_error']:.1e} on {calibration['held_out']} held-out examples, "
        f"{calibration['fitted_error']:.1e} on {calibration['fitted']} that it was fitted to; allowed "
        f"{adaptation['tolerance']:g}{on_cpus}"
    )
