"""New rows in the columns of an artifact.

Shapes: N rows, F columns.
"""

from __future__ import annotations

import dataclasses

from mntrain.artifact_config import TableArtifactConfig
from mntrain.data.config import DataConfig
from mntrain.data.labels import listing
from mntrain.data.loading import load_source
from mntrain.data.tables import SourceTable, TableSet
from mntrain.errors import DataError


def load_new_rows(config: TableArtifactConfig, reading: DataConfig) -> SourceTable:
    """Load a table, and put its columns in the order of the artifact's; they are found by name.

    Raises:
        DataError: the table cannot be read, or lacks a column.
    """
    source = load_source(reading)
    assert isinstance(source, SourceTable)
    missing = [name for name in config.columns if name not in source.feature_names]
    if missing:
        raise DataError(
            f"'{reading.path}' has no column {listing([repr(name) for name in missing])}, which the model takes; it "
            f"has {listing(source.feature_names)}."
        )
    order = [source.feature_names.index(name) for name in config.columns]
    return dataclasses.replace(
        source,
        splits={
            split: TableSet(inputs=rows.inputs[:, order], targets=rows.targets) for split, rows in source.splits.items()
        },
        feature_names=config.columns,
    )
