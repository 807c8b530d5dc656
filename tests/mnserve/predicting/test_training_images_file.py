"""A file of training images may come from anywhere: what is wrong with it is said in one sentence."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mnserve.errors import TrainingImagesError
from mnserve.predicting.training_images_file import MAX_BYTES, read_training_images


@pytest.fixture
def file(tmp_path: Path, training: dict[str, Any]) -> Path:
    """A sound file."""
    np.savez_compressed(tmp_path / "neighbors.npz", **training)
    return tmp_path / "neighbors.npz"


def refused(file: Path, max_bytes: int = MAX_BYTES) -> str:
    with pytest.raises(TrainingImagesError) as caught:
        read_training_images(file, max_bytes=max_bytes)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_written_images_are_read(file: Path, training: dict[str, Any]) -> None:
    found = read_training_images(file)
    first, second = found.of_entry(1, 2, ("red", "green", "blue"))
    assert (first.position, first.label, second.position, second.label) == (40, "green", 70000, "green")
    np.testing.assert_array_equal(first.pixels, training["images"][1].transpose(1, 2, 0))


def test_missing_and_unreadable_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("gone.npz", "a" * 300, "", "\0"):
        with pytest.raises(TrainingImagesError, match="there is no file"):
            read_training_images(tmp_path / name)
    file = tmp_path / "a.npz"
    file.touch()

    def forbidden(*_: object, **__: object) -> None:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(zipfile, "ZipFile", forbidden)
    assert "may not be read; check its permissions" in refused(file)


@pytest.mark.parametrize("size", [0, 3, 100, -1, -40])
def test_a_truncated_file_is_refused(file: Path, size: int) -> None:
    file.write_bytes(file.read_bytes()[:size])
    assert "is damaged" in refused(file)


@pytest.mark.parametrize("content", [b"hello", b""])
def test_a_member_that_is_no_array_is_refused(file: Path, training: dict[str, Any], content: bytes) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in training.items():
            stream = io.BytesIO()
            np.save(stream, array)
            archive.writestr(f"{name}.npy", content if name == "labels" else stream.getvalue())
    assert "labels is |S" in refused(file)


def test_two_images_in_one_position_are_refused(file: Path, training: dict[str, Any]) -> None:
    np.savez_compressed(file, **training | {"positions": np.zeros_like(training["positions"])})
    assert "have the same position" in refused(file)


def test_a_flipped_bit_is_refused(file: Path, training: dict[str, Any]) -> None:
    np.savez(file, **training)
    content = bytearray(file.read_bytes())
    content[content.index(training["images"].tobytes()) + 9] ^= 1
    file.write_bytes(content)
    assert "is damaged" in refused(file)


@pytest.mark.parametrize("content", [b"text", b"\x93NUMPY\x01\x00", b"PK\x05\x06" + b"\0" * 18])
def test_files_of_another_kind_are_refused(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    assert "is no file of training images" in refused(file)


def test_nothing_is_unpickled(file: Path, training: dict[str, Any], tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
            return (Path.touch, (tmp_path / "sprung",))

    np.savez(file, **training | {"labels": np.array([Trap()] * 5, dtype=object)})
    assert "allow_pickle=False" in refused(file)
    file.write_bytes(pickle.dumps(Trap()))
    refused(file)
    assert not (tmp_path / "sprung").exists()


def test_a_file_that_unpacks_to_too_much_is_not_unpacked(
    file: Path, training: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(file, **training | {"images": np.zeros((5, 3, 100, 100), np.uint8)})
    assert file.stat().st_size < 10_000

    def unpacked(*_: object, **__: object) -> None:
        pytest.fail("unpacked")

    monkeypatch.setattr(np, "load", unpacked)
    assert "claims 15" in refused(file, 100_000)
    assert "the limit is 100,000" in refused(file, 100_000)


def test_a_file_with_too_many_unlisted_bytes_is_not_read(file: Path) -> None:
    """The list of an archive does not count bytes outside of its members."""
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("unlisted", bytes(100_000))
        archive.filelist.pop()
    read_training_images(file)
    assert "the limit is 100,000" in refused(file, 100_000)


def test_a_header_that_claims_more_than_there_is_is_refused_as_damage(file: Path, training: dict[str, Any]) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (2**50, 3, 4, 6)})
    np.savez(file, **{name: array for name, array in training.items() if name != "images"})
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("images.npy", header.getvalue())
    assert "is damaged" in refused(file)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"images": None}, "images"),
        ({"entry_labels": None}, "entry_labels"),
        ({"images": np.zeros((5, 3, 4, 6), np.float32)}, "images is float32"),
        ({"images": np.zeros((5, 3, 4), np.uint8)}, r"images is uint8 \[5, 3, 4\], expected uint8 with 4 axes"),
        ({"images": np.zeros((5, 3, 0, 6), np.uint8)}, r"images is uint8 \[5, 3, 0, 6\]"),
        ({"images": np.zeros((5, 2, 4, 6), np.uint8)}, "have 2 channels"),
        ({"labels": np.zeros(4, np.int64)}, "has 5 images, but 4 labels"),
        ({"labels": np.full(5, -1)}, "labels has the negative value -1"),
        ({"positions": np.zeros(6, np.int64)}, "has 5 images, but 6 positions"),
        ({"positions": np.full(5, -2)}, "positions has the negative value -2"),
        ({"indices": np.full((3, 2), 5, np.int32)}, "an entry has the image 5"),
        ({"indices": np.full((3, 2), -1, np.int32)}, "indices has the negative value -1"),
        ({"indices": np.zeros((3, 2), np.int64)}, "indices is int64"),
        ({"indices": np.zeros((3, 0), np.int32)}, r"indices is int32 \[3, 0\]"),
        ({"entry_labels": np.zeros(2, np.int64)}, "images of 3 entries, but 2 classes"),
    ],
)
def test_contradictory_arrays_are_refused(
    file: Path, training: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    arrays = {name: array for name, array in (training | changes).items() if array is not None}
    np.savez(file, **arrays)
    with pytest.raises(TrainingImagesError, match=words):
        read_training_images(file)
    refused(file)
