"""Model card of a published model: the ``README.md`` beside its ``config.pbtxt``.

It describes the version that was published last, and says by a digest which one that is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mnexport.export_source import ExportSource
from mnexport.parity.report import BatchComparison
from mnexport.report import ExportReport
from mnexport.repository.layout import README_MARK
from mnexport.repository.model_card import ModelCard, tensor_specs
from mnexport.repository.target import sha256
from mntrain.model_card.markdown import aligned, escaped, section, table
from mntrain.model_card.sections import adaptation_section, data_section, score_section, version_section
from mntrain.model_card.subject import front_matter_of, subject_lines, task_of


def exported_card(source: ExportSource, card: ModelCard, report: ExportReport, versions: Mapping[str, Any]) -> str:
    """Write the card of an exported model; equal exports have equal cards.

    Args:
        source: what was exported.
        card: content of its ``config.pbtxt``.
        report: of the export; its path is the finished file.
        versions: of the software.

    Returns:
        Front matter and page, in Markdown. Names of classes, columns and data are escaped.
    """
    config = source.artifact.config
    task = task_of(config).replace("-", " ")
    header = front_matter_of(config, source.name, "onnx", report.form)
    whole = card.signature.labels == config.labels and source.family == config.family
    parts = [
        (header if whole else replace(header, metrics={})).text(),
        README_MARK,
        f"# {source.name}",
        f"A static ONNX graph for {task}, in Triton's layout of a model repository, exported by mn-runtime "
        f"(`mnexport`) from the artifact {escaped(config.experiment.name)}.",
        _part(source, card),
        subject_lines(config),
        _interface(card),
        _use(source, card),
        score_section(config) if whole else "",
        _export_section(report, sha256(report.path)),
        _parity_section(report),
        adaptation_section(config) if whole else "",
        data_section(config),
        version_section(versions),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _part(source: ExportSource, card: ModelCard) -> str:
    """Say what of the artifact was exported, where that is not all of it."""
    config = source.artifact.config
    if card.signature.labels != config.labels:
        return "It takes support images of new classes with each request; the artifact that its network is from:"
    if source.family != config.family:
        return f"It is the {escaped(source.family)} part of the artifact, which does not adapt; the artifact:"
    return ""


def _interface(card: ModelCard) -> str:
    specs = tensor_specs(card.signature)
    rows = [
        [kind, f"`{tensor['name']}`", tensor["datatype"], " × ".join(_size(size) for size in tensor["shape"])]
        for kind, key in (("input", "inputs"), ("output", "outputs"))
        for tensor in specs[key]
    ]
    batch = f"The server puts up to {card.max_batch_size} rows into one batch." if card.max_batch_size else ""
    return section("Inputs and outputs", table(["", "name", "type", "shape"], rows, words=4), batch)


def _size(size: int) -> str:
    return "batch" if size == -1 else str(size)


def _use(source: ExportSource, card: ModelCard) -> str:
    name = source.name
    commands = [("mnserve serve repository", "over gRPC at port 8001, for clients of Triton")]
    if card.signature.batched:
        examples = "image.png" if task_of(source.artifact.config) == "image-classification" else "new-rows.csv"
        commands.append((f"mnserve predict repository/{name} {examples}", "answers in this process, without a server"))
        commands.append((f"mnserve bench repository {name}", "latency and throughput here"))
    given, answer = card.signature.inputs[0], card.signature.outputs[0]
    client = (
        "```python",
        "import tritonclient.grpc as triton",
        "",
        'client = triton.InferenceServerClient("127.0.0.1:8001")',
        f'given = triton.InferInput("{given.name}", list(array.shape), "{given.datatype}")   # one for each input',
        "given.set_data_from_numpy(array)",
        f'answer = client.infer("{name}", [given])',
        f'print(answer.as_numpy("{answer.name}"))',
        "```",
    )
    place = f"The folder of this page belongs into a model repository under the name `{name}`."
    return section("How to use", place, aligned(*commands), "\n".join(client))


def _export_section(report: ExportReport, digest: str) -> str:
    reason = report.adaptation.get("reason")
    lines = [
        f"- **Form**: {escaped(report.form)}{'' if reason is None else f' ({escaped(reason, 400)})'}",
        f"- **Graph**: {report.graph.nodes:,} operators, {report.graph.size / 1e6:.2f} MB, opset {report.graph.opset}",
        f"- **SHA-256 of `{report.path.name}`**: `{digest}` (the digests of all files are in `export.json`)",
    ]
    if "rank" in report.adaptation:
        tolerance = report.adaptation.get("tolerance")
        lines.insert(1, f"- **Rank**: {report.adaptation['rank']}, tolerance {tolerance} on probabilities")
    notes = [part.describe() for part in (report.accuracy, report.similarity, report.neighbors) if part is not None]
    lines += [f"- {escaped(note, 400)}" for note in notes]
    return section("Export", "\n".join(lines))


def _parity_section(report: ExportReport) -> str:
    """Tabulate the largest errors of the check against the trained model, over all batch sizes."""
    comparisons = report.parity.comparisons
    outputs = [name for name in ("logits", "probabilities", "value") if name in comparisons[0].max_error]
    head = ["compared", "allowed", "batches", "examples", *(f"max error of {name}" for name in outputs), "other class"]
    groups: dict[tuple[str, str, str], list[BatchComparison]] = {}
    for item in comparisons:
        groups.setdefault((item.what, item.reference, item.tolerance), []).append(item)
    rows = [_compared(group, outputs) for group in groups.values()]
    text = f"Compared before it was published, on {escaped(report.parity.source, 200)}."
    return section("Parity", text, table(head, rows, words=3))


def _compared(group: Sequence[BatchComparison], outputs: Sequence[str]) -> list[str]:
    first = group[0]
    errors = [max((item.max_error[name] for item in group if name in item.max_error), default=None) for name in outputs]
    return [
        f"{escaped(first.what)} with {escaped(first.reference)}",
        escaped(first.tolerance),
        ", ".join(str(item.batch) for item in group),
        f"{max(item.examples for item in group):,}",
        *("" if error is None else f"{error:.1e}" for error in errors),
        str(max(item.argmax_differences for item in group)),
    ]
