"""Parts of benchmarks/gpu_inference.py: buffers, parity, time budget and failures."""

import copy
import dataclasses
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gpu_checks.budget import Budget
from gpu_checks.forms import forms_of, lowered
from gpu_checks.models import CheckedModel, Synthetic, artifact_folders, of_artifact
from gpu_checks.onnx_runner import OnnxRunner
from gpu_checks.parity import answers, compare
from gpu_checks.session import Plan, check
from gpu_checks.surroundings import look_around
from gpu_checks.torch_runner import FixedModule, TorchRunner
from torch import nn

from mntrain.artifact import save_artifact
from mntrain.artifact_config import ImageArtifactConfig, InputSpec
from mntrain.config import load_experiment
from mntrain.data.images import ImageSet
from mntrain.layers.attention import unit

CPU = torch.device("cpu")
CUDA = "CUDAExecutionProvider"


class Double(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * 2, x * 0 + x.sum(dim=0, keepdim=True)


@pytest.fixture(scope="module")
def checked() -> CheckedModel:
    return Synthetic(name="convnet4-4-16", size=16, width=0.2).build()


def budget(seconds: float = 1e6) -> Budget:
    return Budget(seconds=seconds)


def test_two_inputs_give_two_answers_in_memory_of_their_own() -> None:
    module = FixedModule(Double(), (2, 4), torch.zeros(1, 3), CPU, ("y", "total"))
    kept = []
    for count in (1, 2, 4, 3, 5, 2, 1):
        x = np.random.default_rng(count).random((count, 3), np.float32)
        found = module.run(x)
        np.testing.assert_array_equal(found["y"], x * 2)
        np.testing.assert_allclose(found["total"], np.tile(x.sum(axis=0), (count, 1)), rtol=1e-6)  # padding is zeros
        kept.append((found["y"], x * 2))
    for array, right in kept:
        np.testing.assert_array_equal(array, right)


def test_forms_move_to_a_device_as_a_whole(checked: CheckedModel) -> None:
    """A constant that stayed behind on the CPU would not go together with tensors of another device."""
    forms = forms_of(checked)
    for wanted in (forms, lowered(forms, "float16")):
        for module in (wanted.adaptive, wanted.vanilla):
            found = copy.deepcopy(module).to("meta")(torch.from_numpy(checked.samples[:2]).to("meta"))
            assert {tensor.device.type for tensor in found} == {"meta"}


def test_made_models_adapt_and_tell_classes_apart(checked: CheckedModel) -> None:
    forms = forms_of(checked)
    model = checked.model
    with torch.inference_mode():
        features = model.get_submodule("backbone")(checked.preprocessing(torch.from_numpy(checked.samples)))
    nearest = (unit(features) @ unit(model.get_parameter("dictionary.keys")).T).max(dim=-1).values
    assert nearest.mean() > 0.4  # keys lie where the samples do; random ones have half of that
    right = TorchRunner("cpu", (4,)).reference(checked, forms)
    with torch.inference_mode():
        plain = forms.vanilla(torch.from_numpy(checked.samples))[1].numpy()
    assert np.abs(right["probabilities"] - plain).max() > 1e-3
    assert len(set(right["probabilities"].argmax(axis=1).tolist())) > 1


def test_answers_come_in_batches_of_many_sizes() -> None:
    seen = []

    def run(inputs: np.ndarray) -> dict[str, np.ndarray]:
        seen.append(len(inputs))
        return {"y": inputs + 1}

    x = np.arange(230, dtype=np.float32)[:, None]
    np.testing.assert_array_equal(answers(run, x)["y"], x + 1)
    assert {1, 3, 8, 20, 32, 130} <= set(seen)
    assert sum(seen) == len(x)


def test_parity_counts_differences() -> None:
    right = {"logits": np.array([[2.0, 0.0]]), "probabilities": np.array([[0.88, 0.12]])}
    near = {"logits": np.array([[2.1, 0.0]]), "probabilities": np.array([[0.88005, 0.11995]])}
    far = {"logits": np.array([[0.0, 2.0]]), "probabilities": np.array([[0.12, 0.88]])}
    broken = {"logits": np.array([[np.nan, 0.0]]), "probabilities": np.array([[np.nan, 0.0]])}
    assert compare(("m", "float32", "e"), near, right, 1.0).passed
    assert compare(("m", "float32", "e"), far, right, 1.0).other_classes == 1
    assert not compare(("m", "float16", "e"), broken, right, 1.0).passed
    value = {"value": np.array([[100.0]])}
    shifted = {"value": np.array([[100.05]])}
    assert compare(("m", "float32", "e"), shifted, value, 1000.0).passed
    assert not compare(("m", "float32", "e"), shifted, value, 1.0).passed


def test_work_beyond_the_budget_is_skipped() -> None:
    now = [0.0]
    spent = Budget(seconds=60, clock=lambda: now[0])
    assert spent.allows("first", 30)
    now[0] = 40.0
    assert not spent.allows("second", 30)
    (skip,) = spent.skips
    assert skip.what == "second"
    assert skip.why == "no time: 20 s of 1 minutes are left, 30 s are needed; raise --minutes"


class Broken(TorchRunner):
    """Fails where a GPU might: in a single engine, or in every capture in float16."""

    @contextmanager
    def pair(self, checked: Any, forms: Any, dtype: str, *, tf32: bool) -> Any:
        if dtype == "float16":
            raise RuntimeError("CUDA error: out of memory\nand more")
        with super().pair(checked, forms, dtype, tf32=tf32) as runs:
            yield runs

    @contextmanager
    def further(self, checked: Any, forms: Any, dtype: str, budget: Budget) -> Any:
        def run(inputs: np.ndarray) -> Any:
            raise RuntimeError("no kernel")

        yield {"other": run}


def test_a_failure_is_recorded_and_the_rest_goes_on(checked: CheckedModel) -> None:
    spent = budget()
    plan = Plan(dtypes=("float32", "float16"), batches=(1, 4), seconds=0.01, rounds=2, tf32=False)
    found = check({"m": lambda: checked}, Broken("cpu", (1, 4)), plan, spent, lambda message: None)
    assert [item.engine for item in found.parities] == ["PyTorch, plain calls on static tensors"]
    assert [(item.dtype, item.batch) for item in found.ratios] == [("float32", 1), ("float32", 4)]
    assert [(skip.what, skip.why) for skip in spent.skips] == [
        ("convnet4-4-16, float32, parity of other", "failed: no kernel"),
        ("m, float16", "failed: CUDA error: out of memory"),
    ]


def test_artifacts_are_checked_in_the_form_that_mnexport_chooses(checked: CheckedModel, tmp_path: Path) -> None:
    words = ["--backbone.name", "convnet4", "--backbone.width", "0.2", "--meta_neighborhoods.entries", "16"]
    config = ImageArtifactConfig(
        experiment=load_experiment("digits", words),
        split={"sha256": "x"},
        metrics={},
        versions={},
        input=InputSpec(channels=3, height=16, width=16),
        labels=("a", "b", "c", "d"),
        preprocessing=checked.preprocessing.config,
    )
    samples = ImageSet(images=checked.samples, labels=np.zeros(len(checked.samples), np.int64))
    for name in ("two", "one"):
        save_artifact(tmp_path / name, config, checked.model.state_dict(), samples)
    assert [item.name for item in artifact_folders(tmp_path, [])] == ["one", "two"]
    assert [item.name for item in artifact_folders(tmp_path, ["two"])] == ["two"]
    found = of_artifact(tmp_path / "one")
    assert (found.name, found.form, found.is_classifier) == ("one", "auto", True)
    right, again = (
        TorchRunner("cpu", (4,)).reference(item, forms_of(dataclasses.replace(item, form="factored")))
        for item in (checked, found)
    )
    np.testing.assert_allclose(right["logits"], again["logits"], atol=1e-5)


def test_the_engine_is_asked_for_graphs_without_tf32(cuda: Any, checked: CheckedModel, tmp_path: Path) -> None:
    runner, spent = OnnxRunner(tmp_path, "cuda", (2, 4), (CUDA, "CPUExecutionProvider")), budget()
    forms = forms_of(checked)
    with runner.pair(checked, forms, "float32", tf32=False) as (adaptive, vanilla):
        asked = [given[CUDA] for given in cuda.options]
        assert [(item["use_tf32"], item["enable_cuda_graph"]) for item in asked] == [("0", "1")] * 2
        with runner.further(checked, forms, "float32", spent) as others:
            assert list(others) == ["CUDA without graphs"]
            assert "enable_cuda_graph" not in cuda.options[-1][CUDA]
            got = answers(adaptive, checked.samples)
        assert not np.array_equal(got["logits"], answers(vanilla, checked.samples)["logits"])
    assert {"1", "2", "-1"} <= set(cuda.runs)
    assert "no TensorRT provider" in spent.skips[0].why
    with runner.pair(checked, forms, "float32", tf32=True):
        assert cuda.options[-1][CUDA]["use_tf32"] == "1"
    cuda.refusal = "This session cannot use the graph capture feature"
    with pytest.raises(Exception, match="runs without CUDA graphs"), runner.pair(checked, forms, "float32", tf32=False):
        pass


def test_installed_packages_and_providers_are_found() -> None:
    found = look_around()
    assert "torch" in found.versions
    assert "CPUExecutionProvider" in found.providers
    assert found.lacks(("torch", "numpy")) == ""
