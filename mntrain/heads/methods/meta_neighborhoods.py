"""Meta-Neighborhoods on stored features: the family of that name, trained by the recipe ``features``."""

from __future__ import annotations

from collections.abc import Sequence

from mntrain.config import ExperimentConfig, load_experiment
from mntrain.heads.fitted import FittedHead
from mntrain.heads.problem import HeadProblem, HeadResult

_PREFIXES = ("--meta_neighborhoods.", "--mn.", "--training.")


def separate_words(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Separate settings of heads from fields of the recipe ``features``, which are checked.

    Returns:
        Words of heads; words of ``meta_neighborhoods`` and ``training``.

    Raises:
        ConfigError: a field of the recipe is unknown, or has a value that it cannot have.
    """
    own: list[str] = []
    fitted: list[str] = []
    chosen = own
    for word in words:
        if word.startswith("--"):
            chosen = fitted if word.startswith(_PREFIXES) else own
        chosen.append(word)
    if fitted:
        _config(fitted)
    return tuple(own), tuple(fitted)


def meta_neighborhoods(problem: HeadProblem) -> HeadResult:
    """Train a head that adapts to every row by its neighbors; the epoch of the best validation accuracy is kept."""
    place = ("--data.path", str(problem.store.path), "--seed", str(problem.seed), "--name", "head")
    head = FittedHead.train(_config([*problem.fit_words, *place]))
    chosen = {"epoch": head.metrics["best_epoch"], "start": head.metrics["start"], "options": list(problem.fit_words)}
    return HeadResult(predictor=head, scale=problem.scale, chosen=chosen)


def _config(words: Sequence[str]) -> ExperimentConfig:
    return load_experiment("features", ["--family", "meta_neighborhoods", *words])
