"""How many directions a model needs, and the head that has them.

Shapes: N queries, S entries, C classes, d features. features z [N, d], attention ω [N, S], logits [N, C].

The directions are fitted to real images and to the keys of the dictionary: keys lie where the data lies, and there are
more of them than images in an artifact. The rank is the smallest that keeps the probabilities of these and of other
images within a quarter of the tolerance; the rest is left for images that nobody has seen.
"""

import torch
from torch import Tensor

from mnexport.forms.low_rank.norm_choice import choose_norm
from mnexport.forms.low_rank.queries import Data, Kind, Limits, LowRank, Setting
from mnexport.forms.low_rank.subspace_choice import choose_subspace
from mntrain.models.meta_neighborhoods.adaptation import InnerProblem, InnerSteps, cheapest_form
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods

_KEYS = 1024


def kind_of(problem: InnerProblem, steps: InnerSteps) -> Kind:
    """What is approximated: the norm where one step of scalar size leaves only that expensive."""
    return "norm" if cheapest_form(problem, steps) == "factored" else "subspace"


@torch.no_grad()
def low_rank(model: MetaNeighborhoods, fitted: Tensor, held_out: Tensor, limits: Limits) -> LowRank | None:
    """The cheapest approximation within the limits on all images; None where there is none.

    Args:
        model: a cosine classifier, or a dot-product classifier for which no factored form is exact.
        fitted: features z [N, d] of images that the directions are fitted to.
        held_out: features of other images.
        limits: rank or tolerance, and bytes of the largest table.

    Raises:
        FormError: a rank was asked for that cannot be.
    """
    setting, keys = Setting.of(model), model.dictionary.keys
    spread = torch.linspace(0, len(keys) - 1, min(_KEYS, len(keys))).long()
    data = Data(
        directions=setting.queries(torch.cat([fitted, keys[spread]])).weights,
        fitted=setting.queries(fitted),
        held_out=setting.queries(held_out),
    )
    choose = choose_norm if kind_of(setting.problem, setting.steps) == "norm" else choose_subspace
    return choose(setting, data, limits)
