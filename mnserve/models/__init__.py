"""Load, warm up, find, replace and drain the models of a repository."""
