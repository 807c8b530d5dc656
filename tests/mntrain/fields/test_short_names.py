"""Short names of families: alike in fit, compare, crossval and recipes; long in configurations."""

from pathlib import Path

import pytest

from mntrain.comparison.variants import BUILT_IN, built_in, sweep
from mntrain.config import ExperimentConfig, load_experiment
from mntrain.crossval.plan import CrossvalOptions
from mntrain.errors import ConfigError


@pytest.mark.parametrize(
    ("word", "family", "ifilm", "name"),
    [
        ("mn", "meta_neighborhoods", False, "digits-meta-neighborhoods"),
        ("meta_neighborhoods", "meta_neighborhoods", False, "digits-meta-neighborhoods"),
        ("vanilla", "vanilla", False, "digits-vanilla"),
        ("mn+ifilm", "meta_neighborhoods", True, "digits-meta-neighborhoods-ifilm"),
        ("meta_neighborhoods+ifilm", "meta_neighborhoods", True, "digits-meta-neighborhoods-ifilm"),
        ("vanilla+ifilm", "vanilla", True, "digits-vanilla-ifilm"),
        ("ifilm", "vanilla", True, "digits-vanilla-ifilm"),
        ("maxl+ifilm", "maxl", True, "digits-maxl-ifilm"),
    ],
)
def test_a_short_name_means_the_same_everywhere(word: str, family: str, ifilm: bool, name: str, tmp_path: Path) -> None:
    config = load_experiment("digits", ["--family", word])
    assert (config.family, config.backbone.ifilm, config.name) == (family, ifilm, name)
    assert config == load_experiment("digits", [f"--family={word}"])
    assert config.to_dict()["family"] == family
    assert ExperimentConfig.from_dict(config.to_dict()) == config
    file = tmp_path / "digits.yaml"
    file.write_text(f"family: {word}\n")
    read = load_experiment(file)
    assert (read.family, read.backbone.ifilm, read.name) == (family, ifilm, name)
    if word != "maxl+ifilm":  # no row of the papers' tables
        (variant,) = built_in([word])
        compared = load_experiment("digits", variant.words)
        assert (compared.family, compared.backbone.ifilm) == (family, ifilm)
        assert variant is BUILT_IN[variant.name]


def test_the_last_word_for_a_family_wins_with_its_ifilm(tmp_path: Path) -> None:
    assert not load_experiment("digits", ["--family", "mn+ifilm", "--family", "vanilla"]).backbone.ifilm
    assert not load_experiment("digits", ["--family", "mn+ifilm", "--backbone.ifilm", "false"]).backbone.ifilm
    file = tmp_path / "mine.yaml"
    file.write_text("family: mn+ifilm\n")
    changed = load_experiment(file, ["--family", "vanilla"])
    assert (changed.backbone.ifilm, changed.name) == (False, "mine-vanilla")
    file.write_text("family: mn\nbackbone:\n  ifilm: true\n")
    assert load_experiment(file, ["--family", "vanilla"]).backbone.ifilm, "the recipe sets it by itself"


def test_settings_of_a_family_have_its_short_name_too(tmp_path: Path) -> None:
    assert load_experiment("digits", ["--mn.entries", "7", "--mn.steps=3"]) == load_experiment(
        "digits", ["--meta_neighborhoods.entries", "7", "--meta_neighborhoods.steps", "3"]
    )
    file = tmp_path / "mine.yaml"
    file.write_text("mn:\n  entries: 7\n")
    assert load_experiment(file).model.entries == 7
    (first, _) = sweep("mn.entries=7,8").variants()
    assert load_experiment("digits", first.words).model.entries == 7


def test_crossval_takes_short_names_and_refuses_what_rows_cannot_have() -> None:
    assert CrossvalOptions(recipes=("uci",), families=("vanilla", "mn")).families == ("vanilla", "meta_neighborhoods")
    with pytest.raises(ConfigError, match="each once"):
        CrossvalOptions(recipes=("uci",), families=("meta_neighborhoods", "mn"))
    with pytest.raises(ConfigError, match=r"mn\+ifilm"):
        CrossvalOptions(recipes=("uci",), families=("mn+ifilm",))
