"""Heads of several methods on several stores of features, each kept in a folder of its own.

::

    runs/NAME/artifact/      the head as an artifact, where it is linear
    runs/NAME/head.json      scores, classes, sweeps and coefficients
    runs/NAME/metrics.json   scores in short, as those of any run
    runs/NAME/config.yaml    method and settings
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mntrain.config import check_run_name
from mntrain.errors import ConfigError, DataError
from mntrain.feature_store.store import FeatureStore, open_store
from mntrain.heads.comparison import HeadComparison
from mntrain.heads.comparison_files import COMPARISON, write_comparison
from mntrain.heads.feature_scale import FeatureScale, finite_chunks
from mntrain.heads.groups import ClassGroups
from mntrain.heads.maker import HeadMaker
from mntrain.heads.methods.registry import TRAINED, NamedMethod
from mntrain.heads.record import RECORD, HeadRecord
from mntrain.heads.settings import HeadSections
from mntrain.run_progress import RunProgress


@dataclass(frozen=True, kw_only=True)
class HeadOptions:
    """Methods, stores and folders.

    Args:
        methods: to run on every store.
        stores: folders of features.
        seeds: of every method on every store.
        settings: of methods, in sections.
        fit_words: fields of the recipe ``features``, for methods that train a family.
        runs: folder of all runs.
        name: start of the names of runs; None takes the name of the store.
        output: folder of the comparison; None takes one in ``runs``.
        baseline: method that differences are taken to; None takes joint, else the first.
        overwrite: replace earlier runs of the same names.
        quiet: no progress.
    """

    methods: tuple[NamedMethod, ...]
    stores: tuple[Path, ...]
    seeds: tuple[int, ...] = (0,)
    settings: HeadSections = field(default_factory=HeadSections)
    fit_words: tuple[str, ...] = ()
    runs: Path = Path("runs")
    name: str | None = None
    output: Path | None = None
    baseline: str | None = None
    overwrite: bool = False
    quiet: bool = False

    def __post_init__(self) -> None:
        if len({store.resolve().name for store in self.stores}) < len(self.stores):
            raise ConfigError(
                f"Stores are {', '.join(map(str, self.stores))}; runs are named by the last folder, so give each of "
                "them another name."
            )
        if (
            not self.seeds
            or len(set(self.seeds)) < len(self.seeds)
            or not all(0 <= seed < 2**31 for seed in self.seeds)
        ):
            raise ConfigError(f"--seeds is {self.seeds}; give whole numbers from 0 to {2**31 - 1}, each of them once.")
        names = [method.name for method in self.methods]
        if self.fit_words and all(method.name != TRAINED for method in self.methods):
            raise ConfigError(
                f"{self.fit_words[0]} is a field of the method {TRAINED!r}, which is none of "
                f"{', '.join(names)}; leave it out, or add the method."
            )
        if self.baseline is not None and self.baseline not in names:
            raise ConfigError(f"--baseline is {self.baseline!r}, which is not among the methods {', '.join(names)}.")
        if self.name is not None and len(self.stores) > 1:
            raise ConfigError(
                f"--name is {self.name!r}, but there are {len(self.stores)} stores, whose runs are named by them; "
                "leave it out."
            )

    def folder(self, store: Path, method: str, seed: int) -> Path:
        """Return the folder of one head."""
        suffix = "" if self.seeds == (0,) else f"-seed{seed}"
        return self.runs / f"{self.name or store.resolve().name}-{method}{suffix}"

    def folders(self) -> list[Path]:
        """List the folders of all heads, in the order in which they are made."""
        return [
            self.folder(store, method.name, seed)
            for store in self.stores
            for seed in self.seeds
            for method in self.methods
        ]

    @property
    def comparison_folder(self) -> Path | None:
        """Folder of the comparison; None where one head alone is made."""
        if self.output is None and len(self.folders()) == 1:
            return None
        return self.output or self.runs / f"heads-{self.name or self.stores[0].resolve().name}"


def compare_heads(options: HeadOptions) -> HeadComparison:
    """Make a head of each method on each store with each seed, write them, and compare them.

    Raises:
        ConfigError: a run is there already, or a method does not fit the store.
        DataError: a store cannot be used.
        TrainingError: training fails, or a folder cannot be written.
    """
    _check_folders(options)
    opened = [usable_store(path) for path in options.stores]
    _check_classes(opened)
    _check_copies(opened)
    _check_groups(options, opened)
    records: list[HeadRecord] = []
    with RunProgress(len(options.folders()), quiet=options.quiet) as progress:
        for path, store in zip(options.stores, opened, strict=True):
            scale = FeatureScale.of(store.train.features, f"training rows of {path}")
            if scale.left_out:
                progress.say(
                    f"{path}: {scale.left_out} of {store.features} features have one value in all training rows and "
                    "are left out"
                )
            for seed in options.seeds:
                maker = HeadMaker(
                    store=store, scale=scale, settings=options.settings, seed=seed, fit_words=options.fit_words
                )
                for method in options.methods:
                    folder = options.folder(path, method.name, seed)
                    record = maker.keep(method, folder)
                    records.append(record)
                    note = "" if (folder / "artifact").is_dir() else " (no artifact: the head is not linear)"
                    progress.finish_run(
                        f"{folder}: test accuracy {record['scores']['test']['all']['accuracy']:.2%}{note}"
                    )
                    for sentence in record["notes"]:
                        progress.say(f"{folder}: {sentence}")
    comparison = HeadComparison.of(records, options.baseline)
    if options.comparison_folder is not None:
        write_comparison(options.comparison_folder, comparison)
    return comparison


def usable_store(path: Path) -> FeatureStore:
    """Open a store, and check that heads can learn from it.

    Raises:
        DataError: a class has no training row, or a value is not finite.
    """
    store = open_store(path)
    empty = [name for name, count in zip(store.label_names, store.counts, strict=True) if not count]
    if empty:
        raise DataError(
            f"{len(empty)} class(es) of {path} have no training row, {empty[0]!r} among them; write the store again "
            "without them (--data.classes), or with examples of them."
        )
    for name in ("validation", "test"):
        for _ in finite_chunks(store.part(name).features, f"{name} rows of {path}"):
            pass
    return store


def _check_classes(stores: Sequence[FeatureStore]) -> None:
    """Refuse stores of other classes, whose scores cannot be averaged."""
    first, *others = stores
    for store in others:
        if store.label_names != first.label_names:
            changed = [name for name in store.label_names if name not in first.label_names]
            reason = f"such as {changed[0]!r}" if changed else "or the same in another order"
            raise ConfigError(
                f"{store.path} has other classes than {first.path}, {reason}; heads are compared over stores of the "
                "same classes. Give stores of other classes a command of their own."
            )


def _check_copies(stores: Sequence[FeatureStore]) -> None:
    """Refuse the same features in two folders, which are no two samples of anything."""
    found: dict[str, Path] = {}
    for store in stores:
        if (other := found.setdefault(store.sha256, store.path)) != store.path:
            raise ConfigError(
                f"{store.path} has the same features and labels as {other}; a copy is no second store to compare heads "
                "over. Leave it out."
            )


def _check_groups(options: HeadOptions, stores: Sequence[FeatureStore]) -> None:
    """Refuse methods for classes of few on stores that have none, or too few others, before any head is made."""
    shared = options.settings.head
    for store in stores:
        groups = ClassGroups(counts=store.counts, many=shared.many, few=shared.few)
        for method in options.methods:
            if method.method.base_classes is not None:
                groups.require_few(method.name, method.method.base_classes(options.settings))


def _check_folders(options: HeadOptions) -> None:
    """Refuse wrong names, and folders that are there already, before any head is made."""
    compared = options.comparison_folder
    for folder in options.folders():
        check_run_name(folder.name)
    written = [(folder, RECORD) for folder in options.folders()]
    for folder, file in [*written, *([] if compared is None else [(compared, COMPARISON)])]:
        if not folder.exists() and not folder.is_symlink():
            continue
        if not options.overwrite:
            raise ConfigError(f"{folder} exists already; choose another --name, or replace it with --overwrite.")
        if folder.is_symlink() or not (folder / file).is_file():
            raise ConfigError(f"{folder} is no result of `mntrain head` and is left alone; choose another --name.")
