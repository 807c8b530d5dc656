"""Images in requests: as files of a form, and as base64 text in JSON, with the answers that their pixels get."""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64encode
from collections.abc import Awaitable, Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

ServeHttp = Callable[..., Awaitable[httpx.AsyncClient]]
INFER = "/v2/models/colours/infer"
RED, GREEN = (200, 10, 30), (10, 200, 30)


def picture(colour: tuple[int, int, int], size: tuple[int, int] = (6, 4), kind: str = "PNG", **options: Any) -> bytes:
    """An image file of one colour; ``size`` is width and height."""
    stream = BytesIO()
    Image.new("RGB", size, colour).save(stream, kind, **options)
    return stream.getvalue()


def body(*files: bytes, **parameters: Any) -> dict[str, Any]:
    texts = [b64encode(file).decode() for file in files]
    item = {"name": "image", "datatype": "BYTES", "shape": [len(files)], "data": texts}
    return {"inputs": [{**item, "parameters": {"content_type": "image", **parameters}}]}


def logits(response: httpx.Response) -> np.ndarray[Any, Any]:
    assert response.status_code == 200, response.text
    (output,) = (output for output in response.json()["outputs"] if output["name"] == "logits")
    return np.array(output["data"]).reshape(output["shape"])


async def test_files_base64_and_pixels_get_the_same_answers(
    serve_http: ServeHttp, colour_model: Callable[..., Path]
) -> None:
    colour_model("colours")
    client = await serve_http()
    name = (await client.get("/v2/models/colours")).json()["inputs"][0]["name"]
    pixels = np.stack([np.full((4, 6, 3), colour, np.uint8).transpose(2, 0, 1) for colour in (RED, GREEN)])
    tensor = {"name": name, "datatype": "UINT8", "shape": [2, 3, 4, 6], "data": pixels.ravel().tolist()}
    expected = logits(await client.post(INFER, json={"inputs": [tensor]}))
    np.testing.assert_allclose(expected, [RED, GREEN], rtol=1e-5)
    files = [("image", ("a.png", picture(RED))), ("image", ("b.bmp", picture(GREEN, kind="BMP")))]
    content = body(picture(RED), picture(GREEN, kind="TIFF"))
    content["inputs"][0]["name"] = name
    address = json.loads(json.dumps(content))
    address["inputs"][0]["data"][0] = "data:image/png;base64," + address["inputs"][0]["data"][0]
    for answer in (
        await client.post(INFER, files=files),
        await client.post(INFER, json=content),
        await client.post(INFER, json=address),
    ):
        np.testing.assert_array_equal(logits(answer), expected)


async def test_a_form_has_the_fields_of_a_request_beside_its_files(
    serve_http: ServeHttp, colour_model: Callable[..., Path]
) -> None:
    colour_model("colours")
    client = await serve_http()
    request = {"id": "7", "outputs": [{"name": "logits", "parameters": {"classification": 1}}]}
    answer = await client.post(INFER, files={"image": picture(GREEN)}, data={"request": json.dumps(request)})
    assert answer.json()["id"] == "7"
    assert answer.json()["outputs"][0]["data"][0].split(":")[1] == "1"


async def test_images_of_another_size_are_scaled_where_that_is_asked_for(
    serve_http: ServeHttp, colour_model: Callable[..., Path]
) -> None:
    colour_model("colours")
    client = await serve_http()
    large = picture(RED, (60, 40))
    refused = await client.post(INFER, files={"image": large})
    assert refused.status_code == 400
    assert "image 0 ('upload'): the image is 60x40 pixels" in refused.json()["error"]
    assert "over HTTP the parameter resize" in refused.json()["error"]
    answer = await client.post(INFER, files={"image": large}, data={"resize": "true"})
    np.testing.assert_allclose(logits(answer), [RED], atol=0.01)
    name = (await client.get("/v2/models/colours")).json()["inputs"][0]["name"]
    content = body(large, resize=True)
    content["inputs"][0]["name"] = name
    np.testing.assert_allclose(logits(await client.post(INFER, json=content)), [RED], atol=0.01)


def bomb() -> bytes:
    """A PNG file of some hundred bytes that claims 100,000 x 100,000 pixels."""
    head = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")]
    parts = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def animated() -> bytes:
    stream = BytesIO()
    frames = [Image.new("RGB", (6, 4), colour) for colour in (RED, GREEN)]
    frames[0].save(stream, "GIF", save_all=True, append_images=frames[1:])
    return stream.getvalue()


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (b"", "the file is empty"),
        (b"no image", "not an image in a format"),
        (picture(RED)[:-30], "damaged or incomplete"),
        (bomb(), "the limit is 67,108,864"),
        (animated(), "holds 2 frames"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 6 4\nshowpage\n", "not an image in a format"),
    ],
    ids=["empty", "text", "cut", "bomb", "animated", "program"],
)
async def test_what_is_no_image_is_refused(
    serve_http: ServeHttp, colour_model: Callable[..., Path], file: bytes, words: str
) -> None:
    colour_model("colours")
    client = await serve_http()
    name = (await client.get("/v2/models/colours")).json()["inputs"][0]["name"]
    content = body(file)
    content["inputs"][0]["name"] = name
    for answer in (
        await client.post(INFER, files={"image": ("x\x1b.png", file)}),
        await client.post(INFER, json=content),
    ):
        assert answer.status_code == 400
        assert words in answer.json()["error"]
        assert "\x1b" not in answer.json()["error"]


async def test_forms_and_texts_that_do_not_fit_are_refused(
    serve_http: ServeHttp, colour_model: Callable[..., Path], double_model: Callable[..., Path]
) -> None:
    colour_model("colours")
    double_model()
    client = await serve_http()
    image = picture(RED)

    async def refusal(**request: Any) -> str:
        response = await client.post(INFER, **request)
        assert response.status_code == 400, response.text
        return str(response.json()["error"])

    assert "0 images, expected from 1 to 4" in await refusal(files={"resize": (None, "true")})
    assert "the field 'none', which is no file" in await refusal(files={"image": image}, data={"none": "a"})
    assert "5 images, expected from 1 to 4" in await refusal(files=[("image", image)] * 5)
    assert "has inputs, and the form has files" in await refusal(
        files={"image": image},
        data={"request": json.dumps({"inputs": [{"name": "a", "datatype": "FP32", "shape": [1], "data": [1]}]})},
    )
    assert "no JSON" in await refusal(files={"image": image}, data={"request": "{"})
    assert "the field resize of the form is 'yes'" in await refusal(files={"image": image}, data={"resize": "yes"})
    part = b'--B\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n\r\n' + image + b"\r\n"
    form = {"Content-Type": 'multipart/form-data; boundary="B"'}
    assert (await client.post(INFER, content=part * 2 + b"--B--", headers=form)).status_code == 200
    for cut in (part * 2, part + part[:-20], part + b"--B-"):
        assert "it has no end; send all of it" in await refusal(content=cut, headers=form)
    assert "is no form of this call" in await refusal(
        content=b"abc", headers={"Content-Type": "multipart/form-data; boundary=B"}
    )
    assert "is no form of this call" in await refusal(content=b"abc", headers={"Content-Type": "multipart/form-data"})
    wrong = body(image)
    wrong["inputs"][0]["data"] = ["#" * 10]
    assert "image 0 of input 'image' is no base64 text" in await refusal(json=wrong)
    other = await client.post("/v2/models/double/infer", files={"image": image})
    assert other.status_code == 400
    assert "an image has three dimensions" in other.json()["error"]
    assert other.json()["error"].endswith("; send its tensors in place of image files")
    none = await client.post("/v2/models/none/infer", files={"image": image})
    assert none.status_code == 404


async def test_images_of_a_model_of_any_size_become_no_larger_a_tensor_than_a_request_may_bring(
    serve_http: ServeHttp, repository: Path, write_onnx_model: Callable[..., Path]
) -> None:
    write_onnx_model(
        repository,
        "colours",
        [("GlobalAveragePool", ["image"], ["logits"])],
        {"image": ("FLOAT", ["batch", 3, "height", "width"])},
        {"logits": ("FLOAT", ["batch", 3, 1, 1])},
    )
    client = await serve_http(max_message_bytes=2**20)
    for number, size in ((1, (290, 300)), (3, (160, 170))):  # 1,044,000 and 979,200 bytes of FP32
        fits = await client.post(INFER, files=[("image", picture(RED, size))] * number)
        assert fits.status_code == 200, fits.text
    for number, size in ((1, (300, 300)), (4, (160, 170)), (2, (6000, 6000))):
        refused = await client.post(INFER, files=[("image", picture(RED, size))] * number)
        assert refused.status_code == 413, refused.text
        assert "a request takes at most 1048576; send smaller images or fewer" in refused.json()["error"]
