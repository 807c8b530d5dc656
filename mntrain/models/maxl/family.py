"""The MAXL family and its rows in the paper's tables."""

from mntrain.models.family import Family, FamilyVariant
from mntrain.models.maxl.config import MaxlConfig
from mntrain.models.maxl.model import Maxl

# Section A.2; the generator's rate (0.001) and the virtual step (the learner's rate) are those of MAXL's authors.
_PUBLISHED = (
    *("--training.optimizer", "sgd", "--training.learning_rate", "0.1", "--training.weight_decay", "0.0005"),
    *("--training.drop_every", "50", "--training.drop_factor", "0.5"),
    *("--maxl.generator_rate", "0.01", "--maxl.virtual_step", "0.1"),
)


MAXL = Family(
    config=MaxlConfig,
    build=Maxl.from_config,
    variants=(
        FamilyVariant(name="maxl", table=1, words=()),
        FamilyVariant(name="maxl-sgd", table=1, words=_PUBLISHED),
    ),
)
