"""The rule that brings images to one size, from the configuration of a run to the pixels that ``predict`` sends."""

from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format
from PIL import Image

from mnexport.repository.model_card import ModelCard
from mnexport.signature import image_signature
from mnserve.client.images import read_image
from mnserve.predicting.image_input import ImageInput
from mnserve.protocol.model_config_pb2 import ModelConfig
from mntrain.artifact_config import ArtifactConfig, ImageArtifactConfig
from mntrain.config import load_experiment
from mntrain.data.loading import load_images
from mntrain.data.reading.pixels import to_array
from mntrain.training.setup import ImageSetup


def described(*words: str) -> ImageArtifactConfig:
    """Description of an artifact of digits, written and read again."""
    config = load_experiment("digits", words)
    written = ImageSetup(config, load_images(config.data)).artifact({}).to_dict()
    read = ArtifactConfig.from_dict(written)
    assert isinstance(read, ImageArtifactConfig)
    assert read.to_dict() == written
    return read


def served(artifact: ImageArtifactConfig) -> ImageInput:
    """Input of its export, as a client reads it."""
    card = ModelCard(
        signature=image_signature(artifact.input, artifact.labels), max_batch_size=4, family="vanilla", form="vanilla"
    )
    return ImageInput.from_config(text_format.Parse(card.config_pbtxt("m"), ModelConfig()))


@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
def test_the_rule_of_training_is_the_rule_of_predict(fit: str, tmp_path: Path) -> None:
    artifact = described("--data.image_size", "8", "--data.image_fit", fit)
    image_input = served(artifact)
    assert (artifact.input.fit, image_input.fit) == (fit, fit)
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (9, 30), dtype=np.uint8))
    picture.save(tmp_path / "a.png")
    trained_on = to_array(picture, color="L", size=8, name="a", fit=artifact.input.fit)  # type: ignore[arg-type]
    sent = image_input.encode([read_image(tmp_path / "a.png", image_input.size, fit=image_input.fit)])
    np.testing.assert_array_equal(sent[0], trained_on)


def test_a_run_that_keeps_the_sizes_states_no_rule() -> None:
    artifact = described()
    assert "fit" not in artifact.to_dict()["input"]
    assert served(artifact).fit is None
