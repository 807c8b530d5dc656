"""Say where the splits of a set come from."""

from __future__ import annotations

from mntrain.data.account import SourceAccount
from mntrain.data.config import DataConfig
from mntrain.data.split_record import SPLITS, SplitRecord


def split_rule(split: SplitRecord, account: SourceAccount, config: DataConfig, *, classes: bool) -> str:
    """Write a sentence on the splits: those of the source, and those that were drawn.

    Args:
        split: record of the split.
        account: of the source.
        config: fractions, folds and seed.
        classes: True where examples are drawn per class.
    """
    parts = [account.splits.rstrip(".")] if account.splits else []
    own = [name for name in SPLITS if split.origins[name] == name]
    if own and not account.splits:
        parts.append(f"{' and '.join(own)} of the source itself")
    drawn = []
    if split.origins["test"] != "test":
        fold = None if config.folds is None else f"test is fold {config.fold} of {config.folds}"
        whole = "train" if split.origins["test"] == "train" else "all"
        drawn.append(fold or f"test is {config.test_fraction:.4g} of {whole}")
    if split.origins["validation"] != "validation":
        whole = "train" if split.origins["train"] == "train" else "the rest"
        whole = "test" if config.validation_from == "test" else whole
        drawn.append(f"validation is {config.validation_fraction:.4g} of {whole}")
    if drawn:
        parts.append(f"{' and '.join(drawn)}, drawn {'per class' if classes else 'at random'} with seed {split.seed}")
    if split.imbalance is not None:
        parts.append(split.imbalance.sentence())
    elif split.left_out:
        parts.append(f"train is limited to {split.counts['train']:,}")
    return "; ".join(parts)
