"""Run a cross-validation from the plan to its files."""

import dataclasses
import json
from typing import Any

from mntrain.atomic_files import write_text_atomically
from mntrain.config import recipe_stem
from mntrain.crossval.baselines import BASELINES
from mntrain.crossval.methods import tested
from mntrain.crossval.plan import CrossvalOptions, Fold, base_config, plan_run
from mntrain.crossval.plot import draw_crossval
from mntrain.crossval.progress import CrossvalProgress
from mntrain.crossval.results import Crossval, Scores, SetResult, corrected
from mntrain.crossval.search import choose
from mntrain.crossval.table import result_table
from mntrain.crossval.training import train
from mntrain.data.loading import load_data
from mntrain.data.tables import TableData
from mntrain.errors import ConfigError
from mntrain.result_folder import result_folder
from mntrain.training.run_record import record_lines, summarize_run
from mntrain.training.setup import setup_for


def crossval(options: CrossvalOptions) -> Crossval:
    """Search, train all folds, and write ``crossval.json``, ``crossval.md`` and ``crossval.svg``.

    Finished runs of the same configuration and data are read, not trained again; broken-off runs go on. A run that
    fails does not stop the others.

    Raises:
        ConfigError: a recipe holds no table of values, a run of that name had another configuration or other data, or
            another cross-validation writes there.
        DataError: a table cannot be used.
        TrainingError: the result cannot be written.
    """
    tables = {recipe: _load(options, recipe, 0) for recipe in options.recipes}
    with result_folder(options.folder), CrossvalProgress(options) as progress:
        sets = corrected(_cross_validate(options, recipe, tables[recipe], progress) for recipe in options.recipes)
        result = Crossval(options=options, sets=sets)
        text = json.dumps(result.to_json(), indent=2, allow_nan=False) + "\n"
        write_text_atomically(options.folder / "crossval.json", text)
        write_text_atomically(options.folder / "crossval.md", result_table(result).markdown())
        write_text_atomically(options.folder / "crossval.svg", draw_crossval(result))
    return result


def _cross_validate(options: CrossvalOptions, recipe: str, first: TableData, progress: CrossvalProgress) -> SetResult:
    for line in record_lines(summarize_run(setup_for(base_config(options, recipe), first), {})):
        progress.say(line)
    folds: list[Fold] = []
    baselines: dict[str, list[dict[str, Any]]] = {family: [] for family in options.families if family in BASELINES}
    for number in range(options.folds):
        data = _load(options, recipe, number) if number else first
        folds.append(Fold(recipe=recipe, number=number, sha256=data.split.sha256))
        for family, figures in baselines.items():
            figures.append(BASELINES[family](data))
            name = family.replace("_", "-")
            progress.finish_run(f"{recipe_stem(recipe)} {name}-fold{number}: test mse {figures[-1]['mse']:.4f}")
    choice = choose(options, folds[0], progress.ended)
    scores, failures = [], []
    for family in options.families:
        if family in baselines:
            scores.append(_scores(family, baselines[family]))
            continue
        if family not in choice.settings:
            failures.append(f"{recipe_stem(recipe)} {family}: no setting that was searched could be trained")
            continue
        runs = [plan_run(options, fold, family, choice.settings[family]) for fold in folds]
        outcomes = train(runs, jobs=options.jobs, ended=progress.ended)
        failures += [f"{outcome.run.label}: {outcome.reason}" for outcome in outcomes if outcome.result is None]
        details = [_summary(outcome.result) for outcome in outcomes if outcome.result is not None]
        # Means over other folds than those of the other families would be no comparison.
        if len(details) == len(folds):
            scores.append(_scores(family, details))
    return SetResult(
        name=recipe_stem(recipe),
        rows=sum(first.split.counts.values()),
        features=first.features,
        targets=first.target_names,
        choice=choice,
        scores=tuple(scores),
        failures=tuple(failures),
        tested=tested(options.families),
    )


def _scores(family: str, details: list[dict[str, Any]]) -> Scores:
    return Scores(family=family, mse=tuple(fold["mse"] for fold in details), details=tuple(details))


def _load(options: CrossvalOptions, recipe: str, fold: int) -> TableData:
    config = base_config(options, recipe)
    data = load_data(dataclasses.replace(config.data, fold=fold))
    if not isinstance(data, TableData) or data.label_names is not None:
        raise ConfigError(
            f"The target of recipe {recipe!r} holds classes; `mntrain crossval` compares squared errors of values. Set "
            "data.target to value, or choose another data.target_column."
        )
    return data


def _summary(result: dict[str, Any]) -> dict[str, Any]:
    """Select the figures of a run's ``metrics.json``: ``rmse`` of one target, ``targets`` of several."""
    test = result["test"]
    return {
        "mse": float(test["mse"]),
        "unadapted_mse": test["unadapted_mse"],
        **{name: test[name] for name in ("rmse", "targets") if name in test},
        "validation_mse": result["validation"]["mse"],
        "best_epoch": result["best_epoch"],
        "epochs": result["epochs"],
        "parameters": result["parameters"],
        "seconds": result["train_seconds"],
    }
