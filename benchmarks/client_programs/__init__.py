"""Models and programs of benchmarks/client_examples.py."""
