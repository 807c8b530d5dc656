from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mntrain.data.config import DataConfig
from mntrain.data.loading import load_images
from mntrain.data.reading.idx_files import read_idx
from mntrain.data.sources.fashion_mnist import FASHION_MNIST_FOLDER
from mntrain.errors import DataError

TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


@pytest.mark.parametrize("compress", [False, True])
def test_reads_plain_and_gzipped_folders(write_idx: Callable[..., Path], compress: bool) -> None:
    folder = write_idx(compress=compress)
    data = load_images(DataConfig(source="idx", path=str(folder)))
    assert data.split.counts == {"train": 27, "validation": 3, "test": 9}
    assert (data.channels, data.height, data.width) == (1, 5, 4)
    assert data.label_names == ("0", "1", "2")
    expected = np.random.default_rng(30).integers(0, 256, (30, 5, 4), dtype=np.uint8)
    np.testing.assert_array_equal(data.train.images[:, 0], expected[data.split.indices["train"]])
    np.testing.assert_array_equal(data.train.labels, data.split.indices["train"] % 3)


def test_fashion_mnist_has_the_published_images_and_names() -> None:
    if not Path(FASHION_MNIST_FOLDER).is_dir():
        pytest.skip(f"Fashion-MNIST is not installed ({FASHION_MNIST_FOLDER})")
    data = load_images(DataConfig(source="fashion-mnist", train_limit=500))
    assert data.split.counts == {"train": 500, "validation": 6000, "test": 10000}
    assert data.label_names[9] == "Ankle boot"
    # First images of the published test set: ankle boot, pullover, trouser, trouser.
    assert data.test.labels[:4].tolist() == [9, 2, 1, 1]


def test_missing_fashion_mnist_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"does not exist; install the Debian package dataset-fashion-mnist"):
        load_images(DataConfig(source="fashion-mnist", path=str(tmp_path / "nothing")))


def header(*shape: int, kind: int = 8) -> bytes:
    return bytes((0, 0, kind, len(shape))) + np.array(shape, dtype=">u4").tobytes()


@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        (TRAIN_IMAGES, b"PNG!" + bytes(100), ["50 4e 47 21", "00 00 08 03"]),
        (TRAIN_IMAGES, header(1, 2, 2, kind=0x0D) + bytes(16), ["00 00 0d 03"]),
        (TRAIN_IMAGES, b"", ["(none)"]),
        (TRAIN_IMAGES, header(30, 5, 4)[:9], ["ends within its header"]),
        (TRAIN_IMAGES, header(30, 5, 4) + bytes(599), ["30 x 5 x 4 = 600", "holds 599"]),
        (TRAIN_IMAGES, header(2**32 - 1, 2**32 - 1, 2**32 - 1), ["holds 0", "truncated"]),
        (TRAIN_LABELS, header(29) + bytes(29), ["30 images", "29 labels"]),
        (
            TRAIN_LABELS,
            header(30) + bytes([0, 1, 7] * 10),
            ["test split holds the labels 2, which the train"],
        ),
        (TRAIN_LABELS, None, ["has no file", TRAIN_LABELS]),
    ],
)
def test_damaged_files_are_named(
    write_idx: Callable[..., Path], name: str, content: bytes | None, parts: list[str]
) -> None:
    folder = write_idx(replace={name: content})
    with pytest.raises(DataError) as caught:
        load_images(DataConfig(source="idx", path=str(folder)))
    for part in [*parts, str(folder)]:
        assert part in str(caught.value)


@pytest.mark.parametrize("damage", [lambda data: data[:-20], lambda data: b"no gzip" + data])
def test_a_damaged_gzip_file_is_named(write_idx: Callable[..., Path], damage: Callable[[bytes], bytes]) -> None:
    file = write_idx(compress=True) / f"{TRAIN_IMAGES}.gz"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(DataError, match="damaged gzip"):
        read_idx(file, dimensions=3)


def test_images_of_another_size_in_the_test_split_are_refused(
    write_idx: Callable[..., Path], make_idx: Callable[[np.ndarray], bytes]
) -> None:
    other = make_idx(np.zeros((9, 6, 6), np.uint8))
    folder = write_idx(replace={"t10k-images-idx3-ubyte": other})
    with pytest.raises(DataError, match=r"test split have shape \[1, 6, 6\].*set data.image_size"):
        load_images(DataConfig(source="idx", path=str(folder)))
    assert load_images(DataConfig(source="idx", path=str(folder), image_size=6)).height == 6
    padded = load_images(DataConfig(source="idx", path=str(folder), image_size=10, image_fit="pad"))
    assert padded.train.images[..., 1:9].any()
    assert not padded.train.images[..., 0].any()  # 5x4 pixels are scaled to 8 of 10 columns
    assert not padded.train.images[..., 9].any()


def test_labels_beyond_the_names_of_fashion_mnist_are_refused(write_idx: Callable[..., Path]) -> None:
    folder = write_idx(classes=11)
    with pytest.raises(DataError, match="image 10 has label 10"):
        load_images(DataConfig(source="fashion-mnist", path=str(folder)))
