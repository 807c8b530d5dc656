"""Parts of benchmarks/gpu_inference.py."""
