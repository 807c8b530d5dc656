"""The wheel and the source archive hold what they shall, and say under which license."""

from __future__ import annotations

import hashlib
import json
import re
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
from distribution.bundled import BUNDLED
from distribution.bundled import main as add_to_file

ROOT = Path(__file__).parents[2]
PACKAGES = ("mntrain", "mnexport", "mnserve")
FILES = (
    "pyproject.toml",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    "NOTICE",
    "CHANGELOG.md",
    "CITATION.cff",
    "SECURITY.md",
)
VENDOR = Path("mnserve/console/page/vendor")
LICENSES = {"Apache-2.0", "BSD-3-Clause", "0BSD"}
"""Ours, and those of what the console bundles."""


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The source archive of a copy of the tree, and the wheel that is built from that archive."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("archives")
    for folder in (*PACKAGES, "tests", "benchmarks", "deploy", "docs", "examples", "protos"):
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
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


def test_the_licenses_are_in_both_and_in_the_metadata(archives: dict[str, Path], metadata: Message) -> None:
    assert b"Apache License" in (ROOT / "LICENSE").read_bytes()
    assert set(metadata["License-Expression"].split(" AND ")) == LICENSES
    texts = {"LICENSE", "NOTICE", *(str(VENDOR / file.name) for file in (ROOT / VENDOR).glob("*.txt"))}
    assert len(texts) == 6
    assert set(metadata.get_all("License-File") or ()) == texts
    with zipfile.ZipFile(archives["wheel"]) as wheel:
        for text in texts:
            (name,) = (item for item in wheel.namelist() if item.endswith(f".dist-info/licenses/{text}"))
            assert wheel.read(name) == (ROOT / text).read_bytes()


def test_the_source_archive_has_the_packages_and_nothing_in_pieces(archives: dict[str, Path]) -> None:
    with tarfile.open(archives["source"]) as source:
        names = {item.name.partition("/")[2] for item in source.getmembers() if item.isfile()}
    assert names >= {*FILES, "constraints.txt"}
    folders = {name.partition("/")[0] for name in names if "/" in name}
    assert folders == {*PACKAGES, "mn_runtime.egg-info"}  # setuptools would add some files of tests/ without the others


def test_the_notice_names_what_is_bundled_and_its_licenses() -> None:
    notice = (ROOT / "NOTICE").read_text()
    for item in BUNDLED:
        assert item.license in LICENSES
        assert item.name in notice.lower()
        assert item.version is None or item.version in notice
    theirs = notice.partition("beside it):")[2].partition("- ZRender")[0]
    assert (ROOT / VENDOR / "echarts-NOTICE.txt").read_text().split() == theirs.split()
    for file in (ROOT / "deploy/docker").glob("*.Dockerfile"):
        (label,) = re.findall(r'image\.licenses="(.*)"', file.read_text())
        assert set(label.split(" AND ")) == LICENSES


def test_the_citation_is_valid_and_of_this_version(metadata: Message) -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == metadata["Version"]
    assert citation["license"] == metadata["License-Expression"].partition(" AND ")[0]  # ours, without what is bundled
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
    assert add_to_file(file) == 0
    bill = json.loads(file.read_text())
    assert bill["bomFormat"] == "CycloneDX"
    listed = {item["name"]: item for item in (bill["metadata"]["component"], *bill.get("components", ()))}
    component = listed.pop("mn-runtime")
    assert component["version"] == "0.1.0"
    assert "Apache-2.0" in json.dumps(component["licenses"])
    assert {item["purl"] for item in listed.values()} == {
        "pkg:npm/echarts@6.1.0",
        "pkg:npm/zrender@6.1.0",
        "pkg:npm/d3",
        "pkg:npm/tslib@2.3.0",
    }
    (script,) = (ROOT / VENDOR).glob("*.js")
    assert listed["echarts"]["hashes"] == [
        {"alg": "SHA-256", "content": hashlib.sha256(script.read_bytes()).hexdigest()}
    ]
    assert 'zrender:"6.1.0"' in script.read_text()
    tree = {item["ref"]: item.get("dependsOn", []) for item in bill["dependencies"]}
    assert "pkg:npm/echarts@6.1.0" in tree[component["bom-ref"]]
    assert tree["pkg:npm/echarts@6.1.0"] == ["pkg:npm/d3", "pkg:npm/tslib@2.3.0", "pkg:npm/zrender@6.1.0"]


def test_make_sbom_adds_what_is_bundled() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\nsbom:")[2].partition("\n\n")[0]
    assert "-m distribution.bundled ../build/sbom/serve.cdx.json" in recipe
