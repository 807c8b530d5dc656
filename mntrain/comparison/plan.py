"""Plan of a comparison: its options and its runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mntrain.comparison.variants import BUILT_IN, Sweep, Variant
from mntrain.config import ExperimentConfig, load_experiment, recipe_stem
from mntrain.data.loading import load_data
from mntrain.errors import ConfigError
from mntrain.training.stored_run import RunState, check_same_run, read_metrics, read_split, run_state

# Options that compare sets itself, or decides by the state of a run.
_SET_BY_COMPARE = ("--name", "--seed", "--resume", "--overwrite", "--runs", "--fields")
_OWN_FIELDS = (*_SET_BY_COMPARE, "--family")
_WIDTH = "--backbone.width"


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Variants, seeds and folders of a comparison.

    Args:
        recipe: name of a recipe, or path of a YAML file.
        variants: rows of the table, in their order; those of sweeps are added behind them.
        sweeps: fields over several values.
        seeds: seeds that each variant is trained with.
        baseline: name of the variant that differences are taken to.
        overrides: command-line words for every run.
        runs: folder of all runs.
        output: folder of the result; None is RUNS/compare-RECIPE.
        jobs: runs that train at the same time.
        quiet: no progress.
    """

    recipe: str
    variants: tuple[Variant, ...]
    sweeps: tuple[Sweep, ...] = ()
    seeds: tuple[int, ...] = (0, 1, 2)
    baseline: str = "vanilla"
    overrides: tuple[str, ...] = ()
    runs: Path = Path("runs")
    output: Path | None = None
    jobs: int = 1
    quiet: bool = False

    def __post_init__(self) -> None:
        slugs = [variant.slug for variant in self.rows]
        twice = sorted({slug for slug in slugs if slugs.count(slug) > 1})
        if twice:
            raise ConfigError(f"Two variants would be kept under the name {twice[0]!r}; give each a name of its own.")
        if not slugs:
            raise ConfigError("There is nothing to compare; name at least one variant with --variants or --variant.")
        if self.baseline not in [variant.name for variant in self.rows]:
            raise ConfigError(
                f"--baseline is {self.baseline!r}, which is not compared; choose from "
                f"{', '.join(variant.name for variant in self.rows)}."
            )
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ConfigError(f"--seeds are {self.seeds}; give at least one, and none twice.")
        if not 1 <= self.jobs <= 64:
            raise ConfigError(f"--jobs is {self.jobs}; it must be from 1 to 64.")
        for variant in self.rows:
            for name in (word.split("=")[0] for word in variant.words):
                if name in _SET_BY_COMPARE:
                    raise ConfigError(f"Variant {variant.name!r} sets {name}, which `mntrain compare` does itself.")
        for word in self.overrides:
            name = word.split("=")[0]
            if name in _OWN_FIELDS:
                raise ConfigError(f"{name} is not for `mntrain compare`: variants and seeds decide it; leave it out.")

    @property
    def rows(self) -> tuple[Variant, ...]:
        """All variants, with those of the sweeps at the end."""
        return (*self.variants, *(variant for sweep in self.sweeps for variant in sweep.variants()))

    @property
    def stem(self) -> str:
        """Name of the recipe without folder and ending."""
        return recipe_stem(self.recipe)

    @property
    def folder(self) -> Path:
        """Folder of the result."""
        return self.runs / f"compare-{self.stem}" if self.output is None else self.output


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """Run of one variant with one seed.

    Args:
        variant: row of the table.
        seed: seed of the run.
        config: configuration of the run.
        words: arguments of ``mntrain fit`` for this run, the recipe first.
        folder: runs/NAME.
    """

    variant: Variant
    seed: int
    config: ExperimentConfig
    words: tuple[str, ...]
    folder: Path

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.config.name

    def state(self) -> RunState:
        """Return the state of the run on disk."""
        return run_state(self.folder)

    def tested_on(self, metric: str) -> tuple[Any, ...]:
        """Return metric, target and test examples, which two runs must share for their figures to be comparable.

        Raises:
            ConfigError: the record of the split cannot be read.
        """
        test, data = read_split(self.folder)["splits"]["test"], self.config.data
        target = data.target_column
        return metric, data.source, data.path, data.subset, target, test.get("source_split"), tuple(test["indices"])

    def split_digest(self) -> str:
        """Read the digest of the data and of its split.

        Raises:
            ConfigError: the record of the split cannot be read.
        """
        return str(read_split(self.folder)["sha256"])

    def metrics(self) -> dict[str, Any]:
        """Read the ``metrics.json`` of the run.

        Raises:
            ConfigError: the file cannot be read.
        """
        return read_metrics(self.folder)


def plan_runs(options: CompareOptions) -> list[PlannedRun]:
    """Plan all runs, seed by seed, so that early results already compare all variants.

    Raises:
        ConfigError: a variant or an override does not fit the recipe, or a run of that name had another configuration
            or other data.
        DataError: data that runs were trained with cannot be read any more.
    """
    planned = [_plan(options, variant, seed) for seed in options.seeds for variant in options.rows]
    there = [run for run in planned if run.state() != "missing"]
    for data in {run.config.data for run in there}:
        sha256 = load_data(data).split.sha256
        for run in there:
            if run.config.data == data:
                check_same_run(run.folder, run.config, sha256)
    return planned


def _plan(options: CompareOptions, variant: Variant, seed: int) -> PlannedRun:
    name = f"{options.stem}-{variant.slug}-seed{seed}"
    words: Sequence[str] = (*options.overrides, *variant.words, "--seed", str(seed), "--name", name)
    try:
        config = load_experiment(options.recipe, words)
        _check_width(options, variant, config)
    except ConfigError as error:
        raise ConfigError(f"Variant {variant.name!r}: {error}") from error
    return PlannedRun(
        variant=variant,
        seed=seed,
        config=config,
        words=(options.recipe, "--runs", str(options.runs), *words),
        folder=options.runs / name,
    )


def _check_width(options: CompareOptions, variant: Variant, config: ExperimentConfig) -> None:
    """Refuse a built-in row of a counted width where the other rows are not of full width.

    Raises:
        ConfigError: they are not.
    """
    if variant != BUILT_IN.get(variant.name) or _WIDTH not in variant.words:
        return
    others = load_experiment(options.recipe, options.overrides).backbone.width
    if others != 1:
        raise ConfigError(
            f"it is {config.backbone.width:g} times as wide as rows of full width, which is counted for these, and "
            f"backbone.width is {others:g} here; leave the row out, or name your own with --variant "
            f"'NAME={_WIDTH} NUMBER …'."
        )
