"""Export trained models as static ONNX graphs that answer as the trained models do.

Names load on first use, so that importing the package costs nothing; ``docs/api.md`` shows each in use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
