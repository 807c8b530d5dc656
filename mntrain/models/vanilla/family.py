"""The vanilla family and its rows in the paper's tables."""

from mntrain.models.family import OWN_ROWS, Family, FamilyVariant
from mntrain.models.vanilla.config import VanillaConfig, with_entries_counted
from mntrain.models.vanilla.model import Vanilla
from mntrain.models.vanilla.regression import VanillaRegressor


def _head_and_optimizer(head: str, optimizer: str) -> tuple[str, ...]:
    # With SGD the rate and decay that section A.2 states for it; the recipe's are for AdamW.
    rates = ("--training.learning_rate", "0.1", "--training.weight_decay", "0.0005") if optimizer == "sgd" else ()
    return ("--vanilla.head", head, "--training.optimizer", optimizer, *rates)


VANILLA = Family(
    config=VanillaConfig,
    build=Vanilla.from_config,
    build_regressor=VanillaRegressor.from_config,
    complete=with_entries_counted,
    variants=(
        FamilyVariant(name="vanilla", table=1, words=("--backbone.ifilm", "false")),
        FamilyVariant(name="vanilla+ifilm", table=1, words=("--backbone.ifilm", "true")),
        FamilyVariant(name="dot-sgd", table=3, words=_head_and_optimizer("dot", "sgd")),
        FamilyVariant(name="dot-adamw", table=3, words=_head_and_optimizer("dot", "adamw")),
        FamilyVariant(name="cos-sgd", table=3, words=_head_and_optimizer("cosine", "sgd")),
        FamilyVariant(name="cos-adamw", table=3, words=_head_and_optimizer("cosine", "adamw")),
        # Appendix A.3: as many parameters as Meta-Neighborhoods has.
        FamilyVariant(
            name="vanilla-equal",
            table=OWN_ROWS,
            words=("--backbone.ifilm", "false", "--vanilla.extra_entries", "dictionary"),
        ),
    ),
)
