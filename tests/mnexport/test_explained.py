"""Exports that tell their neighbors: the neighbors are those that the trained model attends to."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from mnexport.errors import FormError, PublishError, UsageError
from mnexport.export_source import read_source
from mnexport.graph import GraphOptions
from mnexport.options import ExportOptions
from mnexport.parity.checks import ParityCheck
from mnexport.parity.comparison import compare
from mnexport.parity.tolerance import Answers, Approximation, Tolerance
from mnexport.pipeline import export
from mnexport.report import ExportReport
from mnexport.repository.target import Target, sha256
from mntrain.acting.record import AdaptationRecord
from mntrain.artifact import load_artifact, read_config

NEIGHBORS = 4


def published(runs: Path, repository: Path, family: str = "meta_neighborhoods", **changes: object) -> ExportReport:
    target = Target(repository=repository, name="m")
    fields = {"explain": NEIGHBORS} | changes
    return export(ExportOptions(artifact=runs / family / "artifact", target=target, **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["explicit", "factored", "low_rank"])
def test_the_neighbors_are_those_that_the_trained_model_attends_to(runs: Path, repository: Path, form: str) -> None:
    report = published(runs, repository, form=form)
    artifact = load_artifact(runs / "meta_neighborhoods" / "artifact")
    images = artifact.samples.images[:20]
    session = onnxruntime.InferenceSession(str(report.path))
    found = dict(zip((item.name for item in session.get_outputs()), session.run(None, {"image": images}), strict=True))
    with torch.inference_mode():
        pixels = artifact.preprocessing(torch.from_numpy(images))
        attention = artifact.model.attention_over_all(artifact.model.backbone(pixels)).numpy()
        plain = artifact.model(pixels).unadapted_logits.softmax(-1).numpy()
        classes = artifact.model.dictionary.values().argmax(-1).numpy()
    assert found["neighbor_indices"].dtype == found["neighbor_labels"].dtype == np.int64
    assert found["neighbor_indices"].shape == (20, NEIGHBORS)
    named = np.take_along_axis(attention, found["neighbor_indices"], axis=1)
    np.testing.assert_allclose(found["neighbor_weights"], named, atol=1e-6)
    np.testing.assert_allclose(named, -np.sort(-attention, axis=1)[:, :NEIGHBORS], atol=1e-6)
    assert (found["neighbor_labels"] == classes[found["neighbor_indices"]]).all()
    np.testing.assert_allclose(found["unadapted_probabilities"], plain, atol=1e-5)


def test_a_smaller_file_gives_the_outputs_without_explanation(runs: Path, repository: Path) -> None:
    report = published(runs, repository)
    core = report.path.with_name("core.onnx")
    images = load_artifact(runs / "meta_neighborhoods" / "artifact").samples.images
    whole, part = (onnxruntime.InferenceSession(str(path)) for path in (report.path, core))
    assert [item.name for item in part.get_outputs()] == ["logits", "probabilities"]
    for name in ("logits", "probabilities"):
        expected = whole.run([name], {"image": images})[0]
        np.testing.assert_allclose(part.run([name], {"image": images})[0], expected, atol=1e-5)
    assert part.get_modelmeta().custom_metadata_map == whole.get_modelmeta().custom_metadata_map
    record = json.loads(report.path.with_name("export.json").read_text())
    assert record["sha256"] == {
        name: sha256(report.path.with_name(name)) for name in ("model.onnx", "core.onnx", "cpu.onnx")
    }
    assert {item["what"] for item in record["parity"]["comparisons"]} == {
        "static form", "onnxruntime", "onnxruntime, core.onnx", "onnxruntime, cpu.onnx",
    }  # fmt: skip


def test_without_explanation_there_is_one_file(runs: Path, repository: Path) -> None:
    report = published(runs, repository, explain=0)
    assert {item.name for item in report.path.parent.iterdir()} == {"model.onnx", "cpu.onnx", "export.json"}


def test_what_training_found_about_explanations_is_published_with_them(runs: Path, repository: Path) -> None:
    published(runs, repository, form="factored")
    metrics = read_config(runs / "meta_neighborhoods" / "artifact").metrics
    record = AdaptationRecord.from_metrics(metrics)
    assert record is not None
    text = "; ".join(record.verdicts())
    assert "hardly acts" in text
    exported = json.loads((repository / "m/1/export.json").read_text())["artifact"]["metrics"]["adaptation"]
    assert exported == metrics["adaptation"] == json.loads(json.dumps(record.to_json()))
    assert exported["faithfulness"]["measure"] == "comprehensiveness"
    config = text_format.Parse((repository / "m/config.pbtxt").read_text(), model_config_pb2.ModelConfig())
    assert config.parameters["mn.finding"].string_value == text
    published(runs, repository, form="explicit")
    config = text_format.Parse((repository / "m/config.pbtxt").read_text(), model_config_pb2.ModelConfig())
    assert config.parameters["mn.finding"].string_value == text, "the same for every version"


def test_nothing_is_noted_of_a_dictionary_that_acts_and_means_something(runs: Path) -> None:
    source = read_source(runs / "meta_neighborhoods" / "artifact", "m", GraphOptions(), explain=NEIGHBORS)
    assert "hardly acts" in source.finding
    config = source.artifact.config
    stored = config.metrics["adaptation"]
    meant = {"share": 0.97, "chance": 0.1, "kappa": 0.96}
    shares = {name: stored[name] | meant for name in ("consistency", "agreement")}
    faithful = stored["faithfulness"] | {"named_size": 0.1, "random_size": 0.01}
    acting = stored | shares | {"answer_change": 0.02, "faithfulness": faithful}
    changed = replace(config, metrics=config.metrics | {"adaptation": acting})
    artifact = replace(source.artifact, config=changed)  # type: ignore[arg-type]
    assert replace(source, artifact=artifact).finding == ""


def test_versions_of_one_model_give_the_same_outputs(runs: Path, repository: Path) -> None:
    """Versions share one config.pbtxt, which would promise an explanation that the older version lacks."""
    published(runs, repository, explain=0, form="factored")
    before = (repository / "m/config.pbtxt").read_text()
    with pytest.raises(PublishError, match="version 1 has outputs"):
        published(runs, repository, form="factored")
    assert (repository / "m/config.pbtxt").read_text() == before
    published(runs, repository, explain=0, form="factored")


@pytest.mark.parametrize("neighbors", [61, 10**9])
def test_more_neighbors_than_there_are_entries_are_refused(runs: Path, repository: Path, neighbors: int) -> None:
    with pytest.raises(UsageError, match="dictionary has 60"):
        published(runs, repository, explain=neighbors)
    assert list(repository.iterdir()) == []


def test_a_model_without_neighbors_cannot_explain(runs: Path, repository: Path) -> None:
    with pytest.raises(FormError, match="looks no neighbors up"):
        published(runs, repository, family="vanilla")
    with pytest.raises(UsageError, match="nothing to --explain"):
        published(runs, repository, vanilla=True)
    with pytest.raises(UsageError, match="--explain is -1"):
        published(runs, repository, explain=-1)


@pytest.mark.parametrize("tolerance", [Tolerance(), Approximation(limit=0.5)])
@pytest.mark.parametrize("fault", ["another entry", "another weight", "another answer"])
def test_parity_holds_the_explanation_to_the_truth(fault: str, tolerance: Tolerance | Approximation) -> None:
    attention = np.random.default_rng(0).dirichlet(np.ones(9), 70).astype(np.float32)

    def right(images: np.ndarray) -> Answers:
        rows = attention[: len(images)] if len(images) == 70 else attention[images[:, 0]]
        scores = np.tile(np.float32([[0.7, 0.3]]), (len(images), 1))
        return {"logits": np.log(scores), "probabilities": scores, "unadapted_probabilities": scores, "attention": rows}

    def told(images: np.ndarray) -> Answers:
        answers = right(images)
        rows = answers.pop("attention")
        indices = np.argsort(-rows, axis=1)[:, :3]
        weights = np.take_along_axis(rows, indices, axis=1)
        if fault == "another entry":
            indices = np.argsort(rows, axis=1)[:, :3]
        elif fault == "another weight":
            weights = weights + 0.01
        elif fault == "another answer":
            answers["unadapted_probabilities"] = answers["probabilities"][:, ::-1]
        return answers | {"neighbor_indices": indices, "neighbor_weights": weights}

    examples = np.arange(70)[:, None]

    def passes() -> bool:
        check = ParityCheck(what="it", runner=told, reference="trained", expected=right, tolerance=tolerance)
        return compare([check], examples, large_batch=64, source="test").passed

    assert not passes()
    fault = "none"
    assert passes()
