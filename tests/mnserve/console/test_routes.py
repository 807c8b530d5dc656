"""Calls of the page: what they tell, and who may make them."""

from __future__ import annotations

import base64
import io
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest
from PIL import Image

from mnserve.access.settings import SecuritySettings

OpenConsole = Callable[..., Awaitable[httpx.AsyncClient]]
API = "/console/api"
INFER, CONTROL = "infer-infer-infer-infer", "control-control-control"


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}", "content-type": "application/json"}


def picture(color: str) -> str:
    stream = io.BytesIO()
    Image.new("RGB", (6, 4), color).save(stream, "PNG")
    return base64.b64encode(stream.getvalue()).decode()


async def test_the_status_has_states_and_counters(open_console: OpenConsole, double_model: Callable[..., Path]) -> None:
    double_model(config="max_batch_size: 4")
    (double_model("broken") / "1" / "model.onnx").write_bytes(b"garbage")
    console = await open_console()
    before = (await console.get(f"{API}/status")).json()
    assert (before["control"], before["may_control"], before["ready"]) == ("none", True, False)
    broken, double = before["models"]
    assert (double["ready"], double["reason"]) == (True, "")
    assert (broken["ready"], "model.onnx" in broken["reason"]) == (False, True)
    body = {"model": "double", "tensors": {"x": [[1, 2, 3, 4]] * 3}}
    for _ in range(5):
        assert (await console.post(f"{API}/predict", json=body)).status_code == 200
    wrong = await console.post(f"{API}/predict", json=body | {"tensors": {"x": [[1, 2]]}})
    assert wrong.status_code == 400
    (counters,) = (await console.get(f"{API}/status")).json()["counters"]
    assert (counters["answered"], counters["rows"], counters["runs"], counters["waiting"]) == (5, 15, 5, 0)
    assert counters["batches"] == [[3, 5]]
    assert counters["failed"] == {"REJECTED": 0, "CANCELED": 0, "BACKEND": 0, "OTHER": 1}
    buckets, counts = zip(*counters["latencies"], strict=True)
    assert sum(counts) == 5
    bounds = before["bounds_ns"]
    least = sum(count * (bounds[bucket - 1] if bucket else 0) for bucket, count in zip(buckets, counts, strict=True))
    most = sum(count * bounds[bucket] for bucket, count in zip(buckets, counts, strict=True))
    assert least <= counters["total_ns"] <= most


async def test_models_are_described_by_their_kind(
    open_console: OpenConsole, double_model: Callable[..., Path], colour_model: Callable[..., Path]
) -> None:
    double_model()
    colour_model("colors")
    console = await open_console()
    colors, double = (await console.get(f"{API}/models")).json()
    assert (colors["kind"], colors["explains"]) == ("images", False)
    assert colors["image"] == {"channels": 3, "height": 4, "width": 6}
    assert double["kind"] == "tensors"
    assert double["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4], "optional": False}]


async def test_one_bad_image_does_not_keep_the_others_from_their_answers(
    open_console: OpenConsole, colour_model: Callable[..., Path]
) -> None:
    colour_model("colors")
    console = await open_console()
    files = [
        {"name": "blue.png", "data": picture("blue")},
        {"name": "a\n.png", "data": base64.b64encode(b"no image").decode()},
        {"name": "b.png", "data": "???"},
        {"name": "large.png", "data": picture("red")},
    ]
    answer = (await console.post(f"{API}/predict", json={"model": "colors", "images": files})).json()
    blue, damaged, garbled, red = answer["results"]
    assert (blue["classes"][0]["label"], red["classes"][0]["label"]) == ("blue", "red")
    assert blue["classes"][0]["probability"] == pytest.approx(1.0)
    assert (blue["classes"][0]["unadapted"], blue["explanation"]) == (None, None)
    assert damaged["error"].startswith("a\\n.png: not an image")
    assert "is no base64" in garbled["error"]
    assert answer["milliseconds"] > 0


async def test_control_needs_a_token_that_is_good_for_it(
    open_console: OpenConsole, double_model: Callable[..., Path], token_file: Callable[[str], str]
) -> None:
    double_model()
    security = SecuritySettings(token_file=token_file(f"{INFER}\n{CONTROL} control\n"))
    console = await open_console(model_control="explicit", load_model=("double",), security=security)
    assert (await console.get("/console/")).status_code == 200, "the page itself needs none"
    for path in ("status", "models"):
        assert (await console.get(f"{API}/{path}")).status_code == 401
        refused = await console.get(f"{API}/{path}", headers=bearer("wrong-wrong-wrong-wrong"))
        assert (refused.status_code, "operator" in refused.json()["error"]) == (401, True)
    assert (await console.post(f"{API}/predict", json={})).status_code == 401
    may = {}
    for token in (INFER, CONTROL):
        may[token] = (await console.get(f"{API}/status", headers=bearer(token))).json()["may_control"]
    assert may == {INFER: False, CONTROL: True}
    unload = f"{API}/models/double/unload"
    refused = await console.post(f"{API}/models/double/load", headers=bearer(INFER), content=b"{}")
    assert (refused.status_code, "good for" in refused.json()["error"]) == (403, True)
    for token, status in ((INFER, 403), ("wrong-wrong-wrong-wrong", 401), (CONTROL, 200)):
        assert (await console.post(unload, headers=bearer(token), content=b"{}")).status_code == status
    told = (await console.get(f"{API}/status", headers=bearer(INFER))).json()
    assert [state["loaded"] for state in told["models"]] == [False]
    assert (await console.post(f"{API}/models/double/load", headers=bearer(CONTROL), content=b"{}")).status_code == 200
    missing = await console.post(f"{API}/models/none/load", headers=bearer(CONTROL), content=b"{}")
    assert (missing.status_code, "failed to load 'none'" in missing.json()["error"]) == (404, True)


async def test_without_explicit_control_nothing_is_unloaded(
    open_console: OpenConsole, double_model: Callable[..., Path]
) -> None:
    double_model()
    console = await open_console()
    refused = await console.post(f"{API}/models/double/unload", json={})
    assert refused.status_code == 501
    assert "--model-control explicit" in refused.json()["error"]


@pytest.mark.parametrize(
    ("kind", "written", "told"),
    [
        ("INT64", "9007199254740993, 1", ["9007199254740993", 1]),
        ("UINT64", "18446744073709551615", ["18446744073709551615"]),
        ("BFLOAT16", "0, 1, -1.5, 0.1", [0, 1, -1.5, 0.10009765625]),
        ("FLOAT16", "0, 1, -1.5", [0, 1, -1.5]),
    ],
)
async def test_tensors_are_read_as_they_are_written(
    open_console: OpenConsole, onnx_model: Callable[..., Path], kind: str, written: str, told: list[object]
) -> None:
    tensor = (kind, ["batch", "n"])
    onnx_model("same", [("Identity", ["x"], ["y"])], {"x": tensor}, {"y": tensor}, config="max_batch_size: 8\n")
    console = await open_console()
    body = {"model": "same", "tensors": f'{{"x": [[{written}]]}}'}
    answer = (await console.post(f"{API}/predict", json=body)).json()
    assert answer["results"][0]["values"] == told


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "no JSON"),
        (b"\xff", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "has no model"),
        (b'{"model": 3}', "has no model"),
        (b'{"model": "double"}', "no input"),
        (b'{"model": "double", "rows": "a", "tensors": {}}', "rows and tensors"),
        (b'{"model": "double", "rows": 3}', "text of a table"),
        (b'{"model": "double", "images": []}', "1 to 32 files"),
        (b'{"model": "double", "images": [{"name": 1}]}', "an image has to be"),
        (b'{"model": "double", "tensors": [1]}', "an object"),
        (b'{"model": "double", "tensors": {}, "explain": 1}', "true or false"),
        (b'{"model": "double", "tensors": {"z": [1]}}', "no input 'z'"),
        (b'{"model": "double", "tensors": {"x": [[1, 2, 3, "a"]]}}', "FP32"),
        (b'{"model": "double", "tensors": {"x": [[1], [1, 2]]}}', "lists have different lengths"),
        (b'{"model": "double", "tensors": {"x": [[1, 2, 3, 1e39]]}}', "cannot hold"),
        (b'{"model": "double", "tensors": "{"}', "the text of the tensors is no JSON"),
        (b'{"model": "double", "tensors": "[1]"}', "an object"),
        (b'{"model": "double", "tensors": "' + rb"\u002c" * 500_001 + b'"}', "tensors has more than 500,000 values"),
        (b'{"model": "double", "rows": "a\\n1"}', "takes no rows"),
        (b'{"model": "double", "images": [{"name": "a", "data": ""}]}', "takes no images"),
    ],
)
async def test_an_input_that_cannot_be_used_has_a_reason(
    open_console: OpenConsole, double_model: Callable[..., Path], content: bytes, reason: str
) -> None:
    double_model()
    console = await open_console()
    answer = await console.post(f"{API}/predict", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 400, answer.text
    assert reason in answer.json()["error"]


async def test_there_is_no_console_unless_asked_for(
    open_console: OpenConsole, double_model: Callable[..., Path]
) -> None:
    double_model()
    server = await open_console(console=False)
    for path in ("/", "/console/", f"{API}/status"):
        assert (await server.get(path)).status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", f"{API}/nothing", 404),
        ("GET", f"{API}/", 404),
        ("GET", API, 404),
        ("GET", f"{API}/status/", 404),
        ("POST", f"{API}/models/double/load/", 404),
        ("POST", f"{API}/status", 405),
        ("DELETE", f"{API}/models", 405),
        ("GET", f"{API}/predict", 405),
        ("GET", f"{API}/models/double/unload", 405),
        ("POST", "/console/", 405),
        ("POST", "/console", 405),
        ("POST", "/", 405),
        ("GET", "/console/none", 404),
    ],
)
async def test_every_refusal_is_a_sentence(
    open_console: OpenConsole, double_model: Callable[..., Path], method: str, path: str, status: int
) -> None:
    double_model()
    console = await open_console()
    answer = await console.request(method, path, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
    assert path[:80] in answer.json()["error"]
    if status == 405 and path != "/console/":
        assert answer.headers["allow"]


@pytest.mark.parametrize("path", ["/", "/console"])
async def test_the_page_is_found(open_console: OpenConsole, double_model: Callable[..., Path], path: str) -> None:
    double_model()
    server = await open_console()
    found = await server.get(path, follow_redirects=True)
    assert found.url.path == "/console/"
    assert "<title>Console</title>" in found.text


@pytest.mark.parametrize(
    "path", ["../__init__.py", "%2e%2e/routes.py", "..%2froutes.py", "vendor/../../routes.py", "//etc/passwd"]
)
async def test_nothing_beside_the_page_is_read(
    open_console: OpenConsole, double_model: Callable[..., Path], path: str
) -> None:
    double_model()
    server = await open_console()
    assert (await server.get(httpx.URL(f"{server.base_url}/console/{path}"))).status_code == 404
