"""Classes by name and by pattern, against sets written out."""

import numpy as np
import pytest

from mntrain.data.classes.choice import LEFT_OUT, choose_classes, keep_images
from mntrain.errors import ConfigError, DataError

NAMES = ("Greek/01", "Greek/02", "Latin/01", "Latin/02", "Runes/01", "hook, claw", "!Kung", "k[1]")


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["Greek/*"], {"Greek/01", "Greek/02"}),
        (["Greek/*,Latin/02"], {"Greek/01", "Greek/02", "Latin/02"}),
        (["Greek/*", " Latin/02 "], {"Greek/01", "Greek/02", "Latin/02"}),
        (["*/01"], {"Greek/01", "Latin/01", "Runes/01"}),
        (["[GL]*/0?", "!*/02"], {"Greek/01", "Latin/01"}),
        (["!*/02", "[GL]*/0?"], {"Greek/01", "Latin/01"}),
        (["!Greek/*,!Latin/*"], {"Runes/01", "hook, claw", "!Kung", "k[1]"}),
        (["hook, claw", "k[1]"], {"hook, claw", "k[1]"}),
        (["!hook, claw", "!*/*"], {"!Kung", "k[1]"}),
        (["!Kung", "Runes/01"], {"!Kung", "Runes/01"}),
    ],
)
def test_names_patterns_and_exclusions(patterns: list[str], expected: set[str]) -> None:
    """A name wins over what its letters mean in a pattern; the order of patterns does not matter."""
    assert choose_classes(NAMES, patterns, where="k") == expected


@pytest.mark.parametrize(
    ("patterns", "parts"),
    [
        (["Greec/*"], ["data.classes has 'Greec/*'", "none of the 8 classes of k", "'Greek/01'", "null"]),
        (["!Rune/*"], ["data.classes has '!Rune/*'", "'Runes/01'"]),
        (["latin/01", "Greek/*"], ["data.classes has 'latin/01'", "'Latin/01'"]),
        (["Greek/*,zzz"], ["data.classes has 'zzz'", "classes are 'Greek/01', 'Greek/02'"]),
        (["!"], ["data.classes has '!'", "classes are"]),
        (["Greek/01"], ["data.classes is 'Greek/01'", "leaves 1 class(es) ('Greek/01') of the 8 of k", "at least 2"]),
        (["!*"], ["data.classes is '!*'", "leaves 0 class(es) of the 8"]),
    ],
)
def test_patterns_that_cannot_be_are_refused_with_the_nearest_names(patterns: list[str], parts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        choose_classes(NAMES, patterns, where="k")
    for part in parts:
        assert part in str(caught.value)


def test_a_class_alone_may_do() -> None:
    assert choose_classes(NAMES, ["Greek/01"], where="k", least=1) == {"Greek/01"}


def test_images_that_stay_are_found_in_order_and_the_others_counted() -> None:
    labels = {"train": np.array([0, LEFT_OUT, 1, LEFT_OUT]), "test": np.array([LEFT_OUT])}
    with pytest.raises(DataError, match="keeps no image of the test split"):
        keep_images(labels, ["c"], where="k")
    kept = keep_images(labels, ["c"], where="k", trained=False)
    assert {split: found.tolist() for split, found in kept.positions.items()} == {"train": [0, 2]}
    assert [(entry.count, entry.examples) for entry in kept.ignored] == [(3, ("c",))]
    with pytest.raises(DataError, match="keeps no image of the test split"):
        keep_images({"test": labels["test"]}, ["c"], where="k", trained=False)
