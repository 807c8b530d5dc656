"""Wrong words of a recipe or a command line, and the right ones that are suggested."""

from pathlib import Path

import pytest

from mntrain.commands import cli
from mntrain.config import load_experiment
from mntrain.errors import ConfigError
from mntrain.fields.listing import RUN_FIELDS, recipe_fields
from mntrain.layers.similarity.config import SimilarityConfig


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--epochs", "3"], "--epochs is no field of a recipe; did you mean --training.epochs?"),
        (["--epochs=3"], "did you mean --training.epochs?"),
        (["--training.epoch", "3"], "--training.epoch is no field of a recipe; did you mean --training.epochs?"),
        (["--training.epoch=3"], "did you mean --training.epochs?"),
        (["--batch-size", "4"], "did you mean --training.batch_size?"),
        (["--training.batch-size", "4"], "did you mean --training.batch_size?"),
        (["--data-path", "x"], "did you mean --data.path?"),
        (["--path", "x"], "did you mean --data.path?"),
        (["--lr", "1"], "did you mean --training.learning_rate?"),
        (["--data.epochs", "3"], "did you mean --training.epochs?"),
        (["--train.epochs", "3"], "did you mean --training.epochs?"),
        (["--entrys", "3"], "did you mean --meta_neighborhoods.entries?"),
        (["--familly", "mn"], "did you mean --family?"),
        (["--family", "maxl", "--head", "dot"], "did you mean --maxl.head, --vanilla.head or"),
        (["--zzz", "3"], "--zzz is no field of a recipe; `mntrain fit RECIPE --fields` lists them all"),
        (["--data", "x"], "--data is a section and takes no value; set one of its fields, such as --data.source"),
        (["--data.color", "rgb"], "data.color is 'rgb'; it must be auto, L or RGB. Did you mean 'RGB'?"),
        (["--training.optimizer", "adam"], "it must be adamw or sgd. Did you mean 'adamw'?"),
        (["--normalization", "per_chanel"], "it must be per_channel or none. Did you mean 'per_channel'?"),
        (["--data.train_limit", "x"], "data.train_limit is 'x'; it must be a whole number or null."),
        (["--training.compile", "maybe"], "training.compile is 'maybe'; it must be true or false."),
        (["--training.epochs"], "argument --training.epochs: expected one argument"),
        (["--training.epochs", "3", "4"], "'4' is no field and no value of one"),
        (["--family", "vanila"], "family is 'vanila', which does not exist; choose from vanilla, meta_neighborhoods"),
        (["--family", "mn+film"], "Did you mean 'mn+ifilm'?"),
    ],
)
def test_a_wrong_word_gets_the_nearest_right_one(words: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_experiment("digits", words)
    assert sentence in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("data:\n  sourc: digits\n", "data.sourc is no field of a recipe; did you mean data.source?"),
        ("epochs: 3\n", "epochs is no field of a recipe; did you mean training.epochs?"),
        ("trainning:\n  epochs: 3\n", "trainning is no section of a recipe; did you mean training?"),
        ("data:\n  epochs: 3\n", "data.epochs is no field of a recipe; did you mean training.epochs?"),
        ("training:\n  1: 3\n", "training.1 is no field of a recipe"),
        (
            "mn:\n  entrys: 3\n",
            "meta_neighborhoods.entrys is no field of a recipe; did you mean meta_neighborhoods.ent",
        ),
        ("training:\n  epochs: many\n", "training.epochs is 'many'; it must be a whole number."),
        ("training:\n  epochs:\n", "training.epochs is 'null'; it must be a whole number."),
        ("training:\n  epochs: 0\n", "training.epochs is 0; it must be at least 1."),
        ("data:\n  color: rgb\n", "it must be auto, L or RGB. Did you mean 'RGB'?"),
        ("family: vanila\n", "family is 'vanila', which does not exist"),
        ("family: mn\nmn: {}\nmeta_neighborhoods: {}\n", "mn and meta_neighborhoods are the same section"),
        ("family: mn+ifilm\nbackbone:\n  ifilm: false\n", "but backbone.ifilm is false"),
    ],
)
def test_a_wrong_word_of_a_file_is_told_with_the_file(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "my.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_experiment(file, ["--seed", "1"])
    assert str(caught.value).startswith(f"{file}: ")
    assert sentence in str(caught.value)


def test_a_fault_of_the_command_line_is_not_the_file_s(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("training:\n  epochs: 3\n")
    with pytest.raises(ConfigError, match=r"^training\.epochs is 0"):
        load_experiment(file, ["--training.epochs", "0"])


def test_a_recipe_file_of_a_similar_name_is_suggested(tmp_path: Path) -> None:
    (tmp_path / "flowers.yaml").touch()
    with pytest.raises(ConfigError, match=r"No such file or directory\. Did you mean '.*/flowers\.yaml'\?"):
        load_experiment(tmp_path / "flower.yaml")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fit", "digits", "--ressume"], "--ressume is no option of `mntrain fit`; did you mean --resume?"),
        (["compare", "digits", "--variant_s", "mn"], "did you mean --variants?"),
        (["compare", "digits", "--epochs", "2"], "did you mean --training.epochs?"),
        (["crossval", "spiral", "--training.epoch", "2"], "did you mean --training.epochs?"),
        (["fit", "digits", "--meta_neighborhoods.temp", "1"], "did you mean --meta_neighborhoods.temperature?"),
        (["fit", "digits", "--training.learn", "1"], "did you mean --training.learning_rate"),
    ],
)
def test_commands_suggest_their_own_options_and_fields(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fitt", "digits"], "did you mean fit?"),
        (["report", "a", "--imges", "3"], "did you mean --images?"),
        (["report", "a", "--imag", "3"], "unrecognized arguments: --imag 3; did you mean --images?"),
        (["evaluate", "a", "--split", "tset"], "did you mean test?"),
    ],
)
def test_wrong_usage_gets_the_nearest_right_word(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(words)
    assert caught.value.code == 2
    assert sentence in capsys.readouterr().err


def test_the_command_line_knows_the_fields_outside_sections() -> None:
    assert [f"--{field.path}" for field in RUN_FIELDS] == list(cli._OF_THE_RUN)
    assert [path for path in recipe_fields() if "." not in path] == [field.path for field in RUN_FIELDS]


def test_an_empty_section_within_a_section_counts_as_left_out(tmp_path: Path) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text("family: vanilla\nbackbone:\n  name: cnn9\n  similarity:\n")
    assert load_experiment(recipe).backbone.similarity == SimilarityConfig()
    recipe.write_text("family: vanilla\nbackbone:\n  similarity: static\n")
    with pytest.raises(ConfigError, match=r"is a section; set one of its fields, such as backbone.similarity.mode"):
        load_experiment(recipe)
