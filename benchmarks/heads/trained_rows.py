"""Rows that ``mntrain fit features`` trains: every trial is a run, and validation chooses one.

Rows have eight trials: a grid of four rates and two decays of linear classifiers, and fractions of two-level designs of
five settings (D = A·B, E = A·C of levels ±1) of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from heads.scored import Scored
from mntrain.config import load_experiment
from mntrain.training.fit import fit
from mntrain.training.run_folder import FitOptions

Trial = dict[str, Any]
Levels = Sequence[tuple[str, Any, Any]]


def _grid(first: tuple[str, Sequence[Any]], second: tuple[str, Sequence[Any]]) -> list[Trial]:
    return [{first[0]: one, second[0]: other} for one, other in product(first[1], second[1])]


def _design(factors: Levels) -> list[Trial]:
    """Make the eight trials of a design of five settings, or four, of two levels each."""
    trials = []
    for a, b, c in product((-1, 1), repeat=3):
        signs = (a, b, c, a * b, a * c)
        trials.append({name: (low, high)[sign > 0] for (name, low, high), sign in zip(factors, signs, strict=False)})
    return trials


_RATE, _DECAY, _MN = "training.learning_rate", "training.head_decay", "meta_neighborhoods."
_DICTIONARY: Levels = ((f"{_MN}entries", 200, 800), (f"{_MN}start_change", 0.03, 0.1))

ROWS: Mapping[str, tuple[tuple[str, ...], list[Trial]]] = {
    "linear-dot": (
        ("--family", "vanilla", "--vanilla.head", "dot"),
        _grid((_RATE, (1e-3, 3e-3, 1e-2, 3e-2)), (_DECAY, (0.0, 0.1))),
    ),
    "linear-cosine": (
        ("--family", "vanilla", "--vanilla.head", "cosine"),
        _grid((_RATE, (3e-3, 1e-2, 3e-2, 1e-1)), (_DECAY, (0.0, 0.1))),
    ),
    "mn-dot": (
        ("--family", "mn", "--mn.head", "dot", "--mn.head_start", "random", "--mn.warm_up", "0.5"),
        _design(((_RATE, 3e-3, 1e-2), (f"{_MN}temperature", 0.05, 0.1), (_DECAY, 0.0, 0.1), *_DICTIONARY)),
    ),
    "mn-cosine": (
        ("--family", "mn", "--mn.head", "cosine", "--mn.head_start", "random", "--mn.warm_up", "0.5"),
        _design(
            (
                (_RATE, 1e-2, 3e-2),
                (f"{_MN}temperature", 0.05, 0.1),
                (_DECAY, 0.0, 0.1),
                (f"{_MN}entries", 200, 800),
                (f"{_MN}start_change", 0.1, 0.4),
            )
        ),
    ),
    "mn-logistic": (
        ("--family", "mn", "--mn.head", "dot", "--mn.head_start", "logistic"),
        _design(((_RATE, 1e-3, 3e-3), (f"{_MN}temperature", 0.05, 0.1), (f"{_MN}head_rate", 0.1, 1.0), *_DICTIONARY)),
    ),
    "perceptron": (
        ("--family", "vanilla", "--vanilla.head", "dot"),
        _design(
            (
                (_RATE, 1e-3, 5e-3),
                ("training.weight_decay", 0.01, 1.0),
                (_DECAY, 0.0, 0.1),
                ("vanilla.extra_entries", 200, 800),
            )
        ),
    ),
    # Four trials each, for questions that are asked many times.
    "mn-short": (
        ("--family", "mn", "--mn.head_start", "logistic", "--mn.entries", "300", f"--{_RATE}", "0.003"),
        _grid((f"{_MN}temperature", (0.05, 0.1)), (f"{_MN}start_change", (0.03, 0.1))),
    ),
    "perceptron-short": (
        ("--family", "vanilla", "--vanilla.head", "dot", "--vanilla.extra_entries", "300"),
        _grid((_RATE, (1e-3, 5e-3)), ("training.weight_decay", (0.01, 1.0))),
    ),
}
_COMMON = ("--training.epochs", "40", "--training.batch_size", "128", "--data.leaks", "allow")


def measure_trained(row: str, store: Path, seed: int, scratch: Path, extra: Sequence[str] = ()) -> Scored:
    """Train every trial of a row on the store; the best on the validation split is the result.

    Args:
        row: name of the row.
        store: folder of the feature store.
        seed: of initialisation and batches.
        scratch: folder of the run, written over by every trial.
        extra: further words for every trial.
    """
    words, trials = ROWS[row]
    runs = [_train((*words, *_words(trial), *extra), store, seed, scratch) for trial in trials]
    best = max(range(len(runs)), key=lambda index: _rank(runs[index]))
    result = runs[best]
    return Scored(
        test=result["test"]["accuracy"],
        validation=result["validation"]["accuracy"],
        settings=trials[best],
        trials=len(trials),
        seconds=result["train_seconds"],
        parameters=result["parameters"],
    )


def _words(trial: Trial) -> tuple[str, ...]:
    return tuple(word for name, value in trial.items() for word in (f"--{name}", str(value)))


def _train(words: Sequence[str], store: Path, seed: int, scratch: Path) -> dict[str, Any]:
    data = ("--data.path", str(store), "--seed", str(seed), "--name", "trial")
    result = fit(
        load_experiment("features", [*data, *_COMMON, *words]), FitOptions(runs=scratch, overwrite=True, quiet=True)
    )
    assert result is not None
    return result


def _rank(result: dict[str, Any]) -> tuple[float, float]:
    return result["validation"]["accuracy"], -result["validation"]["loss"]
