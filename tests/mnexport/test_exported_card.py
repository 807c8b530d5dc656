"""Model card of a published model: what it holds, and that a page of a person stays."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mnexport.options import ExportOptions
from mnexport.pipeline import export
from mnexport.repository.target import Target
from mntrain.hugging_face_hub import ModelCard


def test_a_published_model_has_its_card_until_a_person_writes_one(
    runs: Path, tmp_path: Path, one_operator_table: Callable[..., None]
) -> None:
    def publish() -> str:
        target = Target(repository=tmp_path, name="m")
        export(ExportOptions(artifact=runs / "vanilla" / "artifact", target=target))
        return (tmp_path / "m" / "README.md").read_text(encoding="utf-8")

    text = publish()
    header: Any = ModelCard(text).data
    record = json.loads((tmp_path / "m" / "1" / "export.json").read_text())
    assert header.pipeline_tag == "image-classification"
    assert {"onnx", "vanilla"} <= set(header.tags)
    assert header.eval_results[-1].metric_value == record["artifact"]["metrics"]["test"]["accuracy"]
    assert record["sha256"]["model.onnx"] in text
    largest = max(item["max_error"]["logits"] for item in record["parity"]["comparisons"])
    assert f"{largest:.1e}" in text
    assert publish() == text.replace(record["sha256"]["model.onnx"], _digest(tmp_path, 2))
    (tmp_path / "m" / "README.md").write_text("mine", encoding="utf-8")
    assert publish() == "mine"


def _digest(repository: Path, version: int) -> str:
    record = json.loads((repository / "m" / str(version) / "export.json").read_text())
    return str(record["sha256"]["model.onnx"])
