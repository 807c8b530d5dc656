"""The wheel and the source archive hold what they shall, and say under which license."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[2]
PACKAGES = ("mntrain", "mnexport", "mnserve")
FILES = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "SECURITY.md")


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The source archive of a copy of the tree, and the wheel that is built from that archive."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("archives")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (*FILES, "constraints.txt"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=out)
    assert done.returncode == 0, done.stderr
    return {"wheel": next(out.glob("*.whl")), "source": next(out.glob("*.tar.gz"))}


@pytest.fixture(scope="module")
def metadata(archives: dict[str, Path]) -> Message:
    with zipfile.ZipFile(archives["wheel"]) as wheel:
        (name,) = (item for item in wheel.namelist() if item.endswith(".dist-info/METADATA"))
        return message_from_bytes(wheel.read(name))


def test_the_wheel_has_every_file_of_the_packages(archives: dict[str, Path]) -> None:
    with zipfile.ZipFile(archives["wheel"]) as wheel:
        packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    files = {
        file.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for file in (ROOT / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert packed == files


def test_the_license_is_in_both_and_in_the_metadata(archives: dict[str, Path], metadata: Message) -> None:
    text = (ROOT / "LICENSE").read_bytes()
    assert b"Apache License" in text
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE"]
    with zipfile.ZipFile(archives["wheel"]) as wheel:
        (name,) = (item for item in wheel.namelist() if item.endswith("/LICENSE"))
        assert wheel.read(name) == text
    with tarfile.open(archives["source"]) as source:
        names = {name.partition("/")[2] for name in source.getnames()}
    assert names >= {*FILES, "constraints.txt"} - {"MANIFEST.in"}


def test_the_citation_is_valid_and_of_this_version(metadata: Message) -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == metadata["Version"]
    assert citation["license"] == metadata["License-Expression"]
    assert [item["title"] for item in citation["references"]] == [
        "Meta-Neighborhoods",
        "Neural Similarity Learning",
        "Alpha Net: Adaptation with Composition in Classifier Space",
    ]
    try:
        folder = Path(str(distribution("cffconvert").locate_file("cffconvert/schemas/1.2.0")))
    except PackageNotFoundError:
        pytest.skip("the package cffconvert, which has the schema, is not installed")
    schema = json.loads((folder / "schema.json").read_text())
    jsonschema.Draft7Validator(schema).validate(citation)
    del citation["authors"]
    assert not jsonschema.Draft7Validator(schema).is_valid(citation)


def test_the_extras_for_serving_bring_no_training(metadata: Message) -> None:
    needed = [text for text in metadata.get_all("Requires-Dist") or () if "'serve'" in text or '"serve"' in text]
    assert any("onnxruntime" in text for text in needed)
    assert not any("torch" in text for text in needed)


def test_the_bill_of_materials_has_what_an_environment_has(archives: dict[str, Path], tmp_path: Path) -> None:
    """The command of `make sbom`, on an environment with the wheel alone."""
    environment, file = tmp_path / "environment", tmp_path / "bill.json"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    interpreter = str(environment / "bin" / "python")
    install = [sys.executable, "-m", "pip", "--python", interpreter, "install", "--no-deps", "--no-index", "--quiet"]
    subprocess.run([*install, str(archives["wheel"])], check=True, capture_output=True)
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    (line,) = [line.strip() for line in text.splitlines() if "cyclonedx-py environment" in line]
    replaced = {
        "$(BIN)/cyclonedx-py": "",
        "build/sbom/environment": str(environment),
        "pyproject.toml": str(ROOT / "pyproject.toml"),
        "build/sbom/serve.cdx.json": str(file),
    }
    words = [replaced.get(word, word) for word in line.split()]
    command = [sys.executable, "-m", "cyclonedx_py", *filter(None, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    bill = json.loads(file.read_text())
    assert bill["bomFormat"] == "CycloneDX"
    (component,) = {
        item["name"]: item for item in (bill["metadata"]["component"], *bill.get("components", ()))
    }.values()
    assert (component["name"], component["version"]) == ("mn-runtime", "0.1.0")
    assert "Apache-2.0" in json.dumps(component["licenses"])
