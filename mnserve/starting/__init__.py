"""Start of a server: its first models, and whether they are enough."""
