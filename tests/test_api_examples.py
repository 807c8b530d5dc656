"""Test that the examples of ``docs/api.md`` run as they are printed, one after another, in an empty folder."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
ADDRESS = "127.0.0.1:8001"


def run(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder in which every example but the client's ran, and what they printed."""
    folder = tmp_path_factory.mktemp("api")
    local = "\n".join(example for example in EXAMPLES if ADDRESS not in example)
    return folder, run(local, folder)


def test_examples_train_export_and_run_a_model(printed: tuple[Path, str]) -> None:
    lines = printed[1].splitlines()
    assert "meta_neighborhoods 2" in lines
    assert "build/repository/short/1/model.onnx factored True" in lines
    assert "1 model.onnx (1, 10)" in lines
    assert any(line.endswith("(2, 10) ('0', '1', '2', '3', '4', '5', '6', '7', '8', '9')") for line in lines)
    assert any(line.startswith("There is no recipe 'digitz'") for line in lines)
    assert any(line.startswith("Model name 'not a name' is not possible") for line in lines)


def test_the_example_of_the_client_gets_an_answer(printed: tuple[Path, str]) -> None:
    folder, _ = printed
    (example,) = (example for example in EXAMPLES if ADDRESS in example)
    command = [sys.executable, "-m", "mnserve", "serve", "build/repository", "--grpc-port", "0", "--metrics-port", "0"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            announced = re.search(r"on (\S+), metrics", server.stdout.readline())
            assert announced is not None
            assert run(example.replace(ADDRESS, announced.group(1)), folder) == "(1, 10)\n"
        finally:
            server.terminate()


def test_the_example_of_a_better_head_goes_from_a_network_to_predictions(tmp_path: Path) -> None:
    example = PAGE.parents[1] / "examples" / "better_head.py"
    lines = run(example.read_text(encoding="utf-8"), tmp_path).splitlines()
    found = re.fullmatch(r"(\d+) of 256 held-out images are right; the first is \d", lines[-1])
    assert found is not None
    assert int(found.group(1)) > 220
