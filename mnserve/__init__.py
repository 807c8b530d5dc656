"""Serve, call and run ONNX models over the Open Inference Protocol; never imports PyTorch.

Names load on first use, so that importing the package costs nothing; ``docs/api.md`` shows each in use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
