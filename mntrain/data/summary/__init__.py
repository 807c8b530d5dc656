"""What a source held and what became of it: the summary of a set, as plain values."""
