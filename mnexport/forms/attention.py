"""Attention of a static form: keys are prepared once, and shared with the classifier where both compare alike.

Shapes: B queries, S entries, d features. features z [B, d], attention ω [B, S].
"""

from torch import Tensor, nn

from mnexport.forms.constants import Constants
from mntrain.layers.attention import KeyIndex, attention, key_index, similarity
from mntrain.models.meta_neighborhoods.adaptation import InnerProblem
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods


class StaticAttention(nn.Module):
    """Attention over constant keys: ω = softmax(similarity / T).

    Where attention and classifier both compare by cosine, they share the unit keys of the inner problem.
    """

    def __init__(self, model: MetaNeighborhoods) -> None:
        super().__init__()
        self.temperature = model.temperature
        shared = shares_keys(model)
        index = None if shared else key_index(model.dictionary.keys, model.similarity)
        self.index: Constants[KeyIndex] | None = None if index is None else Constants(index)

    def forward(self, features: Tensor, problem: InnerProblem) -> Tensor:
        """Compute the attention [B, S] of features [B, d]."""
        index = KeyIndex(problem.keys, None) if self.index is None else self.index()
        return attention(similarity(features, index), self.temperature)


def shares_keys(model: MetaNeighborhoods) -> bool:
    """Tell if attention and classifier read one table of keys."""
    return model.similarity == "cosine" and model.config.head == "cosine"
