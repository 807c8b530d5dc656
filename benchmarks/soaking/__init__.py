"""Callers, models and memory of benchmarks/soak.py."""
