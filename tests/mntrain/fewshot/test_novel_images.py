"""Images of new classes: which of them an artifact was trained on."""

import dataclasses
from pathlib import Path

from mntrain.artifact import ImageArtifact
from mntrain.fewshot.novel_images import load_novel_images


def test_a_class_of_the_data_without_training_images_is_new(plain: ImageArtifact, base: Path) -> None:
    """Files of one set may all name the classes of the whole."""
    found = load_novel_images(plain, {"path": str(base)})
    assert found.trained_classes == ("a", "b", "c", "d")
    assert found.classes == 4
    assert plain.config.data is not None
    splits = plain.config.data["splits"]
    train = splits["train"] | {"classes": splits["train"]["classes"] | {"b": 0}}
    summary = plain.config.data | {"splits": splits | {"train": train}}
    changed = dataclasses.replace(plain, config=dataclasses.replace(plain.config, data=summary))
    assert load_novel_images(changed, {"path": str(base)}).trained_classes == ("a", "c", "d")


def test_without_a_summary_all_classes_count_as_trained_on(plain: ImageArtifact, base: Path) -> None:
    earlier = dataclasses.replace(plain, config=dataclasses.replace(plain.config, data=None))
    assert load_novel_images(earlier, {"path": str(base)}).trained_classes == ("a", "b", "c", "d")
