"""Settings of Alpha Net against the classes and features of a store, before anything is trained."""

from __future__ import annotations

from dataclasses import replace

from mntrain.heads.alpha.config import AlphaHeadSettings
from mntrain.heads.alpha.inputs import reduced_width
from mntrain.heads.alpha.neighbors import check_neighbors, most_neighbors
from mntrain.heads.alpha.network import check_memory, module_shape
from mntrain.heads.alpha.sweeps import sweep_counts
from mntrain.heads.groups import ClassGroups

_FLOAT32 = 4


def check_alpha(settings: AlphaHeadSettings, groups: ClassGroups, features: int, rank: int) -> None:
    """Check everything that the training itself would refuse after its base classifier has learned.

    Args:
        settings: of Alpha Net.
        groups: classes of few, medium and many.
        features: d.
        rank: largest number of principal components that classifiers can have.

    Raises:
        ConfigError: more neighbors than classes to choose among, more components than classifiers can have, a sweep
            without a value, or modules that no memory holds.
    """
    most, config = most_neighbors(groups, settings.source), settings.resolved()
    check_neighbors(config.neighbors, most)
    counts = sweep_counts(most) if settings.sweep in ("neighbors", "both") else ()
    width = features if config.reduced == 0 else reduced_width(config.reduced, rank, len(groups.counts))
    if config.network == "later":
        return
    for count in {config.neighbors, *counts}:
        sized = replace(config, neighbors=count, hidden=config.hidden or width)
        check_memory(sized, module_shape(sized, len(groups.members("few")), (count + 1) * width), _FLOAT32)
