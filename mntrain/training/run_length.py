"""Number of optimizer steps of a run, and advice where they are too few to learn from."""

import math

from mntrain.data.batch_sizes import batch_sizes
from mntrain.training_config import TrainingConfig

FEWEST_STEPS = 200
"""Optimizer steps below which a run is called short. The ``digits`` recipe takes 252."""
_SMALLEST_BATCH = 16


def steps_of_an_epoch(training: TrainingConfig, examples: int) -> int:
    """Count the optimizer steps of one pass over ``examples`` training examples."""
    return _steps(training, examples, training.batch_size)


def optimizer_steps(training: TrainingConfig, examples: int) -> int:
    """Count the optimizer steps of a whole run on ``examples`` training examples, unless patience ends it early."""
    return training.epochs * steps_of_an_epoch(training, examples)


def short_run_advice(training: TrainingConfig, examples: int) -> str | None:
    """Advise on a run of fewer than 200 optimizer steps; None for a longer one.

    Args:
        training: settings of the optimisation.
        examples: number of training examples.

    Returns:
        A sentence with the number of steps, and batch size and epochs that take enough of them.
    """
    steps = optimizer_steps(training, examples)
    if steps >= FEWEST_STEPS:
        return None
    batch = training.batch_size
    while batch // 2 >= _SMALLEST_BATCH * training.devices and training.epochs * (examples // batch) < FEWEST_STEPS:
        batch //= 2
    batch -= batch % training.devices
    epochs = max(training.epochs, math.ceil(FEWEST_STEPS / _steps(training, examples, batch)))
    remedies = [f"--training.batch_size {batch}"] if batch < min(training.batch_size, examples) else []
    remedies += [f"--training.epochs {epochs}"] if epochs > training.epochs else []
    return (
        f"This run takes {steps} optimizer steps ({training.epochs} epochs of {steps // training.epochs}) on "
        f"{examples} training examples; fewer than {FEWEST_STEPS} seldom learn much: try {' '.join(remedies)}."
    )


def _steps(training: TrainingConfig, examples: int, batch_size: int) -> int:
    return len(batch_sizes(examples, batch_size, last_batch=training.last_batch, devices=training.devices))
