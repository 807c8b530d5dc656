"""Files of the page: what is bundled is what was published, and nothing in them asks for anything elsewhere."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import mnserve.console

PAGE = Path(mnserve.console.__file__).parent / "page"
BUNDLED = {
    # npm's echarts 6.1.0, dist/echarts.common.min.js; zrender 6.1.0 is inside
    "echarts-6.1.0.common.min.js": "61f13280aba3161f77fc801bf5f9c786f55f10432153a0683fc5cc0700b013d5",
}
OWN = [file for file in PAGE.iterdir() if file.suffix in (".js", ".css", ".html", ".svg")]


def test_the_chart_library_is_the_published_one_with_its_licenses() -> None:
    scripts = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (PAGE / "vendor").glob("*.js")}
    assert scripts == BUNDLED
    licenses = {file.name for file in (PAGE / "vendor").glob("*.txt")}
    assert licenses == {"echarts-LICENSE.txt", "echarts-LICENSE-d3.txt", "echarts-NOTICE.txt", "zrender-LICENSE.txt"}


def test_the_page_names_every_script_and_style_and_no_other() -> None:
    index = (PAGE / "index.html").read_text(encoding="utf-8")
    named = set(re.findall(r'(?:src|href)="([^"#]+)"', index))
    assert all((PAGE / name).is_file() for name in named)
    imported = {name for file in OWN for name in re.findall(r'from "\./([^"]+)"|import "\./([^"]+)"', file.read_text())}
    modules = {"main.js", *(first or second for first, second in imported)}
    assert {file.name for file in OWN if file.suffix == ".js"} == modules


def test_nothing_is_written_as_markup_or_fetched_from_elsewhere() -> None:
    for file in OWN:
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        found = re.findall(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|https?://|\beval\b|new Function", text
        )
        assert found == [], file.name
        assert not re.search(r"\b(localStorage|sessionStorage|document\.cookie)\b", text), file.name
        assert file.suffix != ".html" or not re.search(r"\s(?:style|on\w+)=", text), file.name


def test_no_script_is_longer_than_one_can_read() -> None:
    lengths = {file.name: len(file.read_text().splitlines()) for file in OWN}
    assert max(lengths.values()) < 250, lengths
