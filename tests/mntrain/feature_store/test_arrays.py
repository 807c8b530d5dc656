"""Foreign features as stores: every kind of file, splits, classifiers, and arrays that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from mntrain.commands.cli import main
from mntrain.errors import ConfigError, DataError
from mntrain.feature_store.arrays import parts
from mntrain.feature_store.arrays.session import ArrayOptions, write_arrays
from mntrain.feature_store.store import FeatureStore, open_store
from mntrain.networks.options import NetworkOptions

ROWS, WIDTH, CLASSES = 60, 5, 3
RANDOM = np.random.default_rng(0)
FEATURES = RANDOM.normal(size=(ROWS, WIDTH)).astype(np.float32)
LABELS = np.arange(ROWS) % CLASSES
NAMES = np.array(["ant", "bee", "cow"])
WEIGHT, BIAS = RANDOM.normal(size=(CLASSES, WIDTH)).astype(np.float32), np.ones(CLASSES, np.float32)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of seven rows, so that every file is read in several."""
    monkeypatch.setattr(parts, "BLOCK_BYTES", 7 * WIDTH * 4)


def write(place: Path, store: Path, **data: Any) -> FeatureStore:
    return write_arrays(ArrayOptions(network=NetworkOptions(source=f"arrays:{place}"), store=store, data=data)).store


def npz(path: Path) -> Path:
    np.savez(path / "a.npz", features=FEATURES, labels=LABELS, weight=WEIGHT, bias=BIAS, label_names=NAMES)
    return path / "a.npz"


def compressed(path: Path) -> Path:
    np.savez_compressed(path / "a.npz", features=FEATURES.astype(np.float64), labels=NAMES[LABELS])
    return path / "a.npz"


def safetensors(path: Path) -> Path:
    file = path / "a.safetensors"
    save_file(
        {"features": FEATURES, "labels": LABELS, "fc.weight": WEIGHT}, file, {"label_names": '["ant", "bee", "cow"]'}
    )
    return file


def parquet_list(path: Path) -> Path:
    table = pa.table({"features": pa.FixedSizeListArray.from_arrays(FEATURES.ravel(), WIDTH), "label": NAMES[LABELS]})
    pq.write_table(table, path / "a.parquet", row_group_size=11)
    return path / "a.parquet"


def parquet_columns(path: Path) -> Path:
    columns = {f"f{i}": FEATURES[:, i].astype(np.float64) for i in range(WIDTH)}
    pq.write_table(pa.table(columns | {"labels": LABELS}), path / "a.parquet")
    return path / "a.parquet"


def folder_of_npy(path: Path) -> Path:
    np.save(path / "features.npy", FEATURES)
    np.save(path / "labels.npy", LABELS)
    return path


@pytest.mark.parametrize(
    "make", [npz, compressed, safetensors, parquet_list, parquet_columns, folder_of_npy], ids=lambda make: make.__name__
)
def test_every_row_lands_in_one_split_with_its_label(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    (tmp_path / "in").mkdir()
    store = write(make(tmp_path / "in"), tmp_path / "store", test_fraction=0.2, validation_fraction=0.25)
    assert [len(store.part(name)) for name in ("train", "validation", "test")] == [36, 12, 12]
    rows = np.concatenate([store.part(name).features for name in ("train", "validation", "test")])
    labels = np.concatenate([store.part(name).labels for name in ("train", "validation", "test")])
    origin = {row.tobytes(): position for position, row in enumerate(FEATURES)}
    positions = [origin[row.tobytes()] for row in rows]
    assert sorted(positions) == list(range(ROWS))
    np.testing.assert_array_equal(labels, LABELS[positions])
    assert store.counts.tolist() == [12, 12, 12], "classes in proportion"
    assert store.network.kind == "arrays"
    assert (store.classifier is not None) == (make in (npz, safetensors))
    if store.classifier is not None:
        np.testing.assert_array_equal(store.classifier.weight, WEIGHT)


def test_another_seed_draws_other_splits(tmp_path: Path) -> None:
    file = npz(tmp_path)
    one, again = write(file, tmp_path / "one"), write(file, tmp_path / "again")
    other = write(file, tmp_path / "other", split_seed=1)
    assert one.sha256 == again.sha256 != other.sha256


def test_splits_of_the_files_are_kept(tmp_path: Path) -> None:
    cuts = {"train": slice(0, 40), "val": slice(40, 50), "test": slice(50, 60)}
    arrays: dict[str, Any] = {f"{name}_features": FEATURES[cut] for name, cut in cuts.items()}
    arrays |= {f"{name}_labels": LABELS[cut] for name, cut in cuts.items()}
    np.savez(tmp_path / "a.npz", **arrays)
    words = np.repeat(["train", "validation", "test"], [40, 10, 10])
    table = {f"f{i}": FEATURES[:, i] for i in range(WIDTH)} | {"y": LABELS, "part": words}
    pq.write_table(pa.table(table), tmp_path / "b.parquet")
    folder = tmp_path / "c"
    folder.mkdir()
    for name, cut in cuts.items():
        np.savez(folder / f"{name}.npz", features=FEATURES[cut], labels=LABELS[cut])
    np.savez(folder / "classifier.npz", weight=WEIGHT, bias=BIAS)
    stores = [
        write(tmp_path / "a.npz", tmp_path / "sa"),
        write(tmp_path / "b.parquet", tmp_path / "sb", split_column="part", target_column="y"),
        write(folder, tmp_path / "sc"),
    ]
    for store in stores:
        np.testing.assert_array_equal(store.train.features, FEATURES[:40])
        np.testing.assert_array_equal(store.validation.features, FEATURES[40:50])
        np.testing.assert_array_equal(store.test.labels, LABELS[50:])
    assert [store.classifier is not None for store in stores] == [False, False, True]


def test_a_store_that_is_there_is_replaced_on_request_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["features", f"arrays:{npz(tmp_path)}", str(tmp_path / "store")]
    assert main(words) == 0
    assert "classifier: the arrays' own, of 3 classes" in capsys.readouterr().out
    assert main(words) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main([*words, "--overwrite", "--data.split_seed", "2"]) == 0
    assert open_store(tmp_path / "store").data["config"]["split_seed"] == 2


def broken(value: float, row: int = 20) -> Any:
    features = FEATURES.copy()
    features[row, 1] = value
    return features


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"features": broken(np.nan), "labels": LABELS}, "features: row 20 holds nan"),
        ({"features": broken(np.inf, 3), "labels": LABELS}, "features: row 3 holds inf"),
        ({"features": FEATURES.astype(np.float64) * 1e300, "labels": LABELS}, "features: row 0 holds -?inf"),
        ({"features": FEATURES, "labels": LABELS[:-1]}, r"60 rows of features, but labels of shape \[59\]"),
        ({"features": FEATURES[0], "labels": LABELS}, r"must be \[rows, features\]"),
        ({"features": FEATURES, "labels": LABELS / 2}, "labels of float64"),
        ({"features": FEATURES, "labels": LABELS - 1}, "row 0 has label -1.* from 0 on; 20 row.s. are below"),
        ({"features": FEATURES, "labels": LABELS, "weight": WEIGHT.T}, r"shape \[5, 3\].*transposed, so give weight.T"),
        ({"features": FEATURES, "labels": np.array([b"\xff", b"a"])[LABELS % 2]}, "no UTF-8"),
        ({"features": FEATURES, "labels": LABELS + 1, "weight": WEIGHT}, "row 2 has label 3.*rows of the classifier"),
        ({"features": FEATURES, "labels": LABELS, "weight": WEIGHT[:, 1:]}, r"weights of shape \[3, 4\]"),
        ({"features": FEATURES, "labels": LABELS, "bias": BIAS}, "a bias but no weight"),
        ({"features": FEATURES, "labels": LABELS * 2}, "2 of 5 classes have no training row: '1', '3'"),
        ({"features": FEATURES, "labels": NAMES[LABELS], "label_names": NAMES[:2]}, "'cow' are not among"),
        ({"features": np.asfortranarray(FEATURES), "labels": LABELS}, "column by column"),
        ({"features": FEATURES.astype(str), "labels": LABELS}, "must be numbers"),
        ({"embeddings": FEATURES}, "holds the arrays embeddings; it must hold features"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path: Path, arrays: dict[str, Any], words: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=words):
        write(tmp_path / "a.npz", tmp_path / "store")
    assert {item.name for item in tmp_path.iterdir()} == {"a.npz"}


def test_splits_of_two_widths(tmp_path: Path) -> None:
    for name, width in (("train", 5), ("test", 4)):
        np.savez(tmp_path / f"{name}.npz", features=FEATURES[:, :width], labels=LABELS)
    with pytest.raises(DataError, match=r"has 4 features a row, .* has 5"):
        write(tmp_path, tmp_path / "store")


def test_a_classifier_of_classes_that_have_no_order(tmp_path: Path) -> None:
    labels = np.array(["cow", "ant", "bee"])[LABELS]
    np.savez(tmp_path / "a.npz", features=FEATURES, labels=labels, weight=WEIGHT)
    with pytest.raises(DataError, match="give label_names in the order of its rows"):
        write(tmp_path / "a.npz", tmp_path / "store")
    names = np.array(["cow", "ant", "bee"])
    np.savez(tmp_path / "a.npz", features=FEATURES, labels=labels, weight=WEIGHT, label_names=names)
    store = write(tmp_path / "a.npz", tmp_path / "store")
    assert store.label_names == ("cow", "ant", "bee")


def test_names_may_be_bytes(tmp_path: Path) -> None:
    names = np.char.encode(np.array(["ähre", "bee", "cow"]), "utf-8")
    words = np.array([b"train", b"val", b"test"])[np.arange(ROWS) // CLASSES % 3]
    np.savez(tmp_path / "a.npz", features=FEATURES, labels=names[LABELS], label_names=names, split=words)
    store = write(tmp_path / "a.npz", tmp_path / "store")
    assert store.label_names == ("ähre", "bee", "cow")
    assert [len(store.part(name)) for name in ("train", "validation", "test")] == [21, 21, 18]


def test_splits_of_other_columns_or_names(tmp_path: Path) -> None:
    columns = {f"f{i}": FEATURES[:, i] for i in range(WIDTH)} | {"label": LABELS}
    for split in ("train", "validation"):
        pq.write_table(pa.table(columns), tmp_path / f"{split}.parquet")
    pq.write_table(pa.table(dict(reversed(columns.items()))), tmp_path / "test.parquet")
    with pytest.raises(DataError, match=r"test\.parquet has the column 'f4' where .*train\.parquet has 'f0'"):
        write(tmp_path, tmp_path / "store")
    other = tmp_path / "named"
    other.mkdir()
    for split, names in (("train", NAMES), ("test", NAMES[::-1])):
        np.savez(other / f"{split}.npz", features=FEATURES, labels=LABELS, label_names=names)
    with pytest.raises(DataError, match="other label_names"):
        write(other, tmp_path / "store")


def test_lists_of_several_lengths(tmp_path: Path) -> None:
    lists = [row[: 4 + position % 2].tolist() for position, row in enumerate(FEATURES)]
    pq.write_table(pa.table({"features": lists, "label": LABELS}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"give each row as many|differ in length"):
        write(tmp_path / "a.parquet", tmp_path / "store")


def test_files_that_are_none(tmp_path: Path) -> None:
    npz(tmp_path)
    with pytest.raises(ConfigError, match=r"Did you mean '.*a\.npz'"):
        write(tmp_path / "b.npz", tmp_path / "store")
    (tmp_path / "a.npz").write_bytes(b"none")
    with pytest.raises(DataError, match="cannot be read"):
        write(tmp_path / "a.npz", tmp_path / "store")
    (tmp_path / "a.csv").write_text("x")
    with pytest.raises(ConfigError, match="is no file of features"):
        write(tmp_path / "a.csv", tmp_path / "store")
    np.savez(tmp_path / "o.npz", features=FEATURES, labels=np.array([{}] * ROWS))
    with pytest.raises(DataError, match="without Python objects"):
        write(tmp_path / "o.npz", tmp_path / "store")


def test_options_without_use(tmp_path: Path) -> None:
    file = npz(tmp_path)
    with pytest.raises(ConfigError, match=r"--data\.image_size has no use"):
        write(file, tmp_path / "store", image_size=3)
    with pytest.raises(ConfigError, match="Options of a network"):
        ArrayOptions(network=NetworkOptions(source=f"arrays:{file}", scale=255), store=tmp_path)
    assert main(["features", f"arrays:{file}", str(tmp_path / "store"), "--crops", "2"]) == 2
