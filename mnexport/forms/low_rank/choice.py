"""Choice of the low-rank head: its kind and its number of directions.

Shapes: N queries, S entries, C classes, d features. features z [N, d], attention ω [N, S], logits [N, C].

The directions are fitted to real images and to the keys of the dictionary: keys lie where the data lies, and there are
more of them than images in an artifact. The rank is the smallest that keeps the probabilities of these and of other
images within a quarter of the tolerance; the rest is left for new images.
"""

import torch
from torch import Tensor

from mnexport.forms.low_rank.norm_choice import choose_norm
from mnexport.forms.low_rank.queries import AdaptationSetting, ApproximationKind, FittingQueries, LowRank, RankLimits
from mnexport.forms.low_rank.subspace_choice import choose_subspace
from mntrain.models.meta_neighborhoods.adaptation import InnerProblem, InnerSteps, cheapest_form
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods

_KEYS = 1024


def kind_of(problem: InnerProblem, steps: InnerSteps) -> ApproximationKind:
    """Choose what is approximated: the norm alone where one step of scalar size leaves nothing else expensive."""
    return "norm" if cheapest_form(problem, steps) == "factored" else "subspace"


@torch.no_grad()
def low_rank(model: MetaNeighborhoods, fitted: Tensor, held_out: Tensor, limits: RankLimits) -> LowRank | None:
    """Choose the cheapest approximation within the limits on all images; None where there is none.

    Args:
        model: a cosine classifier, or a dot-product classifier for which no factored form is exact.
        fitted: features z [N, d] of images that the directions are fitted to.
        held_out: features of other images.
        limits: rank or tolerance, and bytes of the largest table.

    Raises:
        FormError: the rank that was asked for is out of bounds.
    """
    setting, keys = AdaptationSetting.of(model), model.dictionary.keys
    spread = torch.linspace(0, len(keys) - 1, min(_KEYS, len(keys))).long()
    data = FittingQueries(
        directions=setting.queries(torch.cat([fitted, keys[spread]])).weights,
        fitted=setting.queries(fitted),
        held_out=setting.queries(held_out),
    )
    choose = choose_norm if kind_of(setting.problem, setting.steps) == "norm" else choose_subspace
    return choose(setting, data, limits)
