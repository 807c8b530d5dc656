"""Training images nearest to the entries of a dictionary."""
