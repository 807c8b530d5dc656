"""What a session of heads refuses before any head is made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mntrain.config import check_run_name
from mntrain.errors import ConfigError, DataError
from mntrain.feature_store.store import FeatureStore, open_store
from mntrain.heads.comparison_files import COMPARISON
from mntrain.heads.feature_scale import FeatureScale, finite_chunks
from mntrain.heads.maker import HeadMaker
from mntrain.heads.methods.registry import NamedMethod, needed_methods
from mntrain.heads.record import RECORD


def usable_store(path: Path) -> tuple[FeatureStore, FeatureScale]:
    """Open a store, check that heads can learn from it, and measure its training rows.

    Raises:
        DataError: a class has no training row, a value is not finite, or all features have one value.
    """
    store = open_store(path)
    empty = [name for name, count in zip(store.label_names, store.counts, strict=True) if not count]
    if empty:
        raise DataError(
            f"{len(empty)} class(es) of {path} have no training row, {empty[0]!r} among them; write the store again "
            "without them (--data.classes), or with examples of them."
        )
    for name in ("validation", "test"):
        for _ in finite_chunks(store.part(name).features, f"{name} rows of {path}"):
            pass
    return store, FeatureScale.of(store.train.features, f"training rows of {path}")


def check_stores(stores: Sequence[FeatureStore]) -> None:
    """Refuse stores of other classes, whose scores cannot be averaged, and copies, which are no second sample.

    Raises:
        ConfigError: there are such.
    """
    first, *others = stores
    for store in others:
        if store.label_names != first.label_names:
            changed = [name for name in store.label_names if name not in first.label_names]
            reason = f"such as {changed[0]!r}" if changed else "or the same in another order"
            raise ConfigError(
                f"{store.path} has other classes than {first.path}, {reason}; heads are compared over stores of the "
                "same classes. Give stores of other classes a command of their own."
            )
    found: dict[str, Path] = {}
    for store in stores:
        if (other := found.setdefault(store.sha256, store.path)) != store.path:
            raise ConfigError(
                f"{store.path} has the same features and labels as {other}; a copy is no second store to compare heads "
                "over. Leave it out."
            )


def check_methods(maker: HeadMaker, methods: Sequence[NamedMethod]) -> None:
    """Refuse methods whose settings do not fit the store of a maker, and those that they start from.

    Raises:
        ConfigError: there are such.
    """
    for method in needed_methods(methods):
        if method.method.check is not None:
            method.method.check(maker.problem(method))


def check_folders(folders: Sequence[Path], compared: Path | None, *, overwrite: bool) -> None:
    """Refuse wrong names, and folders that are there already.

    Args:
        folders: of the heads.
        compared: folder of the comparison; None where there is none.
        overwrite: earlier results of the same names are replaced.

    Raises:
        ConfigError: there are such, or a folder is none of a head.
    """
    for folder in folders:
        check_run_name(folder.name)
    written = [(folder, RECORD) for folder in folders]
    for folder, file in [*written, *([] if compared is None else [(compared, COMPARISON)])]:
        if not folder.exists() and not folder.is_symlink():
            continue
        if not overwrite:
            raise ConfigError(f"{folder} exists already; choose another --name, or replace it with --overwrite.")
        if folder.is_symlink() or not (folder / file).is_file():
            raise ConfigError(f"{folder} is no result of `mntrain head` and is left alone; choose another --name.")
