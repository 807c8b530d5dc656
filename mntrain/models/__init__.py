"""Define model families: vanilla, Meta-Neighborhoods, MAXL."""
