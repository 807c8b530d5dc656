"""Image files to pixels: what is converted, and what is refused with which words."""

from __future__ import annotations

import os
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import EpsImagePlugin, Image

from mnserve.client.images import PixelSize, find_images, read_image
from mnserve.errors import ImageError

ANY_GREY = PixelSize(channels=1, height=None, width=None)
ANY_RGB = PixelSize(channels=3, height=None, width=None)


def save(path: Path, array: np.ndarray, mode: str | None = None, **options) -> Path:
    image = Image.fromarray(array)
    (image if mode is None else image.convert(mode)).save(path, **options)
    return path


@pytest.fixture
def colours(tmp_path: Path) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)


def test_rgb_pixels_arrive_unchanged(tmp_path: Path, colours: np.ndarray) -> None:
    path = save(tmp_path / "a.png", colours)
    result = read_image(path, PixelSize(channels=3, height=5, width=7))
    assert result.dtype == np.uint8
    np.testing.assert_array_equal(result, colours)


def test_grey_pixels_arrive_unchanged(tmp_path: Path, colours: np.ndarray) -> None:
    path = save(tmp_path / "a.png", colours[..., 0])
    np.testing.assert_array_equal(read_image(path, ANY_GREY), colours[..., :1])


def test_colour_to_a_grey_model_is_luma(tmp_path: Path, colours: np.ndarray) -> None:
    result = read_image(save(tmp_path / "a.png", colours), ANY_GREY)
    expected = colours @ np.array([0.299, 0.587, 0.114])
    np.testing.assert_allclose(result[..., 0], expected, atol=1.0)


def test_grey_to_an_rgb_model_is_repeated(tmp_path: Path, colours: np.ndarray) -> None:
    result = read_image(save(tmp_path / "a.png", colours[..., 0]), ANY_RGB)
    np.testing.assert_array_equal(result, np.repeat(colours[..., :1], 3, axis=2))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_honoured(tmp_path: Path, colours: np.ndarray, orientation: int) -> None:
    undo = {
        1: lambda a: a, 2: lambda a: a[:, ::-1], 3: lambda a: a[::-1, ::-1], 4: lambda a: a[::-1],
        5: lambda a: a.swapaxes(0, 1), 6: lambda a: np.rot90(a, 1), 7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
        8: lambda a: np.rot90(a, -1),
    }[orientation]  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = save(tmp_path / "a.png", np.ascontiguousarray(undo(colours)), exif=exif)
    np.testing.assert_array_equal(read_image(path, ANY_RGB), colours)


def test_transparency_is_dropped_as_in_training(tmp_path: Path, colours: np.ndarray) -> None:
    alpha = np.zeros((5, 7, 1), np.uint8)
    path = save(tmp_path / "a.png", np.concatenate([colours, alpha], axis=2))
    np.testing.assert_array_equal(read_image(path, ANY_RGB), colours)


def test_transparency_of_a_palette_is_dropped(tmp_path: Path) -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putdata([0, 1])
    image.save(tmp_path / "a.png", transparency=0)
    assert read_image(tmp_path / "a.png", ANY_RGB).tolist() == [[[10, 20, 30], [200, 100, 50]]]


def test_a_phone_picture_with_a_preview_is_one_picture(tmp_path: Path, colours: np.ndarray) -> None:
    picture = Image.fromarray(colours)
    picture.save(tmp_path / "a.mpo", save_all=True, append_images=[Image.new("RGB", (2, 2))])
    with Image.open(tmp_path / "a.mpo") as written:
        assert written.n_frames == 2
    assert read_image(tmp_path / "a.mpo", ANY_RGB).shape == (5, 7, 3)


def test_cmyk_and_bilevel_are_converted(tmp_path: Path, colours: np.ndarray) -> None:
    assert read_image(save(tmp_path / "a.tiff", colours, "CMYK"), ANY_GREY).shape == (5, 7, 1)
    black_and_white = read_image(save(tmp_path / "b.png", colours, "1"), ANY_GREY)
    assert set(np.unique(black_and_white)) == {0, 255}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([[0, 65535]], np.uint16), r"pixels of more than 8 bits \(mode 'I;16'\)"),
        (np.array([[-7, 100000]], np.int32), r"pixels of more than 8 bits \(mode 'I'\)"),
        (np.array([[0.0, 1.0]], np.float32), r"float pixels \(mode 'F'\)"),
        (np.array([[0.0, np.nan]], np.float32), r"float pixels \(mode 'F'\)"),
    ],
)
def test_deep_pixels_are_refused_as_in_training(tmp_path: Path, values: np.ndarray, message: str) -> None:
    path = save(tmp_path / "a.tiff", values)
    with pytest.raises(ImageError, match=rf"a\.tiff: the image has {message}.*convert it to an image of 8 bits"):
        read_image(path, ANY_GREY)


def test_another_size_is_refused_unless_resized(tmp_path: Path, colours: np.ndarray) -> None:
    path = save(tmp_path / "a.png", colours)
    size = PixelSize(channels=3, height=4, width=6)
    with pytest.raises(ImageError, match=r"a\.png: the image is 7x5 pixels .*takes 6x4; add --resize"):
        read_image(path, size)
    assert read_image(path, size, fit="stretch").shape == (4, 6, 3)


def test_the_right_size_is_not_touched_by_resize(tmp_path: Path, colours: np.ndarray) -> None:
    path = save(tmp_path / "a.png", colours)
    np.testing.assert_array_equal(read_image(path, PixelSize(channels=3, height=5, width=7), fit="stretch"), colours)


def test_missing_empty_and_foreign_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"gone\.png: no such file"):
        read_image(tmp_path / "gone.png", ANY_RGB)
    (tmp_path / "zero.png").touch()
    with pytest.raises(ImageError, match=r"zero\.png: the file is empty \(0 bytes\)"):
        read_image(tmp_path / "zero.png", ANY_RGB)
    (tmp_path / "text.png").write_text("not an image at all")
    with pytest.raises(ImageError, match=r"text\.png: not an image in a format this machine reads; convert it"):
        read_image(tmp_path / "text.png", ANY_RGB)
    with pytest.raises(ImageError, match="this is a folder"):
        read_image(tmp_path, ANY_RGB)
    os.mkfifo(tmp_path / "pipe.png")
    for special in (tmp_path / "pipe.png", Path("/dev/zero")):
        with pytest.raises(ImageError, match="this is a pipe, a socket or a device, not a file; copy the image"):
            read_image(special, ANY_RGB)


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".bmp", ".gif", ".tiff", ".webp"])
def test_truncated_files_are_refused(tmp_path: Path, suffix: str) -> None:
    noise = np.random.default_rng(1).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    path = save(tmp_path / f"a{suffix}", noise)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ImageError, match=r"a\.\w+: (the image is damaged or incomplete|not an image)"):
        read_image(path, ANY_RGB)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    position=st.integers(0, 200),
    value=st.integers(0, 255),
    suffix=st.sampled_from([".png", ".jpg", ".gif", ".tiff"]),
)
def test_a_flipped_byte_gives_pixels_or_one_clear_error(tmp_path: Path, position: int, value: int, suffix: str) -> None:
    path = save(tmp_path / f"a{suffix}", np.full((6, 5, 3), 77, np.uint8))
    content = bytearray(path.read_bytes())
    content[position % len(content)] = value
    path.write_bytes(bytes(content))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            outcome: object = read_image(path, ANY_RGB).dtype
        except ImageError as error:
            outcome = str(error)
    assert outcome == np.uint8 or str(path) in str(outcome)


def test_animations_are_refused(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "green", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    with pytest.raises(ImageError, match=r"a\.gif: the file holds 3 frames or pages, one is expected; save the one"):
        read_image(tmp_path / "a.gif", ANY_RGB)


@pytest.mark.parametrize("side", [12_000, 60_000])
def test_decompression_bombs_are_refused_before_decoding(tmp_path: Path, side: int) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", b"") + chunk(b"IEND", b""))
    with pytest.raises(ImageError, match=r"a\.png: the image .* pixels, the limit is 67,108,864; scale it down"):
        read_image(tmp_path / "a.png", ANY_RGB)


def test_a_folder_stands_for_its_images(tmp_path: Path, colours: np.ndarray) -> None:
    for name in ("b.png", "a.JPG", ".hidden.png"):
        save(tmp_path / name, colours)
    (tmp_path / "notes.txt").write_text("no image")
    (tmp_path / "sub.png").mkdir()
    assert list(find_images([str(tmp_path)])) == [tmp_path / "a.JPG", tmp_path / "b.png"]


def test_a_folder_without_images_is_an_error_and_the_rest_goes_on(tmp_path: Path, colours: np.ndarray) -> None:
    (tmp_path / "empty").mkdir()
    path = save(tmp_path / "a.png", colours)
    error, found = find_images([str(tmp_path / "empty"), str(path)])
    assert isinstance(error, ImageError)
    assert "the folder holds no image file (it has 0 entries" in str(error)
    assert found == path


def test_a_file_named_by_hand_needs_no_known_ending(tmp_path: Path, colours: np.ndarray) -> None:
    path = save(tmp_path / "a.png", colours).rename(tmp_path / "picture")
    assert list(find_images([str(path)])) == [path]
    np.testing.assert_array_equal(read_image(path, ANY_RGB), colours)


def test_postscript_without_its_program_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", False)
    path = tmp_path / "a.eps"
    path.write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n")
    with pytest.raises(
        ImageError, match="read with Ghostscript, which is not on this machine; convert the file to PNG"
    ):
        read_image(path, PixelSize(channels=3, height=None, width=None))
