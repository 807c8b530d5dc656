"""Opening of foreign features, whatever files they lie in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mntrain.data.reading.split_names import split_of
from mntrain.errors import ConfigError, DataError
from mntrain.feature_store.arrays.members import Members, read_classifier, read_members
from mntrain.feature_store.arrays.npy_members import NpyMembers
from mntrain.feature_store.arrays.parquet import read_parquet
from mntrain.feature_store.arrays.parts import ArraySet
from mntrain.feature_store.arrays.safetensors_members import SafetensorsMembers
from mntrain.networks.hub import nearest_sibling

_ENDINGS = (".npz", ".safetensors", ".parquet")
_CLASSIFIER = "classifier"


def open_arrays(path: Path, options: Mapping[str, Any]) -> ArraySet:
    """Open a file, a folder with a file for each split (and perhaps a classifier), or a folder of .npy files.

    Args:
        path: of the file or folder.
        options: fields of ``data`` that are given.

    Raises:
        ConfigError: there is nothing, or a file of another kind.
        DataError: files are damaged, or hold no features.
    """
    if path.is_file():
        return _open_file(path, options)
    if not path.is_dir():
        raise ConfigError(f"{path} does not exist.{nearest_sibling(path, folders=False)}")
    files = sorted(item for item in path.iterdir() if item.suffix.lower() in _ENDINGS)
    splits = {split: item for item in files if (split := split_of(item.stem)) is not None}
    if "train" not in splits:
        if any(path.glob("*.npy")):
            return read_members(NpyMembers(path), str(path))
        raise DataError(
            f"{path} holds no train{_ENDINGS[0]}, train{_ENDINGS[1]} or train{_ENDINGS[2]}, and no features.npy; give "
            "a file, or a folder with one for each split."
        )
    opened = {split: _open_file(item, options) for split, item in splits.items()}
    for split, one in opened.items():
        if set(one.parts) != {"all"}:
            raise DataError(f"{splits[split]} has splits of its own; in a folder of splits it must hold one alone.")
    train = opened["train"]
    for split, one in opened.items():
        if one.label_names not in (None, train.label_names):
            raise DataError(f"{splits[split]} has other label_names than {splits['train']}; all splits need the same.")
    own = next((item for item in files if item.stem == _CLASSIFIER), None)
    found = read_classifier(_members(own)) if own is not None else {}
    described = {"weight": train.weight, "bias": train.bias, "label_names": train.label_names} | found
    return ArraySet(parts={split: one.parts["all"] for split, one in opened.items()}, **described)


def _open_file(path: Path, options: Mapping[str, Any]) -> ArraySet:
    if path.suffix.lower() == ".parquet":
        return read_parquet(path, options)
    return read_members(_members(path), str(path))


def _members(path: Path) -> Members:
    ending = path.suffix.lower()
    if ending == ".npz":
        return NpyMembers(path)
    if ending == ".safetensors":
        return SafetensorsMembers(path)
    raise ConfigError(f"{path} is no file of features; it must be called {', '.join(_ENDINGS)}, or be a folder.")
