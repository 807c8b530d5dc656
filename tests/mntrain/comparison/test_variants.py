"""Names and overrides of variants and sweeps."""

import pytest

from mntrain.comparison.similarity_rows import SIMILARITY_ROWS
from mntrain.comparison.variants import BUILT_IN, Variant, built_in, custom, sweep
from mntrain.config import load_experiment
from mntrain.errors import ConfigError
from mntrain.models.families import FAMILIES

OF_FAMILIES = [row for family in FAMILIES.values() for row in family.variants]


@pytest.mark.parametrize("name", [row.name for row in OF_FAMILIES])
def test_built_in_variants_configure_the_model_of_their_name(name: str) -> None:
    config = load_experiment("digits", BUILT_IN[name].words)
    family = {"mn": "meta_neighborhoods", "maxl": "maxl"}.get(name.split("-")[0].split("+")[0], "vanilla")
    assert config.family == family
    assert config.backbone.ifilm == name.endswith("+ifilm")
    if name == "vanilla-equal":
        assert config.model.extra_entries == load_experiment("digits").model.entries
    if name in {"mn-paper", "mn-data"}:
        assert config.model.init == name.removeprefix("mn-")
    if name == "mn-1-diagonal":
        assert (config.model.steps, config.model.step_size_form) == (1, "per_parameter")
    if name == "mn-3-scalar":
        assert (config.model.steps, config.model.step_size_form) == (3, "scalar")


def test_the_families_bring_their_rows_in_the_order_of_the_tables() -> None:
    table_1 = ["vanilla", "vanilla+ifilm", "mn", "mn+ifilm", "maxl", "maxl-sgd"]
    table_3 = ["dot-sgd", "dot-adamw", "cos-sgd", "cos-adamw"]
    steps = ["mn-1-scalar", "mn-1-diagonal", "mn-3-scalar", "mn-3-diagonal"]
    of_families = [*table_1, *table_3, *steps, "vanilla-equal", "mn-paper", "mn-data"]
    assert list(BUILT_IN) == [*of_families, *(row.name for row in SIMILARITY_ROWS)]
    assert len(BUILT_IN) == len(OF_FAMILIES) + len(SIMILARITY_ROWS), "no two rows have the same name"


def test_the_slug_is_part_of_a_name_of_a_run() -> None:
    assert BUILT_IN["vanilla+ifilm"].slug == "vanilla-ifilm"


def test_custom_variants_read_words_as_a_shell_does() -> None:
    found = custom("mn-500=--meta_neighborhoods.entries 500 --data.path 'my images'")
    assert found == Variant(name="mn-500", words=("--meta_neighborhoods.entries", "500", "--data.path", "my images"))


def test_a_sweep_makes_a_variant_for_each_value() -> None:
    found = sweep("entries=10, 50")
    assert found.field == "meta_neighborhoods.entries"
    assert [one.name for one in found.variants()] == ["entries-10", "entries-50"]
    assert load_experiment("digits", found.variants()[1].words).model.entries == 50
    assert sweep("training.epochs=1,2").field == "training.epochs"


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("entries=10,50", "meta_neighborhoods"),
        ("backbone.width=0.5,1", "meta_neighborhoods"),
        ("vanilla.scale=5,10", "vanilla"),
        ("maxl.hierarchy=3,5", "maxl"),
    ],
)
def test_a_sweep_trains_the_family_of_its_field(text: str, family: str) -> None:
    assert {load_experiment("digits", one.words).family for one in sweep(text).variants()} == {family}


@pytest.mark.parametrize("text", ["", "a", "a=", "a=b", "a=--x 'open", "a/b=--seed 1", "=--seed 1"])
def test_bad_custom_variants_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="variant"):
        custom(text)


@pytest.mark.parametrize("text", ["", "entries", "entries=5", "entries=5,5", "=1,2"])
def test_bad_sweeps_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--sweep is"):
        sweep(text)


def test_an_unknown_variant_is_refused_with_a_hint() -> None:
    with pytest.raises(ConfigError, match=r"'mn\+film'.*Did you mean 'mn\+ifilm'"):
        built_in(["vanilla", "mn+film"])
