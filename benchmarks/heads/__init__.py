"""Time and memory of heads on stored features."""
