"""Rewrite graphs with iFiLM in ONNX Runtime's blocked layout."""
