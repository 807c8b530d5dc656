"""Training of a run, from configuration to artifact."""

import dataclasses
import json
import os
from contextlib import nullcontext
from typing import Any

import torch
from lightning_fabric import Fabric
from torch._dynamo.exc import TorchDynamoException

from mntrain.acting.measuring import adaptation_record
from mntrain.artifact import save_artifact
from mntrain.atomic_files import write_text_atomically
from mntrain.config import ExperimentConfig
from mntrain.errors import CheckpointError, ConfigError
from mntrain.training.checked_run import CheckedRun, check_run
from mntrain.training.checkpoint import TrainingState, load_state
from mntrain.training.data_start import resumed_plan
from mntrain.training.loop import Trainer
from mntrain.training.optimizer import build_optimizer, check_optimizer
from mntrain.training.rates import check_resumed_rates
from mntrain.training.run_folder import FitOptions, RunFolder
from mntrain.training.run_length import short_run_advice, steps_of_an_epoch
from mntrain.training.run_record import print_record, summarize_run


def fit(config: ExperimentConfig, options: FitOptions) -> dict[str, Any] | None:
    """Train, evaluate on the test split with the best-validation weights, and write the artifact.

    Nothing is written or removed before data, model and options have been found to fit one another.

    Args:
        config: of the run.
        options: folder of the runs, and treatment of an earlier run of the same name.

    Returns:
        The content of ``metrics.json``; None on every process but the first of a data-parallel run.

    Raises:
        ConfigError: the run exists already, or is not the one to resume, or settings contradict each other.
        DataError: the data is missing, or cannot be used.
        CheckpointError: a checkpoint cannot be read or written, or there is no run to resume.
        TrainingError: a loss is not finite, or the folder of the run cannot be written.
        ArtifactError: the artifact cannot be written.
    """
    run = RunFolder(options.runs / config.name, options)
    # Launching starts other processes: what can be refused has been refused by then.
    checked = check_run(config, resumed=run.goes_on)
    # Convolutions run about a fifth faster on CPUs in this layout; the stubs of PyTorch do not know the argument.
    checked.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    with run.locked() if _is_first_process() else nullcontext():
        return _train(checked, run, quiet=options.quiet)


def _is_first_process() -> bool:
    """True in the first process of a data-parallel run, known before the others have been started."""
    return os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) == "0"


def _train(checked: CheckedRun, run: RunFolder, *, quiet: bool) -> dict[str, Any] | None:
    config, data, setup, model = checked.config, checked.data, checked.setup, checked.model
    parameters = sum(parameter.numel() for parameter in model.parameters())
    fabric = _fabric(config, some_untrained=checked.start is not None and checked.start.epoch > 0)
    fabric.launch()
    optimizer = build_optimizer(model.parameter_groups(), config.training, checked.rates)
    state, start = run.resumed(config, data), checked.start
    if state is None:
        state = TrainingState(
            config=config.to_dict(), split_sha256=data.split.sha256, trained_start=dict(checked.trained_start or {})
        )
    else:
        start = resumed_plan(start, state.start, state.epoch, run.path)
        state.config = config.to_dict()
        try:
            model.load_state_dict(state.model)
            optimizer.load_state_dict(state.optimizer)
            check_optimizer(optimizer)
        except (RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(
                f"Checkpoint {run.last} does not fit its own configuration ({str(error).splitlines()[0]}); it is "
                "damaged, start again with --overwrite."
            ) from error
        check_resumed_rates(optimizer, checked.rates, run.path)
    summary = summarize_run(setup, checked.rates, state.trained_start)
    fabric.barrier()
    if fabric.is_global_zero:
        run.prepare(config, data, summary)
        if not quiet:
            print_record(summary)
    fabric.barrier()

    wrapped, wrapped_optimizer = fabric.setup(model, optimizer)
    wrapped.mark_forward_method(model.evaluate_objective)
    training_data = setup.training_data(fabric.device)
    trainer = Trainer(
        fabric=fabric,
        model=wrapped,
        optimizer=wrapped_optimizer,
        data=training_data,
        config=config.training,
        run=run,
        seed=config.seed,
        start=start,
        quiet=quiet,
    )
    if config.training.compile:
        # In place: the names of the weights, and so checkpoints and artifact, are those of the model as it is.
        model.compiled_part.compile()
    try:
        trainer.train(state)
    except TorchDynamoException as error:
        raise ConfigError(
            "training.compile is true, but the network cannot be compiled here "
            f"({' '.join(str(error).split())[:200]}); leave it out, or install a C++ compiler."
        ) from error

    fabric.barrier()
    best = load_state(run.best)
    model.load_state_dict(best.model)
    test = trainer.evaluate(training_data.test)
    row = state.history[state.best_epoch - 1]
    result: dict[str, Any] = {
        "name": config.name,
        "family": config.family,
        "seed": config.seed,
        "parameters": parameters,
        "epochs": state.epoch,
        "best_epoch": state.best_epoch,
        "steps": state.epoch * steps_of_an_epoch(config.training, len(data.train)),
        "short_run": short_run_advice(config.training, len(data.train)),
        "rates": dict(checked.rates),
        "validation": {name: row[f"validation_{name}"] for name in (test.metric, "loss")},
        "test": setup.test_figures(test),
        "start": state.start or None,
        "trained_start": state.trained_start or None,
        "train_seconds": round(state.seconds, 3),
    }
    if not fabric.is_global_zero:
        return None
    record = adaptation_record(model.eval(), training_data, test, row.get(f"train_{test.metric}"))
    result["adaptation"] = None if record is None else record.to_json()
    artifact = dataclasses.replace(setup.artifact(result), data=dict(summary))
    save_artifact(run.path / "artifact", artifact, best.model, setup.samples(), setup.artifact_files())
    with run.writing():
        write_text_atomically(run.path / "metrics.json", json.dumps(result, indent=2, allow_nan=False) + "\n")
    return result


def _fabric(config: ExperimentConfig, *, some_untrained: bool) -> Fabric:
    """Start Fabric; ``some_untrained`` where epochs leave parameters out, which data-parallel training must be told."""
    training = config.training
    strategy = "ddp_find_unused_parameters_true" if some_untrained and training.devices > 1 else "auto"
    try:
        return Fabric(
            accelerator=training.accelerator,
            devices=training.devices,
            precision=training.precision,
            strategy=strategy,
        )
    except (ValueError, RuntimeError) as error:
        raise ConfigError(
            f"training.accelerator {training.accelerator!r} with {training.devices} device(s) and precision "
            f"{training.precision!r} is not to be had here: {' '.join(str(error).split())}"
        ) from error
