"""Models, requests and checks of benchmarks/fuzz_codec.py."""
