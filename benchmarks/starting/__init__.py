"""Time and memory of a start."""
