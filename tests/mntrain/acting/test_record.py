"""Figures and verdicts on what adaptation does, on models whose effect is known."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from mntrain.acting.record import (
    AdaptationRecord,
    agreement_of,
    effect_on,
    entry_agreement,
    model_queries,
)
from mntrain.artifact import ImageArtifact, load_artifact
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods
from mntrain.training.artifact_data import load_split
from mntrain.training.evaluation import ACCURACY, MSE
from mntrain.training.stored_run import read_metrics

RECORD = AdaptationRecord(examples=100, weight_change=0.031, answer_change=0.004, gain=0.0005)


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
    assert record.agreement is not None
    assert record.agreement.examples == len(load_split(artifact.config, "train"))
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
    assert after.acts
    assert not before.acts


def test_entries_on_examples_of_their_class_agree_and_shuffled_ones_do_not(artifact: ImageArtifact) -> None:
    model = artifact.model
    assert isinstance(model, MetaNeighborhoods)
    train = load_split(artifact.config, "train")
    features = model_queries(model, artifact.preprocessing, train, np.arange(len(train)))
    labels = torch.from_numpy(train.targets)
    with torch.inference_mode():
        model.dictionary.keys.data = features[:60].clone()
        model.dictionary.value_logits.data = 5 * torch.nn.functional.one_hot(labels[:60], 10).float()
    agreement = entry_agreement(model, features, labels)
    assert agreement.share > 0.5
    assert not agreement.is_noise
    assert agreement.verdict() is None
    shuffled = entry_agreement(model, features, labels[torch.randperm(len(labels), generator=torch.manual_seed(0))])
    assert shuffled.kappa == pytest.approx(0, abs=0.1)
    assert shuffled.is_noise


def test_share_chance_and_kappa_are_those_of_the_definition() -> None:
    entries, found = np.array([0, 0, 1, 1, 1, 2]), np.array([0, 1, 1, 1, 0, 2])
    agreement = agreement_of(entries, found, examples=50, nearest=1)
    chance = (2 * 2 + 3 * 3 + 1 * 1) / 36
    assert agreement.share == pytest.approx(4 / 6)
    assert agreement.chance == pytest.approx(chance)
    assert agreement.kappa == pytest.approx((4 / 6 - chance) / (1 - chance))
    assert agreement_of(np.zeros(4, int), np.zeros(4, int), examples=4, nearest=1).is_noise, "one class tells nothing"


def test_verdicts_name_the_figures_and_stay_silent_where_all_is_well() -> None:
    noise = agreement_of(np.arange(20) % 2, (np.arange(20) // 2) % 2, examples=20, nearest=1)
    idle, meaningless = replace(RECORD, agreement=noise).verdicts()
    assert "hardly acts" in idle
    assert "3.1%" in idle
    assert "50.0% of the training examples nearest to an entry have its class (by chance 50.0%)" in meaningless
    clear = agreement_of(np.arange(20) % 2, np.arange(20) % 2, examples=20, nearest=1)
    assert replace(RECORD, answer_change=0.1, agreement=clear).verdicts() == []


def test_the_record_is_read_as_it_was_written() -> None:
    record = replace(RECORD, agreement=agreement_of(np.array([0, 1]), np.array([1, 1]), examples=2, nearest=1))
    assert AdaptationRecord.from_metrics({"adaptation": record.to_json()}) == record
    assert AdaptationRecord.from_metrics({"adaptation": None}) is None
    assert AdaptationRecord.from_metrics({}) is None


def test_words_fit_the_metric() -> None:
    assert RECORD.describe(ACCURACY) == (
        "adaptation changes the weights of the classifier by 3.1%; 0.4% of the answers change, accuracy +0.05%"
    )
    assert RECORD.describe(MSE) == (
        "adaptation changes the weights of the network by 3.1%; answers move by 0.004 deviations of the target, "
        "mse +0.0005"
    )
