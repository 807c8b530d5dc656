"""Figures of the sections, against independent ways to compute them."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from mntrain.analysis.ablation import ablate, accuracy_with
from mntrain.analysis.accuracy import adaptation_accuracy
from mntrain.analysis.embedding import embed
from mntrain.analysis.neighbors import nearest_images
from mntrain.analysis.observation import Observed, observe
from mntrain.analysis.prototypes import PrototypeCosines, prototype_cosines
from mntrain.analysis.report_input import ReportInput
from mntrain.analysis.retrieval import retrieve
from mntrain.analysis.usage import usage
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods


@pytest.fixture
def model(report_input: ReportInput) -> MetaNeighborhoods:
    assert isinstance(report_input.adaptive, MetaNeighborhoods)
    return report_input.adaptive


def test_all_test_images_give_the_accuracy_of_the_run(report_input: ReportInput) -> None:
    everything = observe(
        report_input.artifact.model,
        report_input.artifact.preprocessing,
        "test",
        report_input.data.test,
        len(report_input.data.test),
    )
    assert everything.unadapted is not None
    found = adaptation_accuracy(everything.unadapted, everything.logits, everything.labels)
    recorded = report_input.artifact.config.metrics["test"]
    assert found.after == pytest.approx(recorded["accuracy"])
    assert found.before == pytest.approx(recorded["unadapted_accuracy"])


def test_accuracy_by_class_counts_what_adaptation_changes() -> None:
    before = torch.tensor([[0.0, 1], [0, 1], [1, 0], [0, 1]])
    after = torch.tensor([[1.0, 0], [1, 0], [0, 1], [0, 1]])
    found = adaptation_accuracy(before, after, torch.tensor([0, 0, 0, 1]))
    assert (found.before, found.after, found.corrected, found.broken) == (0.5, 0.75, 2, 1)
    assert (found.classes[0].before, found.classes[0].after) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert (found.classes[1].images, found.classes[1].before, found.classes[1].after) == (1, 1, 1)


def test_images_that_come_closer_lie_above_the_diagonal() -> None:
    found = PrototypeCosines(before=torch.tensor([0.0, 0.1, 0.5]), after=torch.tensor([1.0, 0.2, 0.4]))
    assert found.share_closer == pytest.approx(2 / 3)


def test_a_sample_is_drawn_once_and_keeps_its_positions(report_input: ReportInput, observed: Observed) -> None:
    assert len(observed.indices) == 200
    assert observed.total == 359
    np.testing.assert_array_equal(observed.images, report_input.data.test.inputs[observed.indices])


def test_cosine_after_the_update_is_what_the_model_answers_with(model: MetaNeighborhoods, observed: Observed) -> None:
    assert observed.features is not None
    assert observed.unadapted is not None
    found = prototype_cosines(model, observed.features, observed.labels)
    assert found is not None
    mine = observed.labels.unsqueeze(-1)
    torch.testing.assert_close(found.after, (observed.logits / model.head.scale).gather(1, mine).squeeze(1))
    torch.testing.assert_close(found.before, (observed.unadapted / model.head.scale).gather(1, mine).squeeze(1))


@pytest.mark.parametrize("kind", ["cosine", "euclidean"])
def test_nearest_images_by_the_similarity_of_the_model(
    model: MetaNeighborhoods, observed: Observed, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "similarity", kind)
    assert observed.features is not None
    assert observed.attention is not None
    found = nearest_images(model, observed.features, observed.attention)
    share = observed.attention.mean(dim=0)
    classes = model.dictionary.value_logits.argmax(dim=-1)
    for index in {one.entry_class for one in found}:
        mine = [entry for entry in range(len(classes)) if classes[entry] == index]
        most = sorted(mine, key=lambda entry: -float(share[entry]))[:3]
        assert [one.entry for one in found if one.entry_class == index] == most
    assert {one.entry_class for one in found} == set(classes.tolist())
    for one in found:
        key = model.dictionary.keys[one.entry]
        distance = (
            1 - torch.cosine_similarity(observed.features, key.unsqueeze(0))
            if kind == "cosine"
            else (observed.features - key).norm(dim=-1)
        )
        shown = distance[list(one.images)]
        torch.testing.assert_close(shown, distance.sort().values[:5], rtol=1e-4, atol=1e-5)
        assert one.entry_class == int(model.dictionary.value_logits[one.entry].argmax())


def test_the_effective_number_of_entries_is_1_for_one_and_s_for_all() -> None:
    even, single = torch.full((1, 20), 1 / 20), torch.nn.functional.one_hot(torch.tensor([3]), 20).float()
    torch.testing.assert_close(usage(even).effective, torch.tensor([20.0]))
    torch.testing.assert_close(usage(single).effective, torch.tensor([1.0]))
    found = usage(torch.cat([single, single]))
    assert found.never_top == 10
    assert found.mass[0] == 1
    assert found.largest == 1


def test_knn_votes_among_the_nearest_by_direction() -> None:
    directions = torch.tensor([[1.0, 0], [0, 1]])
    references = torch.cat([one * torch.arange(1, 13).unsqueeze(-1) for one in directions])
    labels = np.repeat([4, 2], 12)
    found = retrieve(references, directions * 7)
    assert found.nearest.shape == (2, 10)
    assert found.accuracy(labels, np.array([4, 2])) == 1
    assert found.accuracy(labels, np.array([4, 4])) == 0.5


def test_length_does_not_count_among_directions() -> None:
    """By distance the query would be nearer to the long references, by direction to the short ones."""
    short, long = torch.tensor([[1.0, 0.05]]) * 0.01, torch.tensor([[7.0, 7.0]])
    references = torch.cat([short * torch.arange(1, 13).unsqueeze(-1), long + torch.zeros(12, 1)])
    assert retrieve(references, torch.tensor([[7.0, 0.5]])).accuracy(np.repeat([1, 0], 12), np.array([1])) == 1


def test_of_many_classes_those_with_most_attention_are_shown(model: MetaNeighborhoods) -> None:
    many = copy.deepcopy(model)
    many.dictionary.value_logits = torch.nn.Parameter(torch.eye(60))
    weights = torch.arange(1.0, 61.0).softmax(-1).expand(4, 60)
    found = nearest_images(many, torch.randn(8, model.dictionary.keys.shape[1]), weights)
    assert [one.entry_class for one in found] == list(range(30, 60))


def test_fewer_entries_and_another_temperature_are_another_model(model: MetaNeighborhoods, observed: Observed) -> None:
    kept, temperature = torch.tensor([3, 17, 40]), 0.03
    assert observed.features is not None
    strong = copy.deepcopy(model)
    strong.raw_step_size.data.fill_(40.0)
    other = copy.deepcopy(strong)
    other.temperature = temperature
    for name in ("keys", "value_logits"):
        setattr(other.dictionary, name, torch.nn.Parameter(getattr(model.dictionary, name)[kept]))
    with torch.inference_mode():
        expected = (other.classify(observed.features).logits.argmax(dim=-1) == observed.labels).float().mean()
    found = accuracy_with(strong, observed.features, observed.labels, kept, temperature)
    assert found == pytest.approx(float(expected))
    everything = torch.arange(60)
    assert found != accuracy_with(strong, observed.features, observed.labels, everything, temperature)
    assert found != accuracy_with(strong, observed.features, observed.labels, kept, 3.0)


def test_all_entries_at_the_trained_temperature_change_nothing(model: MetaNeighborhoods, observed: Observed) -> None:
    assert observed.features is not None
    found = ablate(model, observed.features, observed.labels)
    trained = float((observed.logits.argmax(dim=-1) == observed.labels).float().mean())
    assert found.entries[-1].value == 60
    assert found.entries[-1].accuracies == (pytest.approx(trained),)
    middle = found.temperatures[len(found.temperatures) // 2]
    assert (middle.value, middle.accuracies) == (model.temperature, (pytest.approx(trained),))
    assert [len(point.accuracies) for point in found.entries[:-1]] == [3] * (len(found.entries) - 1)


def test_an_embedding_is_the_same_each_time(model: MetaNeighborhoods, observed: Observed) -> None:
    assert observed.features is not None
    keys, values = model.dictionary.keys, model.dictionary.values()
    first, second = (embed(observed.features, observed.labels, keys, values, cosine=True) for _ in range(2))
    assert first.images.shape == (200, 2)
    assert first.entries.shape == (60, 2)
    np.testing.assert_array_equal(first.images, second.images)
    np.testing.assert_array_equal(first.entry_classes, values.argmax(dim=-1))
    order = np.random.default_rng(0).permutation(200)
    np.testing.assert_array_equal(first.image_classes, observed.labels[order])


def test_lengths_move_nothing_in_an_embedding_of_directions(model: MetaNeighborhoods, observed: Observed) -> None:
    assert observed.features is not None
    values = model.dictionary.values()
    for cosine in (True, False):
        plain, longer = (
            embed(observed.features, observed.labels, factor * model.dictionary.keys, values, cosine=cosine).images
            for factor in (1, 8)
        )
        assert np.allclose(plain, longer) == cosine


def test_another_head_has_no_prototypes(report_input: ReportInput, observed: Observed) -> None:
    from mntrain.models.build import build_model

    experiment = report_input.artifact.config.experiment
    dot = build_model(replace(experiment, model=replace(experiment.model, head="dot")), (1, 8, 8), 10)
    assert isinstance(dot, MetaNeighborhoods)
    assert observed.features is not None
    assert prototype_cosines(dot, observed.features, observed.labels) is None
