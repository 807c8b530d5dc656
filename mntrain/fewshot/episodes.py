"""Episodes: small tasks of classification, drawn from images of many classes.

Shapes: N images, W ways (classes of an episode), S shots (support images of a class), Q queries of a class.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mntrain.data.examples import IndexArray
from mntrain.data.labels import listing
from mntrain.errors import ConfigError, DataError


@dataclass(frozen=True, kw_only=True)
class EpisodeShape:
    """Size of an episode.

    Args:
        ways: W.
        shots: S.
        queries: Q.

    Raises:
        ConfigError: an episode would have fewer than two classes, or no images.
    """

    ways: int = 5
    shots: int = 1
    queries: int = 15

    def __post_init__(self) -> None:
        for name, least in (("ways", 2), ("shots", 1), ("queries", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"--{name} is {getattr(self, name)}; it must be at least {least}.")

    @property
    def images(self) -> int:
        """Images of a class that an episode takes."""
        return self.shots + self.queries


@dataclass(frozen=True, kw_only=True, eq=False)
class Episode:
    """One task: classes in random order, numbered from 0 to W − 1.

    Args:
        classes: labels of the classes, int64 [W].
        support: positions of the support images, int64 [W·S], class by class.
        queries: positions of the query images, int64 [W·Q], class by class; none of them is in the support.
        support_labels: class within the episode of each support image, int64 [W·S].
        query_labels: class within the episode of each query, int64 [W·Q].
    """

    classes: IndexArray
    support: IndexArray
    queries: IndexArray
    support_labels: IndexArray
    query_labels: IndexArray


class Episodes:
    """Episodes of one set of images; each is a function of seed and number, so that any order gives the same ones.

    Args:
        labels: class of each image, int64 [N].
        names: name of each class.
        shape: of every episode.
        seed: 0 or above.
        source: the images in words, for messages.
        instead: what else to do where a class has too few images.

    Raises:
        ConfigError: more ways than classes, or a negative seed.
        DataError: a class has fewer images than an episode takes.
    """

    def __init__(
        self,
        labels: IndexArray,
        names: Sequence[str],
        shape: EpisodeShape,
        seed: int,
        *,
        source: str = "the images",
        instead: str = "add images or remove those classes",
    ) -> None:
        if seed < 0:
            raise ConfigError(f"--seed is {seed}; it must be 0 or above.")
        self.shape, self.seed = shape, seed
        self._classes = np.unique(labels)
        self._positions = [np.flatnonzero(labels == label) for label in self._classes]
        if shape.ways > len(self._classes):
            raise ConfigError(
                f"--ways is {shape.ways}, but {source} are of {len(self._classes)} class(es); choose at most as many."
            )
        counts = {names[label]: len(found) for label, found in zip(self._classes, self._positions, strict=True)}
        few = [f"{name!r} ({count})" for name, count in counts.items() if count < shape.images]
        if few:
            least = min(counts.values())
            fitting = {"queries": least - shape.shots, "shots": least - shape.queries}
            choices = " or ".join(f"--{name} {count}" for name, count in fitting.items() if count > 0)
            remedy = f"choose {choices or 'fewer --shots and --queries'}"
            raise DataError(
                f"An episode takes {shape.images} images of a class ({shape.shots} shots and {shape.queries} queries), "
                f"but among {source} there are classes with fewer: {listing(few)}; {remedy}, or {instead}."
            )

    def draw(self, number: int) -> Episode:
        """Draw the episode of a number, from 0 on."""
        generator = np.random.default_rng((self.seed, number))
        shape = self.shape
        chosen = generator.choice(len(self._classes), shape.ways, replace=False)
        rows = np.stack([generator.choice(self._positions[index], shape.images, replace=False) for index in chosen])
        ways = np.arange(shape.ways, dtype=np.int64)
        return Episode(
            classes=self._classes[chosen],
            support=rows[:, : shape.shots].reshape(-1),
            queries=rows[:, shape.shots :].reshape(-1),
            support_labels=np.repeat(ways, shape.shots),
            query_labels=np.repeat(ways, shape.queries),
        )
