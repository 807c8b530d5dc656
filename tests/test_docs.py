"""The documentation keeps its limits: short pages, links and names that resolve, every page on the map and side bar."""

import dataclasses
import re
from collections import Counter
from pathlib import Path

import pytest
from code_structure.floors import FLOORS

from mnserve.access.connection_limits import TransportSettings
from mnserve.access.settings import SecuritySettings
from mnserve.object_store.settings import StoreSettings
from mnserve.settings import ServeSettings

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")])
MOST_WORDS = 1800
FOLDERS = ("mntrain", "mnexport", "mnserve", "benchmarks", "docs", "examples", "protos", "tests")
SOURCES = {str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
MOST_README_LINES = 150


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def without_code(text: str) -> str:
    """Text without blocks of code, whose brackets and number signs are no links and headings."""
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Anchors of the headings of a page, as repositories and the site make them."""
    found: set[str] = set()
    seen: Counter[str] = Counter()
    for heading in re.findall(r"^#{1,6} +(.+)$", without_code(page.read_text("utf-8")), flags=re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.add(slug if not seen[slug] else f"{slug}-{seen[slug]}")
        seen[slug] += 1
    return found


def links(page: Path) -> list[str]:
    """Targets of the links and pictures of a page within the repository."""
    text = re.sub(r"`[^`\n]*`", "", without_code(page.read_text("utf-8")))
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]


def test_there_are_pages_to_check() -> None:
    assert len(PAGES) > 20
    assert sum(len(links(page)) for page in PAGES) > 100


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_is_short_enough_to_be_read_at_once(page: Path) -> None:
    assert len(page.read_text("utf-8").split()) <= MOST_WORDS


def test_the_readme_fits_on_a_few_screens() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) < MOST_README_LINES


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_to_a_page_and_heading(page: Path) -> None:
    broken = []
    for link in links(page):
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if not path.is_file() or (anchor and anchor not in anchors(path)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_source_files_that_a_page_names_exist(page: Path) -> None:
    named = {file.lstrip("/") for file in re.findall(r"[\w/]*\w\.py\b", page.read_text("utf-8"))}
    assert sorted(file for file in named if not any(f"/{source}".endswith(f"/{file}") for source in SOURCES)) == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_modules_that_a_page_runs_exist(page: Path) -> None:
    modules = re.findall(r"-m (mn[\w.]+\w)", page.read_text("utf-8"))
    paths = [ROOT / module.replace(".", "/") for module in modules]
    assert [
        str(path) for path in paths if not (path.with_suffix(".py").is_file() or (path / "__main__.py").is_file())
    ] == []


def test_every_page_is_on_the_map_of_the_readme() -> None:
    readme = ROOT / "README.md"
    mapped = {(ROOT / link.partition("#")[0]).resolve() for link in links(readme)}
    assert [name(page) for page in PAGES if page not in mapped | {readme}] == []


def test_the_page_on_configuration_has_every_option_of_the_server() -> None:
    table = (ROOT / "docs/serving/configuration.md").read_text("utf-8").partition("## Options")[2].partition("##")[0]
    groups = (ServeSettings, SecuritySettings, TransportSettings, StoreSettings)
    names = {field.name for group in groups for field in dataclasses.fields(group)}
    options = {f"--{name.replace('_', '-')}" for name in names - {"repository", "security", "transport", "store"}}
    assert not {option for option in options if f"`{option}`" not in table and not option.startswith("--keepalive-")}
    assert "`--keepalive-…`" in table


def test_every_picture_is_shown_and_fetches_nothing() -> None:
    shown = {(page.parent / link).resolve() for page in PAGES for link in links(page)}
    for picture in (ROOT / "docs").rglob("*.svg"):
        assert picture in shown, name(picture)
        fetched = re.findall(r"(?:href|src)=\"(?!#)[^\"]*|@import|url\((?!#)", picture.read_text("utf-8"))
        assert fetched == [], name(picture)


@pytest.mark.parametrize("package", FLOORS)
def test_the_page_on_architecture_has_the_floors_that_imports_are_held_to(package: str) -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    floors = " → ".join(", ".join(floor) for floor in FLOORS[package])
    assert f"| `{package}` | {floors} |" in text
