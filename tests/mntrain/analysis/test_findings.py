"""What the sections compute, against independent ways to compute it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from mntrain.analysis.ablation import ablate
from mntrain.analysis.accuracy import adaptation_accuracy
from mntrain.analysis.embedding import embed
from mntrain.analysis.neighbours import nearest_images
from mntrain.analysis.observation import Observed, observe
from mntrain.analysis.prototypes import prototype_cosines
from mntrain.analysis.retrieval import retrieve
from mntrain.analysis.subject import Subject
from mntrain.analysis.usage import usage
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods


@pytest.fixture
def model(subject: Subject) -> MetaNeighborhoods:
    assert subject.adaptive is not None
    return subject.adaptive


def test_all_test_images_give_the_accuracy_of_the_run(subject: Subject) -> None:
    everything = observe(
        subject.artifact.model, subject.artifact.preprocessing, "test", subject.data.test, len(subject.data.test)
    )
    assert everything.unadapted is not None
    found = adaptation_accuracy(everything.unadapted, everything.logits, everything.labels)
    recorded = subject.artifact.config.metrics["test"]
    assert found.after == pytest.approx(recorded["accuracy"])
    assert found.before == pytest.approx(recorded["unadapted_accuracy"])


def test_accuracy_by_class_counts_what_adaptation_changes() -> None:
    before = torch.tensor([[1.0, 0], [0, 1], [1, 0], [0, 1]])
    after = torch.tensor([[1.0, 0], [1, 0], [0, 1], [0, 1]])
    found = adaptation_accuracy(before, after, torch.tensor([0, 0, 0, 1]))
    assert (found.before, found.after, found.corrected, found.broken) == (0.75, 0.75, 1, 1)
    assert (found.classes[0].before, found.classes[0].after) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert found.classes[1].images == 1


def test_a_sample_is_drawn_once_and_keeps_its_positions(subject: Subject, observed: Observed) -> None:
    assert len(observed.indices) == 200
    assert observed.total == 359
    np.testing.assert_array_equal(observed.images.images, subject.data.test.images[observed.indices])


def test_cosine_after_the_update_is_what_the_model_answers_with(model: MetaNeighborhoods, observed: Observed) -> None:
    assert observed.features is not None
    assert observed.unadapted is not None
    found = prototype_cosines(model, observed.features, observed.labels)
    assert found is not None
    mine = observed.labels.unsqueeze(-1)
    torch.testing.assert_close(found.after, (observed.logits / model.head.scale).gather(1, mine).squeeze(1))
    torch.testing.assert_close(found.before, (observed.unadapted / model.head.scale).gather(1, mine).squeeze(1))
    assert 0 <= found.share_closer <= 1


@pytest.mark.parametrize("kind", ["cosine", "euclidean"])
def test_nearest_images_by_the_similarity_of_the_model(
    model: MetaNeighborhoods, observed: Observed, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "similarity", kind)
    assert observed.features is not None
    assert observed.attention is not None
    found = nearest_images(model, observed.features, observed.attention)
    assert found
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


def test_effective_number_of_entries() -> None:
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


def test_another_head_has_no_prototypes(subject: Subject, observed: Observed) -> None:
    from mntrain.artifact import build_model

    experiment = subject.artifact.config.experiment
    dot = build_model(replace(experiment, model=replace(experiment.model, head="dot")), (1, 8, 8), 10)
    assert isinstance(dot, MetaNeighborhoods)
    assert observed.features is not None
    assert prototype_cosines(dot, observed.features, observed.labels) is None
