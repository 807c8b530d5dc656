"""Small data sets on disk in usual formats, made afresh for each test."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

SHARED_DATA = Path(__file__).parents[3] / ".." / "shared" / "data"


@pytest.fixture(autouse=True)
def private_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cache data sets in the folder of the test, without the network."""
    cache = tmp_path_factory.mktemp("hf")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache / "datasets")
    monkeypatch.setattr(datasets.config, "HF_MODULES_CACHE", str(cache / "modules"))
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.fixture
def shared_data() -> Path:
    if not SHARED_DATA.is_dir():
        pytest.skip(f"the shared data folder {SHARED_DATA} is not here")
    return SHARED_DATA.resolve()


def encode(pixels: np.ndarray, kind: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format=kind, **options)
    return buffer.getvalue()


def picture(seed: int, *, size: tuple[int, int] = (6, 5), color: bool = False) -> np.ndarray:
    """Random pixels uint8 [H, W] or [H, W, 3]."""
    shape = (*size, 3) if color else size
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


@pytest.fixture
def write_parquet(tmp_path: Path) -> Callable[..., Path]:
    """Write `images` (encoded bytes or None) and `labels` (any values) to a parquet file without a schema."""

    def write(
        images: Sequence[bytes | None], labels: Sequence[Any], name: str = "data/train.parquet", **extra: Any
    ) -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        rows = [None if image is None else {"bytes": image, "path": None} for image in images]
        image_type = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        table = pa.table({"img": pa.array(rows, type=image_type), "label": labels, **extra})
        pq.write_table(table, file)
        return file

    return write


@pytest.fixture
def write_idx(tmp_path: Path) -> Callable[..., Path]:
    """Write an MNIST-like folder; `replace` overrides the content of single files."""

    def write(*, compress: bool = False, classes: int = 3, replace: dict[str, bytes | None] | None = None) -> Path:
        folder = tmp_path / "idx"
        folder.mkdir(exist_ok=True)
        for prefix, count in (("train", 30), ("t10k", 9)):
            images = np.random.default_rng(count).integers(0, 256, (count, 5, 4), dtype=np.uint8)
            labels = (np.arange(count) % classes).astype(np.uint8)
            contents = {
                f"{prefix}-images-idx3-ubyte": idx_bytes(images),
                f"{prefix}-labels-idx1-ubyte": idx_bytes(labels),
            }
            for name, content in contents.items():
                new = (replace or {}).get(name, content)
                if new is not None:
                    data = gzip.compress(new) if compress else new
                    (folder / (f"{name}.gz" if compress else name)).write_bytes(data)
        return folder

    return write


def idx_bytes(array: np.ndarray) -> bytes:
    header = bytes((0, 0, 8, array.ndim)) + np.array(array.shape, dtype=">u4").tobytes()
    return header + array.astype(np.uint8).tobytes()


@pytest.fixture
def make_idx() -> Callable[[np.ndarray], bytes]:
    return idx_bytes


@pytest.fixture
def make_image() -> Callable[..., bytes]:
    """Random PNG bytes: make_image(seed, size=(H, W), color=bool)."""

    def make(seed: int, **options: Any) -> bytes:
        return encode(picture(seed, **options))

    return make


@pytest.fixture
def pictures(tmp_path: Path, make_image: Callable[..., bytes]) -> Callable[[Sequence[str]], Path]:
    """Write a picture of random pixels to every path given, in the folder that is returned."""

    def write(names: Sequence[str], folder: str = "k") -> Path:
        for number, name in enumerate(names):
            file = tmp_path / folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(make_image(number))
        return tmp_path / folder

    return write
