"""Which files, folders or parts of a data set are which split, by their names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mntrain.data.labels import listing
from mntrain.data.reading.split_names import split_of, split_of_shard, words
from mntrain.errors import ConfigError, DataError


@dataclass(frozen=True, kw_only=True)
class SplitGroups:
    """Names of each split, or all of them as ``all``, in order.

    Args:
        groups: split → names.
        left_out: names that belong to no split.
        words: a sentence on how this came about.
    """

    groups: Mapping[str, Sequence[str]]
    left_out: tuple[str, ...] = ()
    words: str = ""


def group_splits(
    names: Sequence[str],
    *,
    what: str,
    where: str,
    test: str | None,
    shards: bool = False,
    strict: bool,
    trained: bool = True,
) -> SplitGroups:
    """Group the names of files (their stems) or splits.

    Args:
        names: all different.
        what: they are, for messages, such as "files".
        where: they are, for messages.
        test: ``data.test_split``, the name that is tested on.
        shards: accept numbered parts such as ``train-00000-of-00002``.
        strict: refuse other names beside those of splits; else they are left out.
        trained: there must be a train split.

    Raises:
        ConfigError: ``test`` is not there, or is the train split.
        DataError: names are mixed, two mean the same split, or splits lack a train split.
    """
    found = {name: _split(name, shards) for name in names}
    if test is not None:
        tested = [name for name in names if name == test or (shards and _word(name) == test.lower())]
        # Files called val are tested on for validation, too.
        tested = tested or [name for name, split in found.items() if split is not None and split == split_of(test)]
        lacking = trained and "train" not in found.values()
        if not tested or "train" in {found[name] for name in tested} or lacking:
            raise ConfigError(
                f"data.test_split is {test!r}, but {where} has the splits {listing(list(names))}; name one that stands "
                "beside a train split, or leave it out."
            )
        found = {name: None if split == "test" else split for name, split in found.items()}
        found |= dict.fromkeys(tested, "test")
    known = {name: split for name, split in found.items() if split is not None}
    others = [name for name in names if name not in known]
    if len(names) == 1 or not known:
        _check_words(names, what=what, where=where)
        joined = "one part" if len(names) == 1 else f"{len(names)} {what} without split names, joined in their order"
        return SplitGroups(groups={"all": list(names)}, left_out=(), words=f"drawn from {joined}")
    if others and strict and test is None:
        raise DataError(
            f"{where} holds {what} with split names ({listing(list(known))}) and without ({listing(others)}); rename "
            "or move away those of one kind, or give a single one as data.path."
        )
    if trained and "train" not in known.values():
        raise DataError(
            f"{where} holds the splits {listing(list(known))}, but none called train; rename the one to train on, or "
            "give a single one as data.path."
        )
    groups: dict[str, list[str]] = {}
    for split in ("train", "validation", "test"):
        members = [name for name, meaning in known.items() if meaning == split]
        if len(members) > 1 and not (shards and all(_numbered(name) for name in members)):
            raise DataError(f"{where}: {listing(members)} all mean the {split} split; join them, or rename one.")
        if members:
            groups[split] = members
    if set(groups) == {"train"}:
        # Data without further splits is recorded as the whole.
        return SplitGroups(groups={"all": groups["train"]}, left_out=tuple(others), words="drawn from the train split")
    told = "; ".join(f"{split} from {listing(members)}" for split, members in groups.items())
    return SplitGroups(groups=groups, left_out=tuple(others), words=f"by the names of {what}: {told}")


def _split(name: str, shards: bool) -> str | None:
    if not shards:
        return split_of(name)
    found = split_of_shard(name)
    return None if found is None else found[0]


def _word(name: str) -> str:
    """Return a name in small letters without the number of a part."""
    return re.split(r"[-_. ]?\d", name, maxsplit=1)[0].lower()


def _numbered(name: str) -> bool:
    found = split_of_shard(name)
    return found is not None and found[1]


def _check_words(names: Sequence[str], *, what: str, where: str) -> None:
    """Refuse names like usps_train and usps_test, since joining them would train on test images."""
    meant = {name: words(name) for name in names}
    splits = set().union(*meant.values())
    if len(names) > 1 and "train" in splits and len(splits) > 1:
        telling = [name for name, found in meant.items() if found]
        raise DataError(
            f"{where}: the {what} {listing(telling)} have split words in their names, but are not called train, "
            "validation or test; rename them, so that they are splits or plainly none."
        )
