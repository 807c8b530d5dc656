"""The Meta-Neighborhoods family and its rows in the paper's tables."""

from mntrain.models.family import OWN_ROWS, Family, FamilyVariant
from mntrain.models.meta_neighborhoods.config import MetaNeighborhoodsConfig
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods
from mntrain.models.meta_neighborhoods.regression import MetaNeighborhoodsRegressor


def _steps(count: int, form: str) -> tuple[str, ...]:
    return ("--meta_neighborhoods.steps", str(count), "--meta_neighborhoods.step_size_form", form)


def _start(init: str) -> tuple[str, ...]:
    return ("--backbone.ifilm", "false", "--meta_neighborhoods.init", init)


META_NEIGHBORHOODS = Family(
    config=MetaNeighborhoodsConfig,
    build=MetaNeighborhoods.from_config,
    build_regressor=MetaNeighborhoodsRegressor,
    variants=(
        FamilyVariant(name="mn", table=1, words=("--backbone.ifilm", "false")),
        FamilyVariant(name="mn+ifilm", table=1, words=("--backbone.ifilm", "true")),
        # The paper's diagonal step size has one element for each parameter.
        FamilyVariant(name="mn-1-scalar", table=3, words=_steps(1, "scalar")),
        FamilyVariant(name="mn-1-diagonal", table=3, words=_steps(1, "per_parameter")),
        FamilyVariant(name="mn-3-scalar", table=3, words=_steps(3, "scalar")),
        FamilyVariant(name="mn-3-diagonal", table=3, words=_steps(3, "per_parameter")),
        # Both starts of the dictionary, whichever the recipe takes.
        FamilyVariant(name="mn-paper", table=OWN_ROWS, words=_start("paper")),
        FamilyVariant(name="mn-data", table=OWN_ROWS, words=_start("data")),
    ),
)
