"""Passes in blocks give the results of passes over the whole."""

from __future__ import annotations

import numpy as np
import pytest

from mntrain.data.blockwise import row_blocks
from mntrain.data.blockwise.column_statistics import column_statistics
from mntrain.data.blockwise.row_blocks import any_value, column_blocks
from mntrain.data.duplicates import example_keys


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "_NUMBERS", 60)


@pytest.mark.parametrize("rows", [1, 7, 60, 61])
def test_blocks_cover_every_row_and_column_once(small_blocks: None, rows: int) -> None:
    array = np.zeros((rows, 9), np.float32)
    for block in row_blocks.row_blocks(array):
        array[block] += 1
    for block in column_blocks(array, 8):
        array[:, block] += 1
    assert (array[:, :8] == 2).all()
    assert (array[:, 8] == 1).all()
    assert len(list(row_blocks.row_blocks(array))) == -(-rows // max(1, 60 // 9))


def test_a_value_is_found_in_any_block(small_blocks: None) -> None:
    array = np.zeros((50, 9), np.float32)
    assert not any_value(np.isnan, array)
    array[49, 8] = np.nan
    assert any_value(np.isnan, array)


@pytest.mark.parametrize("imputation", [None, "mean", "median"])
def test_statistics_are_those_of_all_columns_at_once_to_the_bit(
    monkeypatch: pytest.MonkeyPatch, imputation: str | None
) -> None:
    random = np.random.default_rng(0)
    inputs = (random.normal(size=(101, 12)) * 3 + 1e3).astype(np.float32)
    if imputation is not None:
        inputs[::7, 3] = np.nan
    expected = inputs[:, :11].astype(np.float64)
    fill = None
    if imputation is not None:
        fill = (np.nanmedian if imputation == "median" else np.nanmean)(expected, axis=0)
        expected = np.where(np.isnan(expected), fill, expected)
    monkeypatch.setattr(row_blocks, "_NUMBERS", 300)
    found = column_statistics(inputs, 11, imputation)  # type: ignore[arg-type]
    np.testing.assert_array_equal(found.mean, expected.mean(axis=0))
    np.testing.assert_array_equal(found.std, expected.std(axis=0))
    assert (found.fill is None) == (fill is None)
    if fill is not None:
        np.testing.assert_array_equal(found.fill, fill)


def test_digests_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    labels = np.arange(40, dtype=np.int64)
    whole = example_keys(inputs, labels)
    monkeypatch.setattr(row_blocks, "_NUMBERS", 33)
    np.testing.assert_array_equal(example_keys(inputs, labels), whole)
