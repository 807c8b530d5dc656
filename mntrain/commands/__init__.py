"""Command line: each command is a module with its options, a function ``run``, and an entry in ``cli``."""
