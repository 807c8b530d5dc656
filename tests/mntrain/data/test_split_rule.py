"""The sentence on the splits names the whole that each share is of."""

import numpy as np
import pytest

from mntrain.data.account import SourceAccount
from mntrain.data.config import DataConfig
from mntrain.data.examples import IndexArray
from mntrain.data.split_record import SPLITS, SplitRecord
from mntrain.data.summary.split_rule import split_rule


@pytest.mark.parametrize(
    ("origins", "told"),
    [
        ({"train": "train", "validation": "validation", "test": "train"}, "test is 0.2 of train, drawn"),
        ({"train": "train", "validation": "train", "test": "test"}, "validation is 0.1 of train, drawn"),
        (dict.fromkeys(SPLITS, "all"), "test is 0.2 of all and validation is 0.1 of the rest, drawn"),
    ],
)
def test_a_share_is_of_what_it_was_drawn_from(origins: dict[str, str], told: str) -> None:
    indices: dict[str, IndexArray] = {name: np.arange(4, dtype=np.int64) for name in SPLITS}
    record = SplitRecord(
        seed=0, counts=dict.fromkeys(SPLITS, 4), origins=origins, indices=indices, sha256="", left_out=0
    )
    assert told in split_rule(record, SourceAccount(), DataConfig(), classes=True)
