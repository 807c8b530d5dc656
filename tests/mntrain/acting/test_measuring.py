"""Figures on what adaptation does, on models whose effect is known."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from mntrain.acting.effect import effect_on, value_share
from mntrain.acting.measuring import Sample, measure
from mntrain.acting.record import AdaptationRecord
from mntrain.artifact import ImageArtifact, load_artifact
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods
from mntrain.models.queries import model_queries
from mntrain.training.artifact_data import load_split
from mntrain.training.stored_run import read_metrics


@pytest.fixture
def artifact(runs: Path) -> ImageArtifact:
    loaded = load_artifact(runs / "meta_neighborhoods" / "artifact")
    assert isinstance(loaded, ImageArtifact)
    return loaded


def test_a_run_records_what_adaptation_does_and_families_without_it_do_not(runs: Path, artifact: ImageArtifact) -> None:
    record = AdaptationRecord.from_metrics(read_metrics(runs / "meta_neighborhoods"))
    assert record is not None
    test = load_split(artifact.config, "test")
    chosen = np.linspace(0, len(test) - 1, 256).astype(np.int64)
    model = artifact.model
    assert isinstance(model, MetaNeighborhoods)
    effect = effect_on(model, model_queries(model, artifact.preprocessing, test, chosen))
    assert record.weight_change == pytest.approx(effect.weight_change, rel=1e-3)
    figures = read_metrics(runs / "meta_neighborhoods")["test"]
    assert record.gain == pytest.approx(figures["accuracy"] - figures["unadapted_accuracy"])
    assert record.corrected is not None
    assert record.broken is not None
    assert record.gain == pytest.approx((record.corrected - record.broken) / len(test))
    assert record.effective_entries == pytest.approx(effect.effective_entries, rel=1e-3)
    assert record.value_share == pytest.approx(value_share(model), rel=1e-3)
    assert record.training_score is not None
    assert record.consistency is not None
    assert record.consistency.examples == len(load_split(artifact.config, "train"))
    assert record.agreement is not None
    assert record.agreement.answers == len(chosen)
    assert AdaptationRecord.from_metrics(read_metrics(runs / "vanilla")) is None


def test_a_larger_step_moves_the_weights_as_far_as_it_is_large(artifact: ImageArtifact) -> None:
    model = artifact.model
    assert isinstance(model, MetaNeighborhoods)
    queries = model.queries(artifact.preprocessing(torch.from_numpy(artifact.samples.images[:50])))
    before = effect_on(model, queries)
    model.raw_step_size.mul_(300)
    after = effect_on(model, queries)
    assert after.weight_change == pytest.approx(300 * before.weight_change, rel=1e-4)
    prediction = model.classify(queries)
    assert prediction.unadapted_logits is not None
    changed = prediction.logits.argmax(-1) != prediction.unadapted_logits.argmax(-1)
    assert after.answer_change == pytest.approx(float(changed.double().mean()))
    assert AdaptationRecord.from_effect(after).acts
    assert not AdaptationRecord.from_effect(before).acts


def test_entries_on_examples_of_their_class_are_consistent_and_named(artifact: ImageArtifact) -> None:
    model = artifact.model
    assert isinstance(model, MetaNeighborhoods)
    split = load_split(artifact.config, "train")
    train = Sample.of(model, artifact.preprocessing, split, np.arange(len(split)))
    labels = torch.from_numpy(split.targets)
    with torch.inference_mode():
        model.dictionary.keys.data = train.queries[:60].clone()
        model.dictionary.value_logits.data = 5 * torch.nn.functional.one_hot(labels[:60], 10).float()
    test = Sample(positions=100 + np.arange(60), queries=train.queries[:60], targets=train.targets[:60])
    record = measure(model, test=test, train=train)
    assert record.consistency is not None
    assert record.agreement is not None
    assert record.neighbors is not None
    assert record.consistency.share > 0.5
    assert not record.consistency.is_noise
    assert record.value_share == pytest.approx(np.exp(5) / (np.exp(5) + 9))
    answers = model.classify(test.queries).logits.argmax(-1)
    largest = model.attention_over_all(test.queries).topk(3).indices
    same = labels[:60][largest] == answers.unsqueeze(1)
    assert record.agreement.share == pytest.approx(float(same.double().mean()))
    assert record.neighbors.answers == tuple(range(100, 160))
    assert all(row[0] == position for position, row in enumerate(record.neighbors.nearest)), "each is its own entry"
    shuffled = replace(train, targets=train.targets[np.random.default_rng(0).permutation(len(split))])
    other = measure(model, test=test, train=shuffled).consistency
    assert other is not None
    assert other.kappa == pytest.approx(0, abs=0.1)
    assert other.is_noise
