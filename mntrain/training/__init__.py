"""Train one run: loop, checkpoints, evaluation, run folder."""
