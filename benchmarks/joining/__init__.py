"""Models that mix the rows of a batch, and callers whose requests a server could join."""
