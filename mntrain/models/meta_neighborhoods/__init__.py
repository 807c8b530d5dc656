"""Meta-Neighborhoods: a classifier adapted to every input."""
