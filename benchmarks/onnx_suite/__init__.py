"""The models of ONNX's backend suite, run with ONNX Runtime alone and through a server."""
