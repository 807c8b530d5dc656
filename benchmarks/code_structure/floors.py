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
        ("analysis", "crossval", "datasheet", "evaluation", "fewshot", "hub"),
        ("feature_store", "heads"),
        ("comparison",),
        ("neighbors",),
        ("training",),
        ("networks",),
        ("artifact",),
        ("model_card",),
        ("acting",),
        ("training.evaluation",),
        ("artifact_config",),
        ("config",),
        ("fields",),
        ("baselines", "models", "training_config"),
        ("backbones", "data.sources"),
        ("feature_store.samples", "feature_store.store", "feature_store.writing"),
        ("networks.pixels",),
        ("data",),
        ("layers", "heads.classifier", "networks.record", "networks.sample_images"),
        ("config_fields", "distributed", "plotting", "random_draws", "result_folder", "result_table", "run_progress"),
        ("atomic_files", "errors", "hugging_face_hub", "missing_packages", "regular_files", "terminal_text"),
    ),
    "mnexport": (
        ("commands",),
        ("pipeline",),
        ("few_shot",),
        ("export_record", "exported_card"),
        ("report",),
        ("cpu_file", "options"),
        ("precision",),
        ("parity",),
        ("calibration", "model_files"),
        ("export_source",),
        ("repository",),
        ("graft",),
        ("forms", "graph", "scratch", "tensorrt"),
        ("blocked", "category_inputs", "progress", "signals", "signature"),
        ("errors", "runtime"),
    ),
    "mnserve": (
        ("commands",),
        ("distributed", "process"),
        ("processes", "server"),
        ("console",),
        ("http",),
        ("rpc", "tuning"),
        ("bench", "checking", "predicting", "observability", "remote", "engine_links"),
        ("shared_catalogue", "starting"),
        ("models",),
        ("settings", "client", "batching"),
        ("repository", "access", "execution", "object_store"),
        ("engines",),
        ("failing",),
        ("atomic_files", "channel", "codec", "status"),
        ("text", "errors", "missing_packages", "protocol"),
    ),
}
