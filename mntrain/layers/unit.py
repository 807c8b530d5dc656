"""Scaling to unit length, for every cosine in this package.

Shapes: x [..., d].
"""

from torch import Tensor
from torch.linalg import vector_norm

_SMALLEST = 1e-12


def unit(x: Tensor) -> Tensor:
    """Scale rows of ``x`` [..., d] to unit length; a zero row stays zero, with a zero gradient.

    Written with broadcasting: ``torch.nn.functional.normalize`` expands the norm, which becomes three more operators
    in an exported graph.
    """
    length: Tensor = vector_norm(x, dim=-1, keepdim=True)
    return x / length.clamp_min(_SMALLEST)
