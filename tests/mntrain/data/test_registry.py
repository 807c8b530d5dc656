"""The registry and the modules of the sources name each other."""

import pkgutil

from mntrain.data import sources
from mntrain.data.registry import SOURCES


def test_every_source_has_a_module_and_every_module_a_source() -> None:
    modules = {module.name for module in pkgutil.iter_modules(sources.__path__)}
    assert modules == {name.replace("-", "_") for name in SOURCES}
    for name in modules:
        assert callable(pkgutil.resolve_name(f"mntrain.data.sources.{name}:load"))
