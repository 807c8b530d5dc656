"""Order of the rooms of each package: the floors, from top to bottom.

A room is a sub-folder or a top-level module. A module may import its own room, rooms on the same floor and rooms on
lower floors. An entry with a dot, such as ``training.config``, takes one module or sub-folder out of its room.
``tests/test_architecture.py`` holds the packages to this order.
"""

from collections.abc import Mapping, Sequence
from typing import Final

ROOT_ROOM: Final = "(root)"
"""Room of a package's own ``__init__`` and ``__main__``, on top of all floors."""

FLOORS: Final[Mapping[str, Sequence[Sequence[str]]]] = {
    "mntrain": (
        ("commands",),
        ("analysis", "crossval"),
        ("comparison",),
        ("neighbors",),
        ("training",),
        ("artifact",),
        ("artifact_config", "config_differences"),
        ("config",),
        ("backbones", "data", "models", "training.config"),
        ("layers",),
        ("distributed", "finite", "plotting", "result_folder", "result_table"),
        ("errors", "atomic_files"),
    ),
    "mnexport": (
        ("arguments", "pipeline", "report_text"),
        ("lowering_stage", "publishing", "report"),
        ("proving",),
        ("checking", "cpu_file", "neighbours", "subject"),
        ("calibrating",),
        ("lowering", "options"),
        ("accuracy", "blocked", "graph", "quantization", "repository"),
        ("model_card", "parity"),
        ("forms", "scratch", "tensorrt", "tolerance"),
        ("layout", "signals", "signature"),
        ("errors",),
    ),
    "mnserve": (
        ("commands",),
        ("process",),
        ("server",),
        ("rpc", "tuning"),
        ("bench", "predicting", "observability"),
        ("models",),
        ("settings", "client", "batching"),
        ("repository", "access", "execution"),
        ("engines",),
        ("failing", "atomic_files", "codec", "status"),
        ("text", "errors", "protocol"),
    ),
}
