"""Frozen networks that turn images into features: artifacts of this package, of `transformers`, and ONNX files."""
