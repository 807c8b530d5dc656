"""Episodes: what is drawn, in any order, and what is refused."""

import numpy as np
import pytest

from mntrain.errors import ConfigError, DataError
from mntrain.fewshot.episodes import Episodes, EpisodeShape

LABELS = np.repeat(np.array([7, 2, 5, 0], dtype=np.int64), 6)
NAMES = [f"class {number}" for number in range(8)]


def episodes(seed: int = 3, **shape: int) -> Episodes:
    return Episodes(LABELS, NAMES, EpisodeShape(**({"ways": 3, "shots": 2, "queries": 4} | shape)), seed)


def test_support_and_queries_are_disjoint_and_of_the_classes_that_their_labels_say() -> None:
    drawn = episodes()
    for number in range(50):
        episode = drawn.draw(number)
        assert len(set(episode.classes)) == 3
        assert not set(episode.support) & set(episode.queries)
        assert len(set(episode.support)) == 3 * 2
        assert len(set(episode.queries)) == 3 * 4
        assert (LABELS[episode.support] == episode.classes[episode.support_labels]).all()
        assert (LABELS[episode.queries] == episode.classes[episode.query_labels]).all()


def test_an_episode_follows_from_seed_and_number_in_any_order() -> None:
    forth = [episodes().draw(number).queries for number in range(5)]
    drawn = episodes()
    back = [drawn.draw(number).queries for number in reversed(range(5))][::-1]
    assert np.array_equal(forth, back)
    assert not np.array_equal(forth[0], forth[1])
    assert not np.array_equal(forth[0], episodes(seed=4).draw(0).queries)


def test_every_class_and_image_comes_in_time() -> None:
    drawn = episodes()
    seen = [drawn.draw(number) for number in range(200)]
    assert {int(position) for one in seen for position in one.queries} == set(range(len(LABELS)))
    assert {int(position) for one in seen for position in one.support} == set(range(len(LABELS)))
    assert {tuple(one.classes) for one in seen} == {
        (a, b, c) for a in (0, 2, 5, 7) for b in (0, 2, 5, 7) for c in (0, 2, 5, 7) if len({a, b, c}) == 3
    }


def test_more_ways_than_classes_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"--ways is 5, but the images are of 4 class\(es\)"):
        episodes(ways=5)


def test_classes_with_too_few_images_are_named() -> None:
    labels = np.append(LABELS, [1, 1, 1]).astype(np.int64)
    with pytest.raises(DataError, match=r"takes 6 images .* 'class 1' \(3\); choose --queries 1, or add images"):
        Episodes(labels, NAMES, EpisodeShape(ways=2, shots=2, queries=4), 0)
    with pytest.raises(DataError, match=r"fewer: 'class 1' \(3\); choose --shots 2, or add images or remove"):
        Episodes(labels, NAMES, EpisodeShape(ways=2, shots=3, queries=1), 0)


@pytest.mark.parametrize(("name", "least"), [("ways", 2), ("shots", 1), ("queries", 1)])
def test_an_episode_without_a_task_is_refused(name: str, least: int) -> None:
    with pytest.raises(ConfigError, match=f"--{name} is {least - 1}; it must be at least {least}"):
        EpisodeShape(**{name: least - 1})


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ConfigError, match="--seed is -1"):
        episodes(seed=-1)
