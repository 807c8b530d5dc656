"""Help on the fields of a recipe."""

import re

import pytest

from mntrain.fields.description import WIDTH, describe_fields
from mntrain.fields.listing import RecipeField, nested_sections, recipe_fields


@pytest.mark.parametrize("field", recipe_fields().values(), ids=lambda field: field.path)
def test_every_field_has_a_meaning_that_is_a_sentence(field: RecipeField) -> None:
    assert len(field.meaning.split()) >= 2
    assert field.meaning[-1] in ".)"


def test_the_help_shows_every_field_with_choices_default_and_meaning_in_100_columns() -> None:
    text = describe_fields()
    shown = re.findall(r"^  --(\S+)", text, re.MULTILINE)
    assert shown == list(recipe_fields())
    assert max(map(len, text.splitlines())) <= WIDTH == 100
    flat = " ".join(text.split())
    for field in recipe_fields().values():
        assert " ".join(field.meaning.split()) in flat
    assert "--data.image_fit stretch | crop | pad (default: stretch)" in flat
    assert "--training.epochs a whole number (default: 12)" in flat
    assert "--data.path a text or null (default: null)" in flat
    assert "--backbone.name cnn4 | cnn9 | cnn10 | convnet4 | densenet40bc" in flat
    assert "--meta_neighborhoods.entries a whole number (default: 1000) S, learned neighbors in the dictionary." in flat
    headings = [line.partition(":")[0] for line in text.splitlines()[2:] if line and not line.startswith(" ")]
    assert headings == ["the run", *nested_sections()]
