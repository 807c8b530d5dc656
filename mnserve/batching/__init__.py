"""Queue requests of one model and form batches of them: priorities, delays, limits."""
