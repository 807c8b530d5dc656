"""Counts of benchmarks/structure.py: folders, imports, class names, and the files that one call passes through."""
