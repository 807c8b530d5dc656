"""Approximation of a classifier: its low-rank form, where that is within the tolerance and saves enough.

Shapes: images uint8 [N, channels, H, W] or rows float32 [N, F], features [N, d].
"""

from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from mnexport.forms.attention import shares_keys
from mnexport.forms.base import DeployedClassifier
from mnexport.forms.cost import Cost, HeadSize
from mnexport.forms.low_rank.choice import kind_of, low_rank
from mnexport.forms.low_rank.queries import LowRank, RankLimits
from mnexport.forms.plan import Calibration, FormPlan, StaticModel
from mntrain.models.meta_neighborhoods.adaptation import cheapest_form, inner_problem
from mntrain.models.meta_neighborhoods.inner import CosineProblem
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods

# An approximation has to save this share of the whole model's cost before auto takes it.
WORTH_IT = 0.02
_CALIBRATION_BATCH = 64


def approximate_classifier(model: MetaNeighborhoods, plan: FormPlan, preprocessing: nn.Module) -> StaticModel | str:
    """Make the low-rank form within the tolerance of ``plan``, or give the reason against it in a sentence."""
    size, exact = _costs(model)
    problem = inner_problem(model.head, model.dictionary.keys, model.dictionary.values())
    if not isinstance(problem, CosineProblem) and cheapest_form(problem, model.steps()) == "factored":
        return "factored is exact for this model, and as cheap as any approximation (--form factored)"
    if plan.calibration is None:
        return (
            "low_rank is fitted to some real images and judged by others, and the artifact holds fewer than two; give "
            "--calibration train, or take an exact form (--form factored or explicit)"
        )
    kind = kind_of(problem, model.steps())
    cost_of, fewest = (size.norm, 1) if kind == "norm" else (size.subspace, size.classes)
    lowest = cost_of(fewest)
    images = plan.calibration.held_out[:1]
    whole = exact.weight + _backbone_multiplications(model, preprocessing, images)
    if plan.form == "auto" and exact.weight - lowest.weight < WORTH_IT * whole:
        return f"exact: an approximation could save no more than {WORTH_IT:.0%} of the model's cost"
    fitted, held_out = (
        _features(model, preprocessing, images) for images in (plan.calibration.fitted, plan.calibration.held_out)
    )
    approximated = low_rank(model, fitted, held_out, RankLimits(plan.rank_rule, plan.table_limit))
    if approximated is None:
        exact_form = "an exact form (--form factored or explicit)"
        if plan.rank is None:
            return (
                f"low_rank does not come within {plan.tolerance:g} of the probabilities of held-out images with tables "
                f"of {plan.table_limit / 2**20:.3g} MiB; take a looser --tolerance, or {exact_form}"
            )
        return (
            f"low_rank with a rank of {plan.rank} does not come within {plan.tolerance:g} of the probabilities of "
            "held-out images; take a looser --tolerance, or leave out --rank, for the fewest directions that do or for "
            f"{exact_form}"
        )
    cost = cost_of(approximated.rank)
    if plan.form == "auto" and exact.weight - cost.weight < WORTH_IT * whole:
        return f"exact: rank {approximated.rank} would save no more than {WORTH_IT:.0%} of the model's cost"
    module = DeployedClassifier(preprocessing, model.backbone, approximated.head)
    record = _record(approximated, plan.calibration, plan.tolerance, {"exact": exact, "low_rank": cost})
    integer_keys = approximated.integer
    cpu_module = None
    if integer_keys is not None:
        cpu_module = DeployedClassifier(preprocessing, model.backbone, integer_keys.head)
    return StaticModel(form="low_rank", module=module, approximate=True, record=record, cpu_module=cpu_module)


def _costs(model: MetaNeighborhoods) -> tuple[HeadSize, Cost]:
    problem = inner_problem(model.head, model.dictionary.keys, model.dictionary.values())
    entries, features = problem.keys.shape
    size = HeadSize(
        entries=entries,
        classes=problem.residuals.shape[1],
        features=features,
        steps=model.step_count,
        shared_keys=shares_keys(model),
    )
    rank_one = not isinstance(problem, CosineProblem) and cheapest_form(problem, model.steps()) == "factored"
    return size, size.rank_one() if rank_one else size.exact()


@torch.no_grad()
def _backbone_multiplications(model: MetaNeighborhoods, preprocessing: nn.Module, example: npt.NDArray[Any]) -> float:
    with FlopCounterMode(display=False) as counter:
        model.backbone(preprocessing(torch.from_numpy(example)))
    return float(counter.get_total_flops()) / 2


@torch.no_grad()
def _features(model: MetaNeighborhoods, preprocessing: nn.Module, examples: npt.NDArray[Any]) -> Tensor:
    starts = range(0, len(examples), _CALIBRATION_BATCH)
    parts = [torch.from_numpy(examples[start : start + _CALIBRATION_BATCH]) for start in starts]
    return torch.cat([model.backbone(preprocessing(part)) for part in parts])


def _record(
    approximated: LowRank, calibration: Calibration, tolerance: float, costs: dict[str, Cost]
) -> dict[str, Any]:
    integer = approximated.integer
    return {
        "kind": approximated.kind,
        "rank": approximated.rank,
        "tolerance": tolerance,
        "calibration": {
            "source": calibration.source,
            "fitted": len(calibration.fitted),
            "fitted_error": approximated.fitted_error,
            "held_out": len(calibration.held_out),
            "held_out_error": approximated.held_out_error,
        },
        "integer_keys": None
        if integer is None
        else {
            "rank": integer.rank,
            "tables": integer.integer_tables,
            "fitted_error": integer.fitted_error,
            "held_out_error": integer.held_out_error,
        },
        "costs": {name: cost.to_dict() for name, cost in costs.items()},
    }
