"""Recipes and overrides, and messages about wrong ones."""

from pathlib import Path

import pytest
import yaml

from mntrain.config import ExperimentConfig, load_experiment, recipe_names
from mntrain.errors import ConfigError
from mntrain.models.meta_neighborhoods.config import MetaNeighborhoodsConfig
from mntrain.models.vanilla.config import VanillaConfig


@pytest.mark.parametrize("recipe", recipe_names())
@pytest.mark.parametrize("family", ["vanilla", "meta_neighborhoods"])
def test_every_recipe_loads_for_every_family_and_round_trips(recipe: str, family: str) -> None:
    config = load_experiment(recipe, ["--family", family])
    assert config.family == family
    assert ExperimentConfig.from_dict(yaml.safe_load(yaml.safe_dump(config.to_dict()))) == config


def test_overrides_win_over_the_recipe_and_the_last_wins() -> None:
    words = ["--meta_neighborhoods.entries=7", "--training.epochs", "3", "--training.epochs", "4", "--seed", "5"]
    config = load_experiment("digits", words)
    assert isinstance(config.model, MetaNeighborhoodsConfig)
    assert (config.model.entries, config.training.epochs, config.seed) == (7, 4, 5)
    assert config.training.batch_size == 64  # from the recipe


def test_the_default_name_tells_recipe_and_family() -> None:
    assert load_experiment("digits").name == "digits-meta-neighborhoods"
    assert load_experiment("digits", ["--family", "vanilla"]).name == "digits-vanilla"
    assert isinstance(load_experiment("digits", ["--family", "vanilla"]).model, VanillaConfig)


@pytest.mark.parametrize("kind", [str, Path])
def test_a_recipe_file_is_read(tmp_path: Path, kind: type[str | Path]) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("family: vanilla\ntraining:\n  epochs: 9\n")
    config = load_experiment(kind(file))
    assert (config.name, config.training.epochs) == ("mine-vanilla", 9)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["--training.epochs", "0"], ["training.epochs", "0", "at least 1"]),
        (["--training.epochs", "many"], ["training.epochs", "many", "whole number"]),
        (["--trainig.epochs", "3"], ["trainig.epochs", "did you mean --training.epochs?"]),
        (["--training.learning_rate", "-1"], ["training.learning_rate", "-1", "above 0"]),
        (["--training.batch_size", "1"], ["training.batch_size", "1", "at least 2"]),
        (["--training.drop_at", "0"], ["training.drop_at", "0"]),
        (["--family", "vanila"], ["vanila", "Did you mean 'vanilla'"]),
        (["--backbone.name", "convnet"], ["convnet", "Did you mean 'convnet4'"]),
        (["--backbone.width", "0"], ["backbone.width", "0"]),
        (["--meta_neighborhoods.entries", "0"], ["meta_neighborhoods.entries", "0", "at least 1"]),
        (["--meta_neighborhoods.temperature", "0"], ["meta_neighborhoods.temperature", "0", "above 0"]),
        (["--meta_neighborhoods.temperature", "nan"], ["meta_neighborhoods.temperature", "nan"]),
        (["--meta_neighborhoods.dropout", "1"], ["meta_neighborhoods.dropout", "1"]),
        (["--meta_neighborhoods.dropout_mode", "never"], ["dropout_mode", "never", "per_sample"]),
        (["--vanilla.scale", "0", "--family", "vanilla"], ["vanilla.scale", "0"]),
        (["--name", "../escape"], ["../escape", "letters"]),
        (["--seed", "-1"], ["seed", "-1"]),
        (["--data.source", "digit"], ["digit", "digits"]),
        (["stray"], ["stray"]),
        (["--training.lr", "1"], ["training.lr", "did you mean --training.learning_rate?"]),
        (["--training.learning_rate", "nan"], ["training.learning_rate", "nan", "finite number"]),
        (["--meta_neighborhoods.temperature", ".inf"], ["temperature is inf", "finite"]),
        (["--meta_neighborhoods.step_size", ".nan"], ["step_size is nan", "finite"]),
        (["--training.gradient_clip", ".inf"], ["gradient_clip is inf", "finite"]),
        (["--name", ""], ["name is ''", "1 to 100"]),
        (["--data.image_size", "100000000"], ["image_size", "4096"]),
    ],
)
def test_a_wrong_override_names_value_and_remedy(overrides: list[str], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_experiment("digits", overrides)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_an_unknown_recipe_lists_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"digitz.*fashion-mnist.*Did you mean 'digits'"):
        load_experiment("digitz")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "not valid YAML"),
        ("- 1\n- 2\n", "holds a list"),
        ("", "holds nothing; it must hold fields"),
        ("epochs: 3\n", "epochs"),
        ("training:\n  epoch_count: 3\n", "epoch_count"),
        ("data: 5\n", "data is 5"),
        ("[" * 5000, "nested too deeply"),
        ("seed: &a 1\nname: *a\n", "aliases"),
        ("seed: 1\nseed: 2\n", "seed stands there twice"),
        ("training:\n  epochs: 1\n  epochs: 2\n", "epochs stands there twice"),
    ],
)
def test_a_wrong_recipe_file_is_explained(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=words):
        load_experiment(str(file))


def test_an_empty_section_counts_as_left_out(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("data:\n  source: digits\ntraining:\nmeta_neighborhoods:\n")
    assert load_experiment(str(file)).training.epochs == 12


def test_a_recipe_runs_no_code(tmp_path: Path) -> None:
    file, proof = tmp_path / "evil.yaml", tmp_path / "proof"
    file.write_text(f"name: !!python/object/apply:os.system ['touch {proof}']\n")
    with pytest.raises(ConfigError, match="not valid YAML"):
        load_experiment(str(file))
    assert not proof.exists()


def test_a_missing_recipe_file_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml"):
        load_experiment(str(tmp_path / "none.yaml"))
