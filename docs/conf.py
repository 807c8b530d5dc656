"""Sphinx configuration of the documentation site; `make docs` builds it.

The source folder is the repository, so that links between the README, these pages and source files are the same on the
site as in the repository.
"""

from typing import Final

from sphinx.application import Sphinx

project = "mn-runtime"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs/**"]
exclude_patterns = [".*", "build", "runs", "dist", "benchmarks", "deploy", "examples", "mn*", "protos", "tests"]

myst_heading_anchors = 4
# An input may be written as `key: "value"` in a block that names no language; guesses would be wrong colors.
highlight_language = "none"

html_theme = "furo"
html_title = "mn-runtime"
html_copy_source = False
html_show_copyright = False
html_additional_pages = {"index": "redirect.html"}
html_static_path = ["static"]
html_css_files = ["site.css"]
templates_path = ["templates"]

_TREE: Final = {
    "Start": ("docs/quickstart", "docs/architecture", "docs/api", "docs/hub"),
    "Train": (
        "docs/models",
        "docs/choosing-a-head",
        "docs/similarity",
        "docs/training",
        "docs/training-habits",
        "docs/data",
        "docs/seeing-data",
        "docs/tables",
        "docs/evaluating",
        "docs/few-shot",
        "docs/long-tails",
        "docs/features",
        "docs/heads",
        "docs/alpha-net",
        "docs/comparing-and-reports",
        "docs/regression",
    ),
    "Export": (
        "docs/export/getting-started",
        "docs/export/static-forms",
        "docs/export/graft",
        "docs/export/repository",
    ),
    "Serve": (
        "docs/serving/getting-started",
        "docs/serving/configuration",
        "docs/serving/config-pbtxt",
        "docs/serving/batching",
        "docs/serving/protocol",
        "docs/serving/rest",
        "docs/serving/clients",
        "docs/serving/security",
        "docs/serving/model-control",
        "docs/serving/object-storage",
        "docs/serving/console",
        "docs/serving/operations",
        "docs/serving/processes",
        "docs/serving/ray",
        "docs/serving/tuning",
        "docs/serving/beyond-one-machine",
        "docs/serving/kubernetes",
        "docs/predicting",
    ),
    "Benchmarks": (
        "docs/benchmarks/measuring",
        "docs/benchmarks/accuracy",
        "docs/benchmarks/acting",
        "docs/benchmarks/both-starts",
        "docs/benchmarks/adaptation",
        "docs/benchmarks/parity",
        "docs/benchmarks/serving",
        "docs/benchmarks/capacity",
        "docs/benchmarks/robustness",
        "docs/benchmarks/similarity",
        "docs/benchmarks/few-shot",
        "docs/benchmarks/heads",
        "docs/benchmarks/adaptive-heads",
    ),
    "Project": (
        "docs/decisions/structure",
        "docs/decisions/mntrain",
        "docs/decisions/mntrain-training",
        "docs/decisions/acting",
        "docs/decisions/data",
        "docs/decisions/heads",
        "docs/decisions/mnexport",
        "docs/decisions/mnserve",
        "docs/decisions/mnserve-calls",
        "docs/decisions/http",
        "docs/decisions/console",
        "docs/decisions/tools-and-tests",
        "docs/decisions/beyond",
        "docs/decisions/deploying",
        "CONTRIBUTING",
        "SECURITY",
        "CHANGELOG",
    ),
}
"""Pages of the side bar by section; a page that is in none is a warning, and so an error."""


def _add_side_bar(_app: Sphinx, name: str, source: list[str]) -> None:
    """Append the pages to the front page, which the repository shows without them."""
    if name == root_doc:
        trees = (
            "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", *(f"/{page}" for page in pages), "```"])
            for caption, pages in _TREE.items()
        )
        source[0] = "\n\n".join([source[0], *trees])


def setup(app: Sphinx) -> None:
    """Join the build."""
    app.add_config_value("side_bar", _TREE, "env")  # another side bar has the front page read again
    app.connect("source-read", _add_side_bar)
