"""The recipes of the published tables differ by their data alone."""

import dataclasses

import pytest

from mntrain.config import load_experiment, recipe_names

TABLES = [name for name in recipe_names() if name.startswith("uci-")]
# An epoch of a small table is a handful of steps: it may go longer without a better one.
PATIENCE = dict.fromkeys(["uci-energy", "uci-concrete", "uci-airfoil", "uci-wine"], 50)
PATIENCE |= dict.fromkeys(["uci-skillcraft", "uci-parkinsons"], 25)
PUBLISHED = {"uci-music", "uci-toms", "uci-cte", "uci-super", "uci-gom"}


def test_the_published_sets_are_there() -> None:
    assert set(TABLES) >= PUBLISHED


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_the_settings_of_the_recipe_uci(name: str) -> None:
    general, own = load_experiment("uci").to_dict(), load_experiment(name)
    suffix = "csv" if name in PUBLISHED else "parquet"
    assert own.data.path == f"{name.removeprefix('uci-')}.{suffix}"
    plain = dataclasses.replace(own, name=general["name"]).to_dict()
    plain["data"]["path"] = general["data"]["path"]
    general["training"]["patience"] = PATIENCE.get(name, 10)
    assert plain == general


def test_the_recipe_uci_has_the_papers_settings() -> None:
    config = load_experiment("uci")
    model, training = config.model, config.training
    assert (model.entries, model.temperature, model.key_std, model.similarity) == (1000, 0.1, 0.1, "cosine")
    assert (training.learning_rate, training.batch_size, training.patience) == (1e-3, 128, 10)


def test_the_recipe_spiral_has_the_papers_settings() -> None:
    config = load_experiment("spiral")
    model = config.model
    assert (model.entries, model.temperature, model.key_range, model.values) == (100, 0.1, 2.0, "fixed")
    assert (config.backbone.name, config.normalization, config.training.batch_size) == ("identity", "none", 32)
