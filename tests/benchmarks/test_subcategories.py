"""benchmarks/subcategories.py: superclasses alone are trained on, and nearest neighbors are asked for the classes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import subcategories
import torch
from datasets import ClassLabel, Dataset, Image
from PIL import Image as Picture
from sklearn.datasets import load_digits
from subcategory.coarse_copy import read_superclasses
from subcategory.induction import Induction, accuracies, chosen_neighbors

from mntrain.analysis.retrieval import retrieve
from mntrain.artifact import ImageArtifact, load_artifact
from mntrain.training.artifact_data import load_split

FOLDER = Path(subcategories.__file__).parent / "subcategory"
PARITY = FOLDER / "digit_parity.json"
SMALL = ["--seeds", "1", "--training.epochs", "2", "--backbone.width", "0.1", "--data.image_size", "8"]
ENTRIES = ["--meta_neighborhoods.entries", "10"]


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write 150 training and 100 test digits with their names as parquet files."""
    folder = tmp_path_factory.mktemp("digits")
    images, labels = load_digits(return_X_y=True)
    names = ClassLabel(names=[str(digit) for digit in range(10)])
    for split, part in (("train", slice(150)), ("test", slice(150, 250))):
        pictures = [Picture.fromarray((15 * image).astype(np.uint8).reshape(8, 8)) for image in images[part]]
        rows = Dataset.from_dict({"img": [_png(picture) for picture in pictures], "label": labels[part]})
        rows.cast_column("img", Image()).cast_column("label", names).to_parquet(str(folder / f"{split}.parquet"))
    return folder


def _png(picture: Picture.Image) -> dict[str, Any]:
    stream = io.BytesIO()
    picture.save(stream, format="PNG")
    return {"bytes": stream.getvalue(), "path": None}


def test_training_sees_superclasses_alone(digits: Path, run_script: Callable[..., Any], tmp_path: Path) -> None:
    words = ["--recipe", "mnist", "--data.path", digits, "--superclasses", PARITY, *SMALL, *ENTRIES]
    done = run_script("subcategories", tmp_path, *words, "--json", tmp_path / "found.json")
    assert done.code == 0, done.stderr
    for variant in subcategories.VARIANTS:
        run = tmp_path / "runs" / f"{variant}-seed0"
        artifact = load_artifact(run / "artifact")
        assert isinstance(artifact, ImageArtifact)
        assert artifact.config.labels == ("even", "odd")
        assert set(load_split(artifact.config, "train", None).targets) == {0, 1}
        columns = {column["name"]: column["role"] for column in json.loads((run / "data.json").read_text())["columns"]}
        assert columns == {"img": "image", "coarse": "label", "fine": "excluded"}
    copy = pq.read_table(tmp_path / "data" / "train.parquet")
    assert copy["img"].equals(pq.read_table(digits / "train.parquet")["img"])
    assert [("even", "odd")[int(name) % 2] for name in copy["fine"].to_pylist()] == copy["coarse"].to_pylist()
    found = json.loads((tmp_path / "found.json").read_text())["variants"]
    spaces = {variant: [one["space"] for one in runs[0]] for variant, runs in found.items()}
    both = ["features z", "attention ω"]
    assert spaces == {"vanilla": both[:1], "mn-paper": both, "mn-data": both}
    vanilla = found["vanilla"][0][0]
    assert vanilla["coarse"]["1"] >= vanilla["fine"]["1"] > 0.3  # of ten digits, untrained features find most
    assert f"{100 * vanilla['network']:.2f}" in done.stdout
    assert len([line for line in done.stdout.splitlines() if line.startswith("| mn")]) == 4


def test_neighbors_of_a_known_arrangement_have_the_known_accuracy() -> None:
    """Two references of class 0 lie at one axis, three of class 1 near the other; the third query lies among those."""
    angles = torch.tensor([0.0, 0.1, 1.4, 1.5, 1.6])
    queries = torch.tensor([0.04, 1.44, 1.53])
    references, asked = (torch.stack((where.cos(), where.sin()), dim=1) for where in (angles, queries))
    found = retrieve(references, asked, 5)
    fine, wanted = np.array([0, 0, 1, 1, 1]), np.array([0, 1, 0])
    assert accuracies(found, fine, wanted) == {1: pytest.approx(2 / 3), 5: pytest.approx(1 / 3)}


def test_validation_chooses_the_number_of_neighbors() -> None:
    def run(*validation: float) -> Induction:
        scores, tested = dict(zip((1, 5, 10), validation, strict=True)), {1: 1.0, 5: 0.0, 10: 0.0}
        return Induction(space="features z", network=1.0, coarse=scores, fine=tested, validation=scores)

    assert chosen_neighbors([run(0.1, 0.5, 0.4), run(0.3, 0.4, 0.5)]) == 5  # the smaller of equals, and never by test
    assert chosen_neighbors([run(0.1, 0.5, 0.4), run(0.3, 0.4, 0.6)]) == 10


@pytest.mark.parametrize(("file", "classes", "groups"), [("digit_parity", 10, 2), ("tiny_imagenet_100", 100, 17)])
def test_every_class_has_one_superclass(file: str, classes: int, groups: int) -> None:
    found = read_superclasses(FOLDER / f"{file}.json")
    assert (len(found), len(set(found.values()))) == (classes, groups)


def test_classes_without_a_superclass_are_refused(digits: Path, run_script: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "groups.json"
    words = [tmp_path, "--recipe", "mnist", "--data.path", digits, "--superclasses", file]
    for text, sentence in {
        '{"even": ["0"], "odd": ["1"]}': "has class '2', which --superclasses lacks",
        '{"even": ["0"], "odd": ["0"]}': "has class '0' twice",
        "[]": "cannot be read",
    }.items():
        file.write_text(text)
        done = run_script("subcategories", *words)
        assert done.code != 0
        assert sentence in done.stderr
