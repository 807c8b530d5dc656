"""What is pinned satisfies what every extra asks for, through all packages that it brings."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
FILES = ("constraints.txt", "deploy/docker/gpu-constraints.txt")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def _pins(*names: str) -> dict[str, str]:
    """Name -> version, of files of constraints."""
    lines = [line for name in names for line in (ROOT / name).read_text().splitlines()]
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): number for name, number in pairs}


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _brought(name: str, extra: str) -> list[str]:
    """Requirements of an installed package, or of this project as it is written; none of one that is not installed."""
    if name == "mn-runtime":
        return [*PROJECT["dependencies"], *EXTRAS.get(extra, ())]
    try:
        return requires(name) or []
    except PackageNotFoundError:
        return []


def _conflicts(extras: str, pins: dict[str, str], *, all_pinned: bool = False) -> Iterator[str]:
    """Walks through all that extras bring, and tells what the pins do not satisfy, or, on demand, do not have."""
    todo, seen = [("mn-runtime", extra) for extra in ("", *extras.split(","))], set()
    while todo:
        owner, extra = todo.pop()
        if (owner, extra) in seen:
            continue
        seen.add((owner, extra))
        for requirement in map(Requirement, _brought(owner, extra)):
            if not _applies(requirement, extra):
                continue
            name = canonicalize_name(requirement.name)
            pin = pins.get(name)
            if pin is not None and not requirement.specifier.contains(pin, prereleases=True):
                yield f"{owner} asks for {requirement}, and {pin} is pinned"
            if all_pinned and pin is None and name != "mn-runtime":
                yield f"{owner} asks for {requirement}, and nothing is pinned"
            todo += [(name, more) for more in ("", *requirement.extras)]


def _of_images() -> dict[str, str]:
    """Where they are named -> extras that an image is built with."""
    found = {}
    for file in [*(ROOT / "deploy").rglob("*"), *(ROOT / "docs").rglob("*.md")]:
        if file.is_file():
            for extras in re.findall(r"EXTRAS=([a-z0-9,-]+)", file.read_text(errors="replace")):
                found[f"{file.relative_to(ROOT)}: {extras}"] = extras
    return found


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_pins_satisfy_every_extra(extra: str) -> None:
    assert list(_conflicts(extra, _pins(*FILES))) == []


@pytest.mark.parametrize("place", _of_images())
def test_the_pins_satisfy_the_extras_of_images(place: str) -> None:
    extras = _of_images()[place]
    assert set(extras.split(",")) <= EXTRAS.keys()
    pins = _pins(*FILES if "gpu" in extras else FILES[:1])
    assert list(_conflicts(extras, pins, all_pinned=True)) == []


def test_a_pin_out_of_range_is_found() -> None:
    pins = _pins(*FILES) | {"python-dateutil": "4.0.0"}
    assert any("python-dateutil" in sentence for sentence in _conflicts("serve,storage-s3", pins))
    del pins["botocore"]
    found = list(_conflicts("storage-s3", pins, all_pinned=True))
    assert any("botocore" in sentence and "nothing is pinned" in sentence for sentence in found)
