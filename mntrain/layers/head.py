"""Which classifier stands on a backbone."""

from typing import Literal

from mntrain.layers.cosine_head import CosineHead
from mntrain.layers.dot_head import DotHead

Head = CosineHead | DotHead
HeadKind = Literal["cosine", "dot"]
HEAD_KINDS = ("cosine", "dot")


def build_head(kind: HeadKind, features: int, classes: int, scale: float) -> Head:
    """A new head for d ``features`` and C ``classes``; ``scale`` is τ of the cosine head."""
    return CosineHead(features, classes, scale) if kind == "cosine" else DotHead(features, classes)
