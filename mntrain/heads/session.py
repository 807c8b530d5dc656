"""Heads of several methods on several stores of features, each kept in a folder of its own.

::

    runs/NAME/artifact/      the head as an artifact, where it is linear
    runs/NAME/head.json      scores, classes, sweeps and coefficients
    runs/NAME/metrics.json   scores in short, as those of any run
    runs/NAME/config.yaml    method and settings
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from mntrain.errors import ConfigError
from mntrain.feature_store.store import FeatureStore
from mntrain.heads.comparison import HeadComparison
from mntrain.heads.comparison_files import write_comparison
from mntrain.heads.feature_scale import FeatureScale
from mntrain.heads.maker import HeadMaker
from mntrain.heads.methods.registry import TRAINED, NamedMethod
from mntrain.heads.record import HeadRecord
from mntrain.heads.session_checks import check_folders, check_methods, check_stores, usable_store
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
    check_folders(options.folders(), options.comparison_folder, overwrite=options.overwrite)
    opened = [usable_store(path) for path in options.stores]
    check_stores([store for store, _ in opened])
    makers = {
        (store.path, seed): _maker(options, store, scale, seed) for store, scale in opened for seed in options.seeds
    }
    for maker in makers.values():
        check_methods(maker, options.methods)
    records: list[HeadRecord] = []
    with RunProgress(len(options.folders()), quiet=options.quiet) as progress:
        for (path, seed), maker in makers.items():
            if maker.scale.left_out and seed == options.seeds[0]:
                progress.say(
                    f"{path}: {maker.scale.left_out} of {maker.store.features} features have one value in all training "
                    "rows, or deviate by less than 1e-35, and are left out"
                )
            for method in options.methods:
                folder = options.folder(path, method.name, seed)
                record = maker.keep(method, folder)
                records.append(record)
                note = "" if record["artifact"] else " (no artifact: the head is not linear)"
                progress.finish_run(f"{folder}: test accuracy {record['scores']['test']['all']['accuracy']:.2%}{note}")
                for sentence in record["notes"]:
                    progress.say(f"{folder}: {sentence}")
            maker.made.clear()  # features and models of a store are not needed for another
    comparison = HeadComparison.of(records, options.baseline)
    if options.comparison_folder is not None:
        write_comparison(options.comparison_folder, comparison)
    return comparison


def _maker(options: HeadOptions, store: FeatureStore, scale: FeatureScale, seed: int) -> HeadMaker:
    return HeadMaker(store=store, scale=scale, settings=options.settings, seed=seed, fit_words=options.fit_words)
