"""Draw the splits that a source does not have itself, per class and with a seed.

Shapes: N examples of the pool that is split.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import resample

from mntrain.data.config import DataConfig
from mntrain.data.examples import IndexArray
from mntrain.data.images import ImageData, SourceImages
from mntrain.data.imbalance.drawing import ImbalanceRecord, LabelledPool, draw_imbalance
from mntrain.data.labels import listing
from mntrain.data.split_record import SPLITS, SplitRecord
from mntrain.data.tables import Categories, SourceTable, TableData
from mntrain.data.vocabularies import training_vocabularies
from mntrain.errors import ConfigError, DataError


class _Pool(Protocol):
    """Examples that can be split."""

    @property
    def inputs(self) -> NDArray[Any]: ...

    @property
    def targets(self) -> NDArray[Any]: ...

    def __len__(self) -> int: ...

    def select(self, indices: IndexArray) -> Self: ...


PoolType = TypeVar("PoolType", bound=_Pool)


def split_images(source: SourceImages, config: DataConfig) -> ImageData:
    """Split ``source`` into training, validation and test images, with the record of the split.

    Raises: as :func:`split_table`.
    """
    sets, record = _split(source.splits, source.label_names, source.noun, config, positions=source.positions)
    return ImageData(
        train=sets["train"],
        validation=sets["validation"],
        test=sets["test"],
        label_names=source.label_names,
        split=record,
        account=source.account,
        names=source.names,
    )


def split_table(source: SourceTable, config: DataConfig) -> TableData:
    """Split ``source`` into training, validation and test rows, with the record of the split.

    Splits are drawn in this order from one generator: test, validation, ``train_limit`` or ``imbalance``. So neither
    changes the examples that are held out. Splits that the source has itself are taken as they are. Within a split,
    examples keep the source's order. With ``folds`` the test split is one of the folds of all rows, shuffled.

    Raises:
        DataError: a class cannot be split or is missing from the training examples, or a split would be empty.
        ConfigError: ``train_limit``, ``imbalance``, ``validation_from`` or ``folds`` does not fit the data.
    """
    drawn, record = _split(source.splits, source.label_names, source.noun, config, categories=source.categories)
    sets, categories, account = training_vocabularies(source, drawn)
    return TableData(
        train=sets["train"],
        validation=sets["validation"],
        test=sets["test"],
        feature_names=source.feature_names,
        target_names=source.target_names,
        label_names=source.label_names,
        split=record,
        categories=categories,
        imputation=source.imputation,
        account=account,
        origin=source.origin,
    )


def _split(
    own: Mapping[str, PoolType],
    label_names: tuple[str, ...] | None,
    noun: str,
    config: DataConfig,
    *,
    categories: Categories = MappingProxyType({}),
    positions: Mapping[str, IndexArray] = MappingProxyType({}),
) -> tuple[dict[str, PoolType], SplitRecord]:
    origin = "train" if "train" in own else "all"
    pool = own[origin]
    random = np.random.RandomState(config.split_seed)
    draw = _Draw(targets=pool.targets, label_names=label_names, noun=noun, random=random)
    train: IndexArray = np.arange(len(pool), dtype=np.int64)
    indices: dict[str, IndexArray] = {}
    if config.folds is not None:
        if "test" in own:
            raise ConfigError(
                f"data.folds is {config.folds}, but the data has a test split of its own; leave data.folds out, or "
                "give a single file."
            )
        train, indices["test"] = draw.fold(config.folds, config.fold)
    for name, fraction in (("test", config.test_fraction), ("validation", config.validation_fraction)):
        if name in own:
            indices[name] = np.arange(len(own[name]), dtype=np.int64)
        elif name == "validation" and config.validation_from == "test":
            tested = replace(draw, targets=own["test" if "test" in own else origin].targets)
            indices["test"], indices[name] = tested.hold_out(name, fraction, indices["test"], kept="test")
        elif name not in indices:
            train, indices[name] = draw.hold_out(name, fraction, train)
    indices["train"], imbalance = draw.reduce(config, train)
    left_out = len(train) - len(indices["train"])

    origins = {name: name if name != "train" and name in own else origin for name in SPLITS}
    if config.validation_from == "test":
        origins["validation"] = _validation_origin(own, origins, noun)
    sets = {
        name: part if len(indices[name]) == len(part) else part.select(indices[name])
        for name, part in ((name, own[origins[name]]) for name in SPLITS)
    }
    if label_names is not None:
        _check_classes(sets, label_names, noun, config)
    for name, origin in origins.items():
        indices[name] = positions[origin][indices[name]] if origin in positions else indices[name]
    record = SplitRecord(
        seed=config.split_seed,
        counts={name: len(sets[name]) for name in SPLITS},
        origins=origins,
        indices={name: indices[name] for name in SPLITS},
        sha256=SplitRecord.digest(sets, indices, categories),
        left_out=left_out,
        imbalance=imbalance,
    )
    return sets, record


def _validation_origin(own: Mapping[str, PoolType], origins: Mapping[str, str], noun: str) -> str:
    """Return the source's own split that validation comes from where it is drawn from the test split."""
    if "validation" in own:
        raise ConfigError(
            f"data.validation_from is 'test', but the data has {len(own['validation'])} validation {noun}s of its own; "
            "leave it out."
        )
    return origins["test"]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Draw:
    """Draws positions from a pool, all from one generator; classes in proportion where there are any."""

    targets: NDArray[Any]
    label_names: tuple[str, ...] | None
    noun: str
    random: np.random.RandomState

    def fold(self, folds: int, fold: int) -> tuple[IndexArray, IndexArray]:
        """Return the positions outside and inside fold ``fold`` of ``folds``, both ascending."""
        seed = int(self.random.randint(2**31))
        if len(self.targets) < folds:
            raise DataError(
                f"data.folds is {folds}, but there are {len(self.targets)} {self.noun}s; use fewer folds or more data."
            )
        if self.label_names is None:
            chosen = list(KFold(folds, shuffle=True, random_state=seed).split(self.targets))[fold]
        else:
            self._check_counts(np.arange(len(self.targets)), folds, f"the {folds} folds are made")
            stratified = StratifiedKFold(folds, shuffle=True, random_state=seed)
            chosen = list(stratified.split(self.targets, self.targets))[fold]
        outside, inside = (np.asarray(part, dtype=np.int64) for part in chosen)
        return outside, inside

    def hold_out(
        self, name: str, fraction: float, candidates: IndexArray, *, kept: str = "training"
    ) -> tuple[IndexArray, IndexArray]:
        """Hold out ``fraction`` of the positions for ``name``; ``kept`` is what the others are for.

        Returns:
            The positions that stay and those held out, both ascending.
        """
        self._check_counts(candidates, 2, f"the {name} split is taken")
        count = round(fraction * len(candidates))
        if not 0 < count < len(candidates):
            raise DataError(
                f"data.{name}_fraction is {fraction}, which leaves no {kept if count else name} {self.noun} out of "
                f"{len(candidates)}; use more {self.noun}s or another fraction."
            )
        held_out = self._some(candidates, count)
        return np.setdiff1d(candidates, held_out, assume_unique=True), held_out

    def reduce(self, config: DataConfig, train: IndexArray) -> tuple[IndexArray, ImbalanceRecord | None]:
        """Draw the training positions that ``imbalance`` or ``train_limit`` leaves, with the record of a long tail."""
        if not config.imbalance.active:
            return self.limit(config.train_limit, train), None
        pool = LabelledPool(targets=self.targets, label_names=self.label_names, noun=self.noun)
        return draw_imbalance(pool, train, config.imbalance, self.random)

    def limit(self, limit: int | None, train: IndexArray) -> IndexArray:
        """Draw ``limit`` of the training positions; all of them where there is no limit."""
        if limit is None or limit == len(train):
            return train
        if limit > len(train):
            raise ConfigError(
                f"data.train_limit is {limit}, but only {len(train)} training {self.noun}s are there after the other "
                f"splits are taken; use at most {len(train)}, or leave it out."
            )
        classes = 1 if self.label_names is None else len(np.unique(self.targets[train]))
        if limit < classes:
            raise ConfigError(
                f"data.train_limit is {limit}, fewer than the {classes} classes of the training {self.noun}s; "
                f"use at least {classes}."
            )
        return self._some(train, limit)

    def _check_counts(self, candidates: IndexArray, minimum: int, when: str) -> None:
        if self.label_names is None:
            return
        values, counts = np.unique(self.targets[candidates], return_counts=True)
        few = [repr(self.label_names[value]) for value in values[counts < minimum]]
        if few and minimum == 2:
            raise DataError(
                f"Class {listing(few)} has a single {self.noun} left when {when}, so it cannot be both learned and "
                f"held out; add {self.noun}s of it or remove it."
            )
        if few:
            raise DataError(
                f"Class {listing(few)} has fewer than {minimum} {self.noun}s when {when}; use fewer folds, or add "
                f"{self.noun}s of it."
            )

    def _some(self, candidates: IndexArray, count: int) -> IndexArray:
        """Draw ``count`` of ``candidates`` without replacement, ascending."""
        labels = None if self.label_names is None else self.targets[candidates]
        drawn = resample(candidates, replace=False, n_samples=count, stratify=labels, random_state=self.random)
        return np.sort(np.asarray(drawn, dtype=np.int64))


def _check_classes(sets: Mapping[str, _Pool], label_names: tuple[str, ...], noun: str, config: DataConfig) -> None:
    known = np.unique(sets["train"].targets)
    for name in ("validation", "test"):
        unknown = np.setdiff1d(sets[name].targets, known)
        if len(unknown):
            labels = listing([repr(label_names[value]) for value in unknown])
            remedy = f"add training {noun}s of each class, or remove the class"
            if config.train_limit is not None:
                remedy = f"raise data.train_limit (now {config.train_limit}), or {remedy}"
            raise DataError(
                f"The {name} split holds classes that have no training {noun}: {labels}; {remedy}. "
                "(Data whose splits hold different classes, as for few-shot learning, has to be joined "
                "first.)"
            )
