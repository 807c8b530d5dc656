"""Every kind of image file: training and prediction get equal pixels, or both refuse the file."""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from mnserve.client.image_decoding import MAX_PIXELS
from mnserve.client.images import PixelSize, read_image
from mnserve.errors import ImageError

pixels = pytest.importorskip("mntrain.data.reading.pixels", reason="the training extra is not installed")
decoding = pytest.importorskip("mntrain.data.image_files.decoding", reason="the training extra is not installed")
DataError = pytest.importorskip("mntrain.errors", reason="the training extra is not installed").DataError

NOISE = np.random.default_rng(3).integers(0, 256, (21, 34, 4)).astype(np.uint8)
RGB, CMYK, YCBCR, LAB = 2, 5, 6, 8
"""Photometric interpretations of TIFF; 0 is WhiteIsZero, 1 BlackIsZero."""


def tiff(rows: np.ndarray, *, photometric: int, bits: int | None = None, kind: int = 1, order: str = "<") -> bytes:
    """One uncompressed strip: rows [H, W] or [H, W, C]; ``kind`` 1 unsigned, 2 signed, 3 float."""
    samples = rows.shape[2] if rows.ndim == 3 else 1
    depth = bits or rows.itemsize * 8
    data = rows.astype(rows.dtype.newbyteorder(order)).tobytes()
    entries = {
        256: rows.shape[1], 257: rows.shape[0], 258: [depth] * samples, 259: 1, 262: photometric, 273: 0,
        277: samples, 278: rows.shape[0], 279: len(data), 339: [kind] * samples,
    }  # fmt: skip
    if photometric == RGB and samples == 4:
        entries[338] = 2
    start = 8 + 2 + 12 * len(entries) + 4
    arrays = b""
    packed = b""
    for tag, value in sorted(entries.items()):
        values = value if isinstance(value, list) else [value]
        if tag in (273, 279):
            packed += struct.pack(f"{order}HHII", tag, 4, 1, value)
        elif len(values) <= 2:
            packed += struct.pack(f"{order}HHI4s", tag, 3, len(values), struct.pack(f"{order}{len(values)}H", *values))
        else:
            packed += struct.pack(f"{order}HHII", tag, 3, len(values), start + len(arrays))
            arrays += struct.pack(f"{order}{len(values)}H", *values)
    strip = struct.pack(f"{order}HHII", 273, 4, 1, 0)
    packed = packed.replace(strip, struct.pack(f"{order}HHII", 273, 4, 1, start + len(arrays)))
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}I", 8)
    return head + struct.pack(f"{order}H", len(entries)) + packed + bytes(4) + arrays + data


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def late_orientation() -> bytes:
    """A PNG whose orientation stands behind its pixels."""
    exif = Image.Exif()
    exif[0x0112] = 6
    block = b"eXIf" + exif.tobytes()[6:]
    chunk = struct.pack(">I", len(block) - 4) + block + struct.pack(">I", zlib.crc32(block))
    written = saved(Image.fromarray(NOISE[..., :3]), "PNG")
    return written[:-12] + chunk + written[-12:]


def xmp_orientation(kind: str) -> bytes:
    xmp = (
        b"<x:xmpmeta xmlns:x='adobe:ns:meta/'><rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'>"
        b"<rdf:Description xmlns:tiff='http://ns.adobe.com/tiff/1.0/'><tiff:Orientation>6</tiff:Orientation>"
        b"</rdf:Description></rdf:RDF></x:xmpmeta>"
    )
    if kind == "PNG":
        chunks = PngImagePlugin.PngInfo()
        chunks.add_itxt("XML:com.adobe.xmp", xmp.decode())
        return saved(Image.fromarray(NOISE[..., :3]), "PNG", pnginfo=chunks)
    return saved(Image.fromarray(NOISE[..., :3]), kind, xmp=xmp)


def damaged_exif() -> bytes:
    return saved(Image.fromarray(NOISE[..., :3]), "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff")


def turned(kind: str) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return saved(Image.fromarray(NOISE[..., :3]), kind, exif=exif)


def frames(kind: str, count: int) -> bytes:
    images = [Image.fromarray(np.roll(NOISE[..., :3], step, axis=1)) for step in range(count)]
    return saved(images[0], kind, save_all=True, append_images=images[1:])


def palette(**options: object) -> bytes:
    return saved(Image.fromarray(NOISE[..., :3]).quantize(7), "PNG", **options)


GREY, DEEP, FLOAT = NOISE[..., 0], NOISE[..., 0].astype(np.uint16) * 257, NOISE[..., 0] / np.float32(255)
BLACK_AND_WHITE = Image.fromarray(GREY).convert("1")
KINDS: dict[str, Callable[[], bytes]] = {
    **{
        f"png {mode}": lambda mode=mode: saved(Image.fromarray(NOISE).convert(mode), "PNG")
        for mode in ("1", "L", "LA", "P", "RGB", "RGBA")
    },
    **{
        f"tiff 1 bit {white}": lambda white=white: saved(BLACK_AND_WHITE, "TIFF", tiffinfo={262: white})
        for white in (0, 1)
    },
    "png palette with transparency": lambda: palette(transparency=2),
    "png with gamma": lambda: saved(Image.fromarray(GREY), "PNG", gamma=0.3),
    "png 16 bits": lambda: saved(Image.fromarray(DEEP), "PNG"),
    "jpeg CMYK": lambda: saved(Image.fromarray(NOISE).convert("CMYK"), "JPEG"),
    "jpeg YCbCr": lambda: saved(Image.fromarray(NOISE[..., :3]).convert("YCbCr"), "JPEG"),
    "jpeg with a damaged exif block": damaged_exif,
    "gif": lambda: saved(Image.fromarray(NOISE[..., :3]), "GIF"),
    "bmp": lambda: saved(Image.fromarray(GREY), "BMP"),
    "webp": lambda: saved(Image.fromarray(NOISE), "WEBP", lossless=True),
    "pgm 16 bits": lambda: b"P5 34 21 65535\n" + DEEP.astype(">u2").tobytes(),
    "pfm": lambda: b"Pf\n34 21\n-1.0\n" + FLOAT.astype("<f4").tobytes(),
    **{f"{kind} turned by exif": lambda kind=kind: turned(kind) for kind in ("PNG", "JPEG", "TIFF", "WEBP")},
    "png turned by late exif": late_orientation,
    **{f"{kind} turned by xmp": lambda kind=kind: xmp_orientation(kind) for kind in ("PNG", "JPEG", "WEBP")},
    **{f"{kind} frames": lambda kind=kind: frames(kind, 3) for kind in ("GIF", "PNG", "TIFF", "WEBP")},
    "mpo": lambda: frames("MPO", 2),
    **{
        f"tiff {name} {order}{photometric}": lambda rows=rows, bits=bits, kind=kind, order=order, p=photometric: tiff(
            rows, photometric=p, bits=bits, kind=kind, order=order
        )
        for name, rows, bits, kind in (
            ("8 bits", GREY, 8, 1),
            ("8 bits signed", GREY.view(np.int8), 8, 2),
            ("16 bits", DEEP, 16, 1),
            ("16 bits signed", DEEP.view(np.int16), 16, 2),
            ("32 bits", DEEP.astype(np.uint32), 32, 1),
            ("32 bits signed", DEEP.astype(np.int32), 32, 2),
            ("float", FLOAT, 32, 3),
            ("float of NaN", FLOAT * np.float32(np.nan), 32, 3),
            ("float beyond 1", FLOAT * np.float32(300), 32, 3),
        )
        for order in "<>"
        for photometric in (0, 1)
    },
    **{
        f"tiff colour {photometric} {rows.dtype}": lambda rows=rows, p=photometric: tiff(rows, photometric=p)
        for photometric, rows in (
            (RGB, NOISE[..., :3]), (RGB, NOISE), (CMYK, NOISE), (YCBCR, NOISE[..., :3]), (LAB, NOISE[..., :3]),
            (RGB, NOISE[..., :3].astype(np.uint16) * 257), (CMYK, NOISE.astype(np.uint16) * 257),
        )
    },
}  # fmt: skip


def trained_on(path: Path, channels: int, side: int | None) -> np.ndarray | None:
    """Pixels [H, W, C] in training; None where training refuses the file."""
    row = {"bytes": path.read_bytes(), "path": None}
    options = decoding.DecodeOptions(color="L" if channels == 1 else "RGB", size=side)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return decoding._decode(row, options, name="image").pixels.transpose(1, 2, 0)
    except DataError:
        return None


def predicted_on(path: Path, channels: int, side: int | None) -> np.ndarray | None:
    """Pixels [H, W, C] in prediction; None where it refuses the file."""
    try:
        return read_image(path, PixelSize(channels=channels, height=side, width=side), fit="stretch")
    except ImageError:
        return None


@pytest.mark.parametrize("kind", KINDS)
def test_both_see_the_same_pixels_or_none(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "image"
    path.write_bytes(KINDS[kind]())
    for channels, side in ((1, None), (3, None), (3, 8)):
        trained, predicted = trained_on(path, channels, side), predicted_on(path, channels, side)
        assert (trained is None) == (predicted is None), (channels, side)
        if trained is not None:
            np.testing.assert_array_equal(predicted, trained)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("tiff 8 bits <1", GREY),
        ("tiff 8 bits <0", 255 - GREY),
        ("tiff 8 bits >0", 255 - GREY),
        *((f"tiff 1 bit {white}", np.asarray(BLACK_AND_WHITE.convert("L"))) for white in (0, 1)),
        *(
            (f"tiff {depth} {order}{white}", None)
            for depth in ("16 bits", "float")
            for order in "<>"
            for white in (0, 1)
        ),
        ("png 16 bits", None),
        ("jpeg CMYK", np.asarray(Image.open(io.BytesIO(KINDS["jpeg CMYK"]())).convert("L"))),
        ("png turned by late exif", np.rot90(np.asarray(Image.fromarray(NOISE[..., :3]).convert("L")), -1)),
    ],
)
def test_what_each_kind_is(tmp_path: Path, kind: str, expected: np.ndarray | None) -> None:
    """A file that stores white as zero is never seen inverted."""
    path = tmp_path / "image"
    path.write_bytes(KINDS[kind]())
    found = predicted_on(path, 1, None)
    if expected is None:
        assert found is None
    else:
        assert found is not None
        np.testing.assert_array_equal(found[..., 0], expected)


def test_both_refuse_the_same_size(tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    Image.new("1", (MAX_PIXELS // 8192, 8193)).save(path)
    assert MAX_PIXELS == pixels.MAX_PIXELS
    assert trained_on(path, 1, None) is None
    assert predicted_on(path, 1, None) is None
