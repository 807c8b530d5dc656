"""Contract of the static forms: which forms every family and variant has, and that they answer as the trained model.

A new family is covered by its entry in ``FAMILIES``, its function in ``mnexport/forms/dispatch.py``, and the forms that
``expected_forms`` says it has.
"""

import copy
import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from mnexport.blocked.assemble import write_blocked
from mnexport.blocked.layout import block_size
from mnexport.errors import FormError
from mnexport.forms.dispatch import static_form, without_adaptation
from mnexport.forms.folded_norm import FoldedNorm
from mnexport.forms.plan import FORMS, Calibration, FormPlan, StaticModel
from mnexport.graph import write_onnx
from mnexport.signature import image_signature
from mntrain.artifact import Artifact, load_artifact
from mntrain.artifact_config import InputSpec
from mntrain.data.preprocessing import Preprocessing, PreprocessingConfig
from mntrain.models.base import Model
from mntrain.models.families import FAMILIES

TOLERANCE = 1e-4
"""Absolute tolerance of logits between an exported graph and its reference."""
SIGNATURE = image_signature(InputSpec(channels=3, height=16, width=16), tuple("abcd"))
LOSS = 1e-3
"""Largest error of a probability that an approximation of an artifact may have."""


@dataclass(frozen=True)
class Refusal:
    """Refusal of a form, and words of its reason."""

    words: str


Outcome = str | Refusal
"""Name of the form that is made, or a refusal."""


def factored_is_exact(settings: Mapping[str, Any]) -> bool:
    """Tell if one step of a Meta-Neighborhoods model moves weights by rank one."""
    sizes = ("scalar", "per_feature") if settings["head"] == "dot" else ("scalar",)
    return settings["steps"] == 1 and settings["step_size_form"] in sizes


def expected_forms(family: str, settings: Mapping[str, Any]) -> dict[str, Outcome]:
    """List the outcome of each form that may be asked for, where no calibration images are at hand."""
    if family in ("vanilla", "maxl"):
        refused = {form: Refusal(f"does not adapt, so it has no form '{form}'") for form in FORMS if form != "auto"}
        return {"auto": "vanilla", **refused}
    assert family == "meta_neighborhoods", "a new family says here which forms it has"
    exact = factored_is_exact(settings)
    no_need = settings["head"] == "dot" and exact
    return {
        "auto": "factored" if exact else "explicit",
        "explicit": "explicit",
        "factored": "factored" if exact else Refusal("Factored is exact for one step of scalar size"),
        "low_rank": Refusal("factored is exact for this model" if no_need else "holds fewer than two"),
    }


def expected_approximation(family: str, settings: Mapping[str, Any]) -> Outcome:
    """Name the outcome of ``low_rank`` where calibration images are at hand."""
    outcome = expected_forms(family, settings)["low_rank"]
    assert isinstance(outcome, Refusal)
    return "low_rank" if "fewer than two" in outcome.words else outcome


def made(model: Model, plan: FormPlan, preprocessing: torch.nn.Module, outcome: Outcome) -> StaticModel | None:
    """Make a form that must have the expected outcome; None for a refusal."""
    if isinstance(outcome, Refusal):
        with pytest.raises(FormError, match=re.escape(outcome.words)):
            static_form(model, plan, preprocessing)
        return None
    static = static_form(model, plan, preprocessing)
    assert (static.form, static.approximate) == (outcome, outcome == "low_rank")
    return static


def exact_forms(
    model: Model, preprocessing: torch.nn.Module, family: str, settings: Mapping[str, Any]
) -> list[StaticModel]:
    """Make all exact forms: without calibration images no model is approximated."""
    outcomes = expected_forms(family, settings)
    assert outcomes.keys() == set(FORMS)
    statics = [made(model, FormPlan(form=form), preprocessing, outcome) for form, outcome in outcomes.items()]
    return [static for static in statics if static is not None]


def softmax(logits: np.ndarray) -> np.ndarray:
    return torch.from_numpy(logits).softmax(-1).numpy()


def settings_of(artifact: Artifact) -> dict[str, Any]:
    return dataclasses.asdict(artifact.config.experiment.model)


def forms_of(artifact: Artifact) -> list[StaticModel]:
    """Make all exact forms of an artifact."""
    return exact_forms(artifact.model, artifact.preprocessing, artifact.config.family, settings_of(artifact))


def approximations_of(artifact: Artifact) -> list[StaticModel]:
    """Make the low-rank form of an artifact whose family has one."""
    calibration = Calibration.halves(artifact.samples.images, "samples")
    plan = FormPlan(form="low_rank", tolerance=LOSS, calibration=calibration)
    outcome = expected_approximation(artifact.config.family, settings_of(artifact))
    static = made(artifact.model, plan, artifact.preprocessing, outcome)
    return [] if static is None else [static]


@pytest.fixture(params=sorted(FAMILIES), scope="module")
def artifact(request: pytest.FixtureRequest, runs: Path) -> Artifact:
    return load_artifact(runs / str(request.param) / "artifact")


def test_every_form_equals_the_trained_model_in_double_precision(artifact: Artifact) -> None:
    trained = copy.deepcopy(artifact)
    images = torch.from_numpy(artifact.samples.images[:32])
    pixels = trained.preprocessing(images).double()
    expected = trained.model.double()(pixels).logits
    for static in forms_of(trained):
        features = static.module.backbone.double()(pixels)
        torch.testing.assert_close(static.module.classifier.double()(features), expected, atol=1e-9, rtol=0)


def test_a_form_never_changes_the_trained_model(artifact: Artifact) -> None:
    before = copy.deepcopy(artifact.model.state_dict())
    for static in forms_of(artifact) + approximations_of(artifact):
        static.module(torch.from_numpy(artifact.samples.images[:2]))
        with torch.no_grad():
            for tensor in static.module.state_dict().values():
                tensor.zero_()
    after = artifact.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_form_is_in_eval_mode_and_learns_nothing(artifact: Artifact) -> None:
    for static in forms_of(artifact) + approximations_of(artifact):
        assert not any(module.training for module in static.module.modules())
        assert not any(parameter.requires_grad for parameter in static.module.parameters())


@pytest.mark.parametrize("input_type", ["uint8", "float32"])
def test_every_exported_graph_answers_as_the_trained_model(artifact: Artifact, input_type: str, tmp_path: Path) -> None:
    images = artifact.samples.images
    expected = artifact.model(artifact.preprocessing(torch.from_numpy(images))).logits.numpy()
    fed = images if input_type == "uint8" else images.astype(np.float32) / np.float32(255)
    # What stands before the backbone is the same in every form: one type of input is enough for the approximation.
    approximate = approximations_of(artifact) if input_type == "uint8" else []
    for static in forms_of(artifact) + approximate:
        if static.approximate:
            approximate_logits, probabilities = (output.numpy() for output in static.module(torch.from_numpy(fed)))
            np.testing.assert_allclose(probabilities, softmax(expected), atol=LOSS, rtol=0)
            expected = approximate_logits
        file = tmp_path / f"{static.form}.onnx"
        signature = image_signature(artifact.config.input, artifact.config.labels, input_type)  # type: ignore[arg-type]
        write_onnx(static.module, signature, 20, {}, file)
        session = onnxruntime.InferenceSession(str(file))
        for batch in (1, 2, 3, len(images)):
            logits, probabilities = session.run(None, {"image": fed[:batch]})
            np.testing.assert_allclose(logits, expected[:batch], atol=TOLERANCE, rtol=0)
            assert (logits.argmax(1) == expected[:batch].argmax(1)).all()
            np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-5)
        assert session.run(None, {"image": fed[:0]})[0].shape == (0, 10), "an empty batch does not crash the engine"
        order = np.arange(9, -1, -1)
        reordered = session.run(None, {"image": fed[order]})[0]
        np.testing.assert_allclose(reordered, expected[order], atol=TOLERANCE, rtol=0)
        operators = {node.op_type for node in onnx.load(file).graph.node}
        assert "Einsum" not in operators


def test_without_adaptation_is_the_same_backbone_and_head(artifact: Artifact) -> None:
    plain = without_adaptation(artifact.model)
    pixels = artifact.preprocessing(torch.from_numpy(artifact.samples.images[:8]))
    prediction = artifact.model(pixels)
    expected = prediction.logits if prediction.unadapted_logits is None else prediction.unadapted_logits
    torch.testing.assert_close(plain(pixels).logits, expected, atol=1e-5, rtol=0)


def test_every_variant_has_its_exact_static_forms(variant: Any, model: Model) -> None:
    """Untrained, with random parameters: every number of steps, step size, head, similarity, iFiLM."""
    generator = torch.Generator().manual_seed(3)
    # Random factors multiply over depth, until the last bits of double precision are those that are compared.
    factors = (0.8, 1.25) if variant.backbone == "resnet56" else (0.5, 2.0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("scales", "shifts")):
                parameter.normal_(generator=generator)
        for layer in (module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)):
            for tensor in (layer.weight, layer.running_var):
                tensor.uniform_(*factors, generator=generator)
            for tensor in (layer.bias, layer.running_mean):
                tensor.normal_(generator=generator)
    preprocessing = Preprocessing(PreprocessingConfig.identity(3)).double()
    model.eval().double()
    pixels = torch.rand(5, 3, 16, 16, dtype=torch.float64, generator=generator)
    expected = model(pixels).logits
    for static in exact_forms(model, preprocessing, variant.family, dict(variant.settings)):
        logits = static.module.classifier(static.module.backbone(pixels))
        # Relative, too: random statistics make the features of a deep backbone large.
        torch.testing.assert_close(logits, expected, atol=1e-9, rtol=1e-9)


def test_every_variant_is_approximated_or_refuses_with_a_way_out(variant: Any, model: Model) -> None:
    model.eval()
    preprocessing = Preprocessing(PreprocessingConfig.identity(3))
    images = np.random.default_rng(1).integers(0, 256, (24, 3, 16, 16), dtype=np.uint8)
    calibration = Calibration.halves(images, "random images")
    settings = dict(variant.settings)
    outcome = expected_approximation(variant.family, settings)
    plan = FormPlan(form="low_rank", tolerance=0.01, calibration=calibration)

    static = made(model, plan, preprocessing, outcome)

    if static is None:
        with pytest.raises(FormError) as refusal:
            static_form(model, plan, preprocessing)
        reason, adapts = str(refusal.value), variant.family == "meta_neighborhoods"
        assert ("--form factored" if adapts else "leave out --form") in reason, "the way out"
        instead = static_form(model, FormPlan(calibration=calibration), preprocessing)
        assert (instead.form, instead.approximate) == (expected_forms(variant.family, settings)["auto"], False)
        assert instead.record == ({"reason": reason} if adapts else {})
        return
    with torch.inference_mode():
        expected = model(preprocessing(torch.from_numpy(images))).logits.softmax(-1)
        probabilities = static.module(torch.from_numpy(images))[1]
    torch.testing.assert_close(probabilities, expected, atol=0.005 + 1e-5, rtol=0)


def test_every_variant_exports_to_onnx(variant: Any, model: Model, tmp_path: Path) -> None:
    # Tracing grows with the depth: deep backbones are traced under the vanilla head, every head under shallow ones.
    deep = variant.backbone == "densenet40bc" or (variant.backbone == "resnet29" and variant.ifilm)
    if variant.backbone == "resnet56" or (variant.backbone == "densenet40bc" and variant.ifilm):
        pytest.skip("tracing a deep backbone takes half a minute; its parts are covered by shallower ones")
    if deep and variant.family != "vanilla":
        pytest.skip("a deep backbone is traced under the vanilla head, and this head on every shallower backbone")
    if variant.similarity and (variant.backbone != "cnn4" or variant.family == "meta_neighborhoods"):
        pytest.skip("layers with similarity are traced in cnn4, under the vanilla head")
    if variant.family == "maxl" and variant.backbone != "convnet4":
        pytest.skip("its graph is that of the vanilla family, which is traced on every shallower backbone")
    model.eval()
    preprocessing = Preprocessing(PreprocessingConfig.identity(3))
    static = made(model, FormPlan(), preprocessing, expected_forms(variant.family, dict(variant.settings))["auto"])
    assert static is not None
    write_onnx(static.module, SIGNATURE, 20, {}, tmp_path / "m.onnx")
    images = np.random.default_rng(0).integers(0, 256, (9, 3, 16, 16), dtype=np.uint8)
    with torch.inference_mode():
        expected = model(preprocessing(torch.from_numpy(images))).logits.numpy()
    files = ["m.onnx"]
    predicted = variant.similarity not in ("", "static", "unconstrained")  # has nodes that the blocked layout lacks
    if variant.ifilm and not predicted and block_size() is not None:
        report = write_blocked(tmp_path / "m.onnx", tmp_path / "cpu.onnx")
        assert report is not None
        assert report.maps == sum(isinstance(layer, FoldedNorm) for layer in static.module.modules())
        files.append("cpu.onnx")
    for file in files:
        session = onnxruntime.InferenceSession(str(tmp_path / file))
        for batch in (1, 2, 6, 9):
            logits = session.run(["logits"], {"image": images[:batch]})[0]
            np.testing.assert_allclose(logits, expected[:batch], atol=1e-3, rtol=0)
        assert session.run(["logits"], {"image": images[:0]})[0].shape == (0, 4)
