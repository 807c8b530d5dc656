"""Train models that adapt to every input, and their baselines.

Names load on first use, so that importing the package costs nothing; ``docs/api.md`` shows each in use.
"""

import lazy_loader

from mntrain.missing_packages import names_extra

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = names_extra(_load, __name__, "train")
