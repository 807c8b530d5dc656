"""Forms over dictionaries that were placed on hostile examples: repeated ones, one class alone, fewer than entries."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from mnexport.errors import FormError
from mnexport.forms.dispatch import static_form
from mnexport.forms.explained import ExplainedClassifier
from mnexport.forms.plan import FORMS, Calibration, FormPlan
from mntrain.data.standardization import Standardization, StandardizationConfig
from mntrain.layers.mlp import Mlp
from mntrain.models.families import FAMILIES
from mntrain.models.meta_neighborhoods.config import MetaNeighborhoodsConfig
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods
from mntrain.models.meta_neighborhoods.regression import MetaNeighborhoodsRegressor

CLASSES, FEATURES, TOLERANCE = 4, 6, 1e-3


class Same(nn.Module):
    """Backbone whose features are its inputs."""

    features = FEATURES

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs


@st.composite
def placements(draw: st.DrawFn) -> dict[str, Any]:
    """Draw examples [N, d], few of them different, their classes, and settings of the model."""
    total, different = draw(st.integers(4, 24)), draw(st.integers(1, 6))
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    points = random.normal(size=(different, FEATURES)) * draw(st.sampled_from([1e-3, 1.0, 30.0]))
    examples = points[random.integers(0, different, total)]
    classes = random.integers(0, draw(st.sampled_from([1, 2, CLASSES])), total)
    chosen = {
        "entries": draw(st.sampled_from([2, 9, 40])),
        "head": draw(st.sampled_from(["cosine", "dot"])),
        "similarity": draw(st.sampled_from(["cosine", "euclidean"])),
        "steps": draw(st.sampled_from([1, 3])),
        "step_size_form": draw(st.sampled_from(["scalar", "per_feature", "per_parameter"])),
        "values": draw(st.sampled_from(["learned", "fixed"])),
        "key_source": draw(st.sampled_from(["centers", "examples"])),
        "auxiliary": draw(st.sampled_from([0.0, 1.0])),
        "start_change": draw(st.sampled_from([0.1, 1.0])),
    }
    return {"examples": examples.astype(np.float32), "classes": classes, "chosen": chosen}


def placed(examples: np.ndarray, classes: np.ndarray, chosen: dict[str, Any]) -> MetaNeighborhoods:
    torch.manual_seed(0)
    entry = FAMILIES["meta_neighborhoods"]
    model = entry.build(entry.config(init="data", **chosen), Same, CLASSES).eval().requires_grad_(False)
    assert isinstance(model, MetaNeighborhoods)
    model.start_from(torch.from_numpy(examples), torch.from_numpy(classes), seed=0)
    return model


@settings(max_examples=12, deadline=None)
@given(placements())
def test_every_form_answers_as_the_model_whatever_its_dictionary_was_placed_on(placement: dict[str, Any]) -> None:
    model = placed(**placement)
    examples: np.ndarray = placement["examples"]
    # Queries where examples are, beside them, and at none: ties of the attention, and what was never fitted to.
    generator = np.random.default_rng(1)
    near = examples + 0.05 * examples.std() * generator.normal(size=examples.shape)
    queries = np.concatenate([examples, near, generator.normal(size=(8, FEATURES))]).astype(np.float32)
    calibration = Calibration.halves(queries, "queries")
    expected = model(torch.from_numpy(queries))
    assert expected.logits.isfinite().all()
    for form in FORMS:
        plan = FormPlan(form=form, tolerance=TOLERANCE, calibration=calibration, explain=2)
        try:
            static = static_form(model, plan, nn.Identity())
        except FormError:
            if form == "auto":
                raise
            continue
        assert isinstance(static.module, ExplainedClassifier)
        logits, probabilities, indices, weights, labels, unadapted = static.module(torch.from_numpy(queries))
        if static.approximate:
            assert (probabilities - expected.logits.softmax(-1)).abs().max() <= TOLERANCE + 1e-6
        else:
            torch.testing.assert_close(logits, expected.logits, atol=1e-4, rtol=1e-5)
        # Entries that repeat an example have equal weights, and either may be named.
        attention = model.attention_over_all(torch.from_numpy(queries))
        torch.testing.assert_close(weights, attention.topk(2).values, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(weights, attention.gather(1, indices), atol=1e-5, rtol=1e-4)
        assert set(labels.unique().tolist()) <= set(placement["classes"].tolist())
        torch.testing.assert_close(unadapted, expected.unadapted_logits.softmax(-1), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("different", [1, 5, 30])
@pytest.mark.parametrize("entries", [4, 80])
def test_a_regressor_placed_on_repeated_rows_keeps_its_tolerance(entries: int, different: int) -> None:
    torch.manual_seed(0)
    config = MetaNeighborhoodsConfig(entries=entries, similarity="euclidean", temperature=0.5, init="data")
    model = MetaNeighborhoodsRegressor(config, Mlp(FEATURES, 2, 12, 1), [(-1.0, 1.0)]).eval().requires_grad_(False)
    random = np.random.default_rng(different)
    rows = random.normal(size=(different, FEATURES))[np.arange(30) % different].astype(np.float32)
    model.start_from(torch.from_numpy(rows), torch.from_numpy(rows[:, 0]), seed=0)
    known = np.concatenate([rows, random.normal(size=(10, FEATURES)).astype(np.float32)])
    calibration = Calibration.halves(known, "rows")
    standardization = Standardization(StandardizationConfig(mean=(0.0,) * FEATURES, std=(1.0,) * FEATURES))
    given_rows = torch.from_numpy(known)
    for form, limit in (("factored", 1e-4), ("auto", TOLERANCE)):
        static = static_form(
            model,
            FormPlan(form=form, tolerance=TOLERANCE, calibration=calibration),
            standardization,
        )
        error = (static.module(given_rows)[0].squeeze(-1) - model(given_rows).values).abs().max()
        assert error <= limit, (form, static.form)
