"""Settings of methods as words of a command line."""

import pytest

from mntrain.errors import ConfigError
from mntrain.fewshot.maml import SimilaritySteps
from mntrain.fewshot.settings import MethodSettings, parse_settings, split_words


def test_words_are_those_of_the_data_and_of_the_methods() -> None:
    words = ["--data.path", "x", "--finetune.epochs", "3", "--data.nested=true", "--maml.steps=1"]
    assert split_words(words) == (
        ["--data.path", "x", "--data.nested=true"],
        ["--finetune.epochs", "3", "--maml.steps=1"],
    )


def test_what_is_not_given_keeps_its_default() -> None:
    found = parse_settings(["--finetune.epochs", "3", "--meta_static.steps=1", "--finetune.classifier", "cosine"])
    assert (found.finetune.epochs, found.finetune.classifier, found.finetune.batch) == (3, "cosine", 4)
    assert found.meta_static == SimilaritySteps(steps=1, step_size=0.2, classifier_steps=20)
    assert found.maml == MethodSettings().maml
    assert parse_settings([]) == MethodSettings()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["--finetune.epoch", "3"],
            "--finetune.epoch is no setting of `mntrain fewshot`; did you mean --finetune.epochs",
        ),
        (["--zzz", "3"], "--zzz is no setting of `mntrain fewshot`; settings are --finetune.classifier,"),
        (["--finetune.epochs", "many"], "finetune.epochs"),
        (["--finetune.epochs", "-3"], "finetune.epochs is -3; it must be from 0 to"),
        (["--maml.second_order", "perhaps"], "maml.second_order"),
        (["--maml.steps", "-1"], "^maml.steps is -1"),
        (["--meta_static.steps", "-1"], "^meta_static.steps is -1"),
        (["--meta_static.step_size", "0"], "^meta_static.step_size is 0"),
        (["--meta_static.step_size", ".nan"], "meta_static.step_size is nan"),
    ],
)
def test_words_that_are_no_settings_are_refused(words: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        parse_settings(words)
