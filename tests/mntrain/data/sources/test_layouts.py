"""Every row of the tables of layouts in docs/data.md is built and loaded: what it says is what happens."""

import io
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from mntrain.data.config import DataConfig
from mntrain.data.images import SourceImages
from mntrain.data.loading import load_source
from mntrain.errors import DataError

PAGE = Path(__file__).parents[4] / "docs" / "data.md"
EACH = 10


def rows_below(heading: str) -> list[list[str]]:
    """Cells of the first table below a heading."""
    text = PAGE.read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


FOLDERS = rows_below("Folders of images")
TABLES = rows_below("Tables of images, and of paths")


def expand(pattern: str) -> Iterator[str]:
    """Expand {a,b} as a shell does, and * to the numbers of images."""
    parts = re.split(r"(\{[^}]*\}|\*)", pattern)
    choices = [
        part[1:-1].split(",") if part.startswith("{") else [f"{i:02}" for i in range(EACH)] if part == "*" else [part]
        for part in parts
    ]
    for choice in itertools.product(*choices):
        text = "".join(choice)
        yield from expand(text) if "*" in text or "{" in text else [text]


def png(text: str) -> bytes:
    buffer = io.BytesIO()
    pixels = np.frombuffer((text * 16).encode()[:16], np.uint8).reshape(4, 4)
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def build(folder: Path, cell: str) -> None:
    names = [name for pattern in re.findall(r"`([^`]+)`", cell) for name in expand(pattern)]
    folder.mkdir()
    for name in names:
        path = folder / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if name.endswith(".parquet"):
            images = [{"bytes": png(f"{name} {i}"), "path": None} for i in range(2 * EACH)]
            pq.write_table(pa.table({"image": images, "label": ["cat", "dog"] * EACH}), path)
        elif name.endswith(".csv"):
            pictures = [n for n in names if n.endswith(".png")]
            path.write_text(
                "path,label\n" + "".join(f"{n},{'cat' if i % 2 else 'dog'}\n" for i, n in enumerate(pictures))
            )
        elif not name.endswith("/"):
            path.write_bytes(png(name))


def load(folder: Path, nested: bool = False) -> SourceImages:
    loaded = load_source(DataConfig(source="images", path=str(folder), nested=nested))
    assert isinstance(loaded, SourceImages)
    return loaded


def check(folder: Path, nested: bool, told: str) -> None:
    if told.startswith("refused: "):
        with pytest.raises(DataError) as caught:
            load(folder, nested)
        for part in told.removeprefix("refused: ").split(", "):
            assert part in str(caught.value), str(caught.value)
        return
    loaded = load(folder, nested)
    own = re.search(r"own splits ([\w, ]+)", told)
    assert set(loaded.splits) == (set(own[1].split(", ")) if own else {"all"})
    if classes := re.match(r"classes ([^;]+)", told):
        assert loaded.label_names == tuple(classes[1].replace("\\", "").split(", "))
    ignored = re.search(r"(\d+) ignored", told)
    assert sum(entry.count for entry in loaded.account.ignored) == (int(ignored[1]) if ignored else 0)
    if lacks := re.search(r"that (\w+) lacks (\w+)", told):
        assert f"in {lacks[1]} there is no image of '{lacks[2]}'" in loaded.account.splits


@pytest.mark.parametrize(("cell", "nested", "told"), FOLDERS, ids=[f"{row[0]}{row[1]}" for row in FOLDERS])
def test_a_folder_is_read_as_the_table_says(tmp_path: Path, cell: str, nested: str, told: str) -> None:
    build(tmp_path / "k", cell)
    check(tmp_path / "k", nested == "true", told)


@pytest.mark.parametrize(("cell", "told"), TABLES, ids=[row[0] for row in TABLES])
def test_tables_are_read_as_the_table_says(tmp_path: Path, cell: str, told: str) -> None:
    build(tmp_path / "k", cell)
    check(tmp_path / "k", False, told)


def test_the_label_of_each_picture_is_its_class_folder(tmp_path: Path) -> None:
    build(tmp_path / "k", "`{train,test}/{cat,dog}/{day1,day2}/*.png`")
    loaded = load(tmp_path / "k", nested=True)
    for split, part in loaded.splits.items():
        expected = [name.split("/")[1] for name in sorted(expand(f"{split}/{{cat,dog}}/{{day1,day2}}/*.png"))]
        assert [loaded.label_names[label] for label in part.labels] == expected
