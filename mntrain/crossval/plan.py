"""Plan of a cross-validation: its options and its runs."""

from dataclasses import dataclass
from pathlib import Path

from mntrain.config import ExperimentConfig, load_experiment, recipe_stem
from mntrain.crossval.methods import BASELINES, method_words, read_methods
from mntrain.data.reading.local_path import local_path
from mntrain.errors import ConfigError

# Options that crossval sets itself, or decides by the state of a run.
_OWN_FIELDS = (
    "--name",
    "--family",
    "--resume",
    "--overwrite",
    "--runs",
    "--fields",
    "--data.folds",
    "--data.fold",
)
_ARCHITECTURE = ("--backbone.layers", "--backbone.units", "--backbone.name")
_DECAY = "--training.weight_decay"


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """Architecture of a perceptron.

    Args:
        layers: number of hidden layers.
        units: width of each hidden layer.
    """

    layers: int
    units: int

    def __str__(self) -> str:
        return f"{self.layers}x{self.units}"


@dataclass(frozen=True, kw_only=True)
class NetworkSetting:
    """Setting of a network that validation chooses; None leaves the recipe's own.

    Args:
        architecture: architecture of the perceptron.
        decay: weight decay.
    """

    architecture: Architecture | None = None
    decay: float | None = None

    def __str__(self) -> str:
        shape = [] if self.architecture is None else [str(self.architecture)]
        decay = [] if self.decay is None else [f"decay{self.decay!r}"]
        return "-".join(shape + decay)

    def words(self) -> tuple[str, ...]:
        """Return the setting as overrides of the recipe."""
        overrides: tuple[str, ...] = ()
        if self.architecture is not None:
            layers, units = str(self.architecture.layers), str(self.architecture.units)
            overrides = ("--backbone.name", "mlp", "--backbone.layers", layers, "--backbone.units", units)
        return overrides if self.decay is None else (*overrides, _DECAY, repr(self.decay))


@dataclass(frozen=True, kw_only=True)
class CrossvalOptions:
    """Data sets, families, searched settings and folders of a cross-validation.

    Args:
        recipes: names of recipes or paths of YAML files, a data set each.
        families: knn, gradient_boosting, families that estimate values, and mn-paper or mn-data, which are
            Meta-Neighborhoods with that start; short names become the families' own.
        folds: number of folds.
        search: choose the architecture by the vanilla network's validation error on the first fold; otherwise the
            recipe's own is taken.
        layers: hidden layers to search.
        units: widths to search.
        decays: weight decays, of which each network gets the one with the smallest validation error on the first fold;
            with none, every network has the recipe's own.
        data_root: folder that relative data paths of recipes start from; None is the working folder.
        overrides: command-line words for every run.
        runs: folder of all runs; those of a recipe go into RECIPE-crossval there.
        output: folder of the result; None is RUNS/crossval.
        jobs: runs that train at the same time.
        quiet: no progress.
    """

    recipes: tuple[str, ...]
    families: tuple[str, ...] = (*BASELINES, "vanilla", "meta_neighborhoods")
    folds: int = 5
    search: bool = True
    layers: tuple[int, ...] = (2, 3, 4, 5)
    units: tuple[int, ...] = (32, 64, 128, 256)
    decays: tuple[float, ...] = ()
    data_root: Path | None = None
    overrides: tuple[str, ...] = ()
    runs: Path = Path("runs")
    output: Path | None = None
    jobs: int = 1
    quiet: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "families", read_methods(self.families))
        stems = [recipe_stem(recipe) for recipe in self.recipes]
        twice = sorted({name for name in stems if stems.count(name) > 1})
        if twice:
            raise ConfigError(f"Two recipes are called {twice[0]!r}; their runs would share a folder: rename one.")
        if not 2 <= self.folds <= 1000:
            raise ConfigError(f"--folds is {self.folds}; it must be from 2 to 1000 (5 is usual).")
        if not 1 <= self.jobs <= 64:
            raise ConfigError(f"--jobs is {self.jobs}; it must be from 1 to 64.")
        for name in ("layers", "units"):
            values = getattr(self, name)
            if not values or min(values) < 1 or len(set(values)) < len(values):
                raise ConfigError(f"--{name} is {','.join(map(str, values))!r}; give whole numbers above 0, each once.")
        if any(not 0 <= decay < 100 for decay in self.decays) or len(set(self.decays)) < len(self.decays):
            decays = ",".join(map(str, self.decays))
            raise ConfigError(f"--decays is {decays!r}; give numbers from 0 to below 100, each once.")
        for word in self.overrides:
            name = word.split("=")[0]
            searched = (self.search and name in _ARCHITECTURE) or (bool(self.decays) and name == _DECAY)
            if name in _OWN_FIELDS or searched:
                remedy = "leave it out"
                if searched:
                    remedy = f"add {'--no-search' if name in _ARCHITECTURE else '--decays own'}, or {remedy}"
                raise ConfigError(f"{name} is not for `mntrain crossval`, which decides it itself; {remedy}.")

    @property
    def folder(self) -> Path:
        """Folder of the result."""
        return self.runs / "crossval" if self.output is None else self.output

    @property
    def architectures(self) -> tuple[Architecture, ...]:
        """Searched architectures, the small ones first."""
        return tuple(Architecture(layers=layers, units=units) for layers in self.layers for units in self.units)

    @property
    def networks(self) -> tuple[str, ...]:
        """Families that are trained: all but the baselines of scikit-learn."""
        return tuple(family for family in self.families if family not in BASELINES)


@dataclass(frozen=True, kw_only=True)
class FoldRun:
    """Run of one network on one fold.

    Args:
        recipe: name of the data set.
        config: configuration of the run.
        folder: folder of the run.
        sha256: digest of data and fold.
    """

    recipe: str
    config: ExperimentConfig
    folder: Path
    sha256: str

    @property
    def label(self) -> str:
        """Name of the run in progress lines and messages."""
        return f"{self.recipe} {self.config.name}"


def base_config(options: CrossvalOptions, recipe: str) -> ExperimentConfig:
    """Load the configuration that all runs of a data set start from; its family and fold are not used.

    Raises:
        ConfigError: the recipe does not exist, or holds no table.
    """
    return _config(options, recipe, ("--data.folds", str(options.folds)))


@dataclass(frozen=True, kw_only=True)
class Fold:
    """Fold of a data set.

    Args:
        recipe: recipe of the data set.
        number: number of the fold, from 0.
        sha256: digest of the data and of the fold.
    """

    recipe: str
    number: int
    sha256: str


def plan_run(options: CrossvalOptions, fold: Fold, family: str, setting: NetworkSetting) -> FoldRun:
    """Plan the run of ``family`` on a fold.

    Raises:
        ConfigError: an override does not fit the recipe.
    """
    name = "-".join(part for part in (family.replace("_", "-"), str(setting), f"fold{fold.number}") if part)
    where = ("--data.folds", str(options.folds), "--data.fold", str(fold.number))
    config = _config(options, fold.recipe, (*setting.words(), *where, *method_words(family), "--name", name))
    stem = recipe_stem(fold.recipe)
    return FoldRun(recipe=stem, config=config, folder=options.runs / f"{stem}-crossval" / name, sha256=fold.sha256)


def _config(options: CrossvalOptions, recipe: str, words: tuple[str, ...]) -> ExperimentConfig:
    try:
        data = load_experiment(recipe, options.overrides).data
        if data.source != "table":
            raise ConfigError(
                f"its data.source is {data.source!r}; `mntrain crossval` takes tables of values, as recipe uci does."
            )
        path = local_path(str(data.path))
        if options.data_root is not None and not path.is_absolute():
            words = (*words, "--data.path", str(options.data_root / path))
        return load_experiment(recipe, (*options.overrides, *words))
    except ConfigError as error:
        raise ConfigError(f"Recipe {recipe!r}: {error}") from error
