"""The parts of benchmarks/gpu_inference.py."""
