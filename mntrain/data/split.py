"""Train, validation and test: what the source does not split itself is split here, per class and seeded."""

from __future__ import annotations

import numpy as np
from sklearn.utils import resample

from mntrain.data.config import DataConfig
from mntrain.data.images import SPLITS, ImageData, ImageSet, IndexArray, SourceImages, SplitRecord
from mntrain.data.labels import listing
from mntrain.errors import ConfigError, DataError

__all__ = ["split_images"]


def split_images(source: SourceImages, config: DataConfig) -> ImageData:
    """The three splits of ``source``, and the record of which image went where.

    Drawn in this order from one generator: test, validation, ``train_limit``; so a limit never changes what
    is held out. Splits that the source has itself are taken as they are. Within a split, images keep the
    source's order.

    Raises:
        DataError: a class cannot be split or is missing from the training images, or a split would be empty.
        ConfigError: ``train_limit`` does not fit the data.
    """
    pool_name = "train" if "train" in source.splits else "all"
    pool = source.splits[pool_name]
    random = np.random.RandomState(config.split_seed)
    train: IndexArray = np.arange(len(pool), dtype=np.int64)
    indices: dict[str, IndexArray] = {}
    for name, fraction in (("test", config.test_fraction), ("validation", config.validation_fraction)):
        if name in source.splits:
            indices[name] = np.arange(len(source.splits[name]), dtype=np.int64)
        else:
            train, indices[name] = _hold_out(name, fraction, train, pool, source.label_names, random)
    indices["train"] = _limit(config.train_limit, train, pool, source.label_names, random)

    origins = {name: name if name != "train" and name in source.splits else pool_name for name in SPLITS}
    sets = {
        name: part if len(indices[name]) == len(part) else part.select(indices[name])
        for name, part in ((name, source.splits[origins[name]]) for name in SPLITS)
    }
    _check_classes(sets, source.label_names, config)
    record = SplitRecord(
        seed=config.split_seed,
        counts={name: len(sets[name]) for name in SPLITS},
        origins=origins,
        indices={name: indices[name] for name in SPLITS},
        sha256=SplitRecord.digest(sets, indices),
    )
    return ImageData(
        train=sets["train"],
        validation=sets["validation"],
        test=sets["test"],
        label_names=source.label_names,
        split=record,
    )


def _hold_out(
    name: str,
    fraction: float,
    candidates: IndexArray,
    pool: ImageSet,
    label_names: tuple[str, ...],
    random: np.random.RandomState,
) -> tuple[IndexArray, IndexArray]:
    """Positions that stay and positions that are held out (``fraction`` of them), both ascending."""
    labels = pool.labels[candidates]
    values, counts = np.unique(labels, return_counts=True)
    single = [label_names[value] for value in values[counts == 1]]
    if single:
        raise DataError(
            f"Class {listing([repr(label) for label in single])} has a single image left when the {name} "
            "split is taken, so it cannot be both learned and held out; add images of it or remove it."
        )
    count = round(fraction * len(candidates))
    if not 0 < count < len(candidates):
        kept = "training" if count else name
        raise DataError(
            f"data.{name}_fraction is {fraction}, which leaves no {kept} image out of {len(candidates)}; "
            "use more images or another fraction."
        )
    held = _draw(candidates, labels, count, random)
    return np.setdiff1d(candidates, held, assume_unique=True), held


def _limit(
    limit: int | None,
    train: IndexArray,
    pool: ImageSet,
    label_names: tuple[str, ...],
    random: np.random.RandomState,
) -> IndexArray:
    if limit is None or limit == len(train):
        return train
    if limit > len(train):
        raise ConfigError(
            f"data.train_limit is {limit}, but only {len(train)} training images are there after the other "
            f"splits are taken; use at most {len(train)}, or leave it out."
        )
    labels = pool.labels[train]
    classes = len(np.unique(labels))
    if limit < classes:
        raise ConfigError(
            f"data.train_limit is {limit}, fewer than the {classes} classes of the training images; "
            f"use at least {classes}."
        )
    return _draw(train, labels, limit, random)


def _draw(candidates: IndexArray, labels: IndexArray, count: int, random: np.random.RandomState) -> IndexArray:
    """``count`` of ``candidates`` without replacement, each class in proportion; ascending int64."""
    drawn = resample(candidates, replace=False, n_samples=count, stratify=labels, random_state=random)
    return np.sort(np.asarray(drawn, dtype=np.int64))


def _check_classes(sets: dict[str, ImageSet], label_names: tuple[str, ...], config: DataConfig) -> None:
    known = np.unique(sets["train"].labels)
    for name in ("validation", "test"):
        unknown = np.setdiff1d(sets[name].labels, known)
        if len(unknown):
            labels = listing([repr(label_names[value]) for value in unknown])
            remedy = "add training images of each class, or remove the class"
            if config.train_limit is not None:
                remedy = f"raise data.train_limit (now {config.train_limit}), or {remedy}"
            raise DataError(
                f"The {name} split holds classes that have no training image: {labels}; {remedy}. "
                "(Data whose splits hold different classes, as for few-shot learning, has to be joined "
                "first.)"
            )
