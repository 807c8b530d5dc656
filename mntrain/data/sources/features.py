"""Rows that are features of a frozen network, memory-mapped from a feature store."""

from __future__ import annotations

from mntrain.data.account import ColumnAccount, SourceAccount
from mntrain.data.config import DataConfig
from mntrain.data.feature_origin import FeatureOrigin
from mntrain.data.reading.local_path import local_path
from mntrain.data.split_record import SPLITS
from mntrain.data.tables import SourceTable, TableSet
from mntrain.errors import DataError
from mntrain.feature_store.samples import read_samples
from mntrain.feature_store.store import FeatureStore, open_store

_TARGET = "class"


def load(config: DataConfig) -> SourceTable:
    """Open the feature store ``config.path``; its arrays stay on disk, and every view of an image is a row.

    Raises:
        DataError: no finished store is there, or its features are not finite.
    """
    store = open_store(local_path(str(config.path)))
    try:
        splits = {name: TableSet(inputs=store.part(name).features, targets=store.part(name).labels) for name in SPLITS}
    except DataError as error:
        raise DataError(f"{store.path}: {error} Write the store again with `mntrain features`.") from error
    return SourceTable(
        splits=splits,
        feature_names=tuple(f"feature_{number}" for number in range(store.features)),
        target_names=(_TARGET,),
        label_names=store.label_names,
        origin=FeatureOrigin(network=store.network, samples=read_samples(store), views=store.crops),
        account=_account(store),
    )


def _account(store: FeatureStore) -> SourceAccount:
    views = "" if store.crops == 1 else f"; {store.crops} views of each training image are rows of their own"
    last = store.features - 1
    return SourceAccount(
        location=str(store.path),
        layout=f"features of the network {store.network.name} ({store.network.kind}){views}",
        splits="splits of the feature store",
        columns=(
            ColumnAccount(name=_TARGET, role="target", kind="class", categories=store.label_names),
            # One line for all of them: they have neither names nor units of their own.
            ColumnAccount(name=f"feature_0 to feature_{last}" if last else "feature_0", role="feature", kind="number"),
        ),
    )
