"""Join a frozen network, an artifact's or anybody's ONNX file, and the head on its features to one graph."""
