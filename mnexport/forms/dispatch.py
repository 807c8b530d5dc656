"""Choice of a static form: the one place of the exporter that knows the model families.

A new family registers one function here with ``unexplained_form.register``.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import singledispatch

from torch import nn

from mnexport.errors import FormError
from mnexport.forms.approximate_classifier import approximate_classifier
from mnexport.forms.approximate_regressor import approximate_regressor
from mnexport.forms.base import DeployedClassifier
from mnexport.forms.explained import ExplainedClassifier, ExplainedRegressor
from mnexport.forms.heads import static_head
from mnexport.forms.meta_neighborhoods import AdaptiveHead
from mnexport.forms.plan import FormPlan, StaticModel
from mnexport.forms.regression import AdaptiveEstimator, DeployedRegressor, PlainEstimator
from mntrain.data.standardization import Standardization
from mntrain.layers.similarity.plain import plain_twin
from mntrain.models.base import Model
from mntrain.models.maxl.model import Maxl
from mntrain.models.meta_neighborhoods.adaptation import InnerForm, cheapest_form, inner_problem
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods
from mntrain.models.meta_neighborhoods.regression import MetaNeighborhoodsRegressor
from mntrain.models.vanilla.model import Vanilla
from mntrain.models.vanilla.regression import VanillaRegressor


def static_form(model: Model, plan: FormPlan, preprocessing: nn.Module) -> StaticModel:
    """Make the static form of a trained model that ``plan`` asks for; ``auto`` chooses.

    Raises:
        FormError: the family has no static form, not this one, or none within the tolerance.
        UsageError: more neighbors are to be told than there are.
    """
    static = unexplained_form(model, plan, preprocessing)
    if not plan.explain:
        return static
    module = static.module
    if isinstance(model, MetaNeighborhoods) and isinstance(module, DeployedClassifier):
        return replace(static, module=ExplainedClassifier(module, model, plan.explain))
    if isinstance(model, MetaNeighborhoodsRegressor) and isinstance(module, DeployedRegressor):
        return replace(static, module=ExplainedRegressor(module, model, plan.explain))
    raise FormError(
        f"A {type(model).__name__.lower()} model looks no neighbors up, so there is nothing to explain; leave out "
        "--explain."
    )


@singledispatch
def unexplained_form(model: Model, plan: FormPlan, preprocessing: nn.Module) -> StaticModel:
    """Make the static form without the explanation; see :func:`static_form`.

    Raises:
        FormError: the family has no static form, not this one, or none within the tolerance.
    """
    raise FormError(
        f"{type(model).__name__} has no static form; register one in mnexport/forms/dispatch.py (form {plan.form!r})."
    )


@unexplained_form.register(Vanilla)
@unexplained_form.register(Maxl)
def _(model: Vanilla | Maxl, plan: FormPlan, preprocessing: nn.Module) -> StaticModel:
    _refuse_form(model, plan)
    module = DeployedClassifier(preprocessing, model.backbone, static_head(model.head))
    return StaticModel(form="vanilla", module=module, approximate=False, record={})


@unexplained_form.register
def _(model: MetaNeighborhoods, plan: FormPlan, preprocessing: nn.Module) -> StaticModel:
    approximation = _approximated(plan, lambda: approximate_classifier(model, plan, preprocessing))
    if isinstance(approximation, StaticModel):
        return approximation
    steps = model.steps()
    cheapest = cheapest_form(inner_problem(model.head, model.dictionary.keys, model.dictionary.values()), steps)
    if plan.form == "factored" and cheapest == "explicit":
        raise FormError(
            f"This model takes {steps.count} inner step(s) with a step size of shape {list(steps.size.shape)}. "
            "Factored is exact for one step of scalar size (or per feature with a dot head); use --form explicit."
        )
    # Both forms are exact; the factored one builds no [B, C, d] weights.
    chosen: InnerForm = "explicit" if plan.form == "explicit" else cheapest
    module = DeployedClassifier(preprocessing, model.backbone, AdaptiveHead(model, chosen))
    return StaticModel(form=chosen, module=module, approximate=False, record={"reason": approximation})


@unexplained_form.register
def _(model: VanillaRegressor, plan: FormPlan, preprocessing: Standardization) -> StaticModel:
    _refuse_form(model, plan)
    module = DeployedRegressor(preprocessing, PlainEstimator(model.network))
    return StaticModel(form="vanilla", module=module, approximate=False, record={})


@unexplained_form.register
def _(model: MetaNeighborhoodsRegressor, plan: FormPlan, preprocessing: Standardization) -> StaticModel:
    if plan.form == "explicit":
        raise FormError(
            "A regressor is adapted in all its layers; no form builds weights of its own for every row, so there is no "
            "--form explicit. The exact form is --form factored."
        )
    approximation = _approximated(plan, lambda: approximate_regressor(model, plan, preprocessing))
    if isinstance(approximation, StaticModel):
        return approximation
    module = DeployedRegressor(preprocessing, AdaptiveEstimator(model))
    return StaticModel(form="factored", module=module, approximate=False, record={"reason": approximation})


def _approximated(plan: FormPlan, approximate: Callable[[], StaticModel | str]) -> StaticModel | str:
    """Return the low-rank form if ``plan`` allows it and it is worth it, or the reason for an exact form.

    Raises:
        FormError: low_rank was asked for, and the model has none.
    """
    if plan.form not in ("auto", "low_rank"):
        return "asked for"
    approximation = approximate()
    if plan.form == "low_rank" and isinstance(approximation, str):
        raise FormError(approximation)
    return approximation


def _refuse_form(model: Model, plan: FormPlan) -> None:
    if plan.rank is not None:
        raise FormError(
            f"The classifier of a {type(model).__name__.lower()} model does not adapt, so it has no rank; leave out "
            "--rank."
        )
    if plan.form != "auto":
        raise FormError(
            f"The classifier of a {type(model).__name__.lower()} model does not adapt, so it has no form "
            f"{plan.form!r}; leave out --form (or give --form auto). Layers choose their forms by themselves."
        )


def without_adaptation(model: Model) -> Model:
    """Return the same network without the dictionary, in eval mode, with inner products in place of similarities.

    iFiLM is a part of the backbone and stays.
    """
    plain = model.plain()
    if isinstance(plain, Vanilla):
        plain = Vanilla(plain_twin(plain.backbone), plain.head)
    return plain.eval()
