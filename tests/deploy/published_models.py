"""KServe's published models of its objects, as data: the names and types of their fields.

They are read from the files of the package `kserve`, which is installed without what it needs to run: it would bring
older versions of packages than those of this project. Parts that are Kubernetes' own are held against its schemas.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import jsonschema
from kubernetes_validate import utils
from referencing import Registry, Resource

_SCHEMAS = "kubernetes-json-schema/v1.37.0-local-strict"
_PLAIN: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "float": (int, float),
    "object": (object,),
    "ResourceQuantity": (str, int),
    "V1beta1MetricQuantity": (str, int),
}


def models_folder() -> Path | None:
    """The folder of the models; None where the package is not installed."""
    try:
        return Path(str(distribution("kserve").locate_file("kserve/models")))
    except PackageNotFoundError:
        return None


@cache
def _fields(kind: str) -> dict[str, str] | None:
    """Key in a manifest -> type, of one of KServe's models; None for a model of Kubernetes."""
    folder = models_folder()
    assert folder is not None
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()
    file = next((item for item in folder.glob("*.py") if item.stem.replace("_", "") == snake.replace("_", "")), None)
    if file is None:
        return None
    tables: dict[str, dict[str, str]] = {}
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Dict):
            tables[node.targets[0].id] = ast.literal_eval(node.value)
    return {tables["attribute_map"][name]: type_ for name, type_ in tables["openapi_types"].items()}


def faults(value: Any, kind: str, place: str = "") -> Iterator[str]:
    """Tells where a value is not what a model allows.

    Args:
        value: the object, or a part of it.
        kind: name of the model.
        place: path of the part, for the sentences.
    """
    if kind in _PLAIN:
        if not isinstance(value, _PLAIN[kind]) or (kind == "int" and isinstance(value, bool)):
            yield f"{place} is {value!r}, no {kind}"
    elif kind.startswith("list["):
        if not isinstance(value, list):
            yield f"{place} is no list"
            return
        for index, item in enumerate(value):
            yield from faults(item, kind[5:-1], f"{place}[{index}]")
    elif kind.startswith("dict("):
        for key, item in value.items():
            yield from faults(item, kind[5:-1].partition(", ")[2], f"{place}.{key}")
    elif (fields := _fields(kind)) is not None:
        for key, item in value.items():
            if key in fields:
                yield from faults(item, fields[key], f"{place}.{key}")
            else:
                yield f"{place} has {key}, which {kind} has not"
    else:
        yield from _faults_of_kubernetes(value, kind, place)


def _faults_of_kubernetes(value: Any, kind: str, place: str) -> Iterator[str]:
    definitions = utils.schema_contents(f"{_SCHEMAS}/_definitions.json", "1.37")
    if grouped := re.fullmatch(r"K8sIoApi([A-Z][a-z]+)(V[0-9a-z]+)([A-Z]\w+)", kind):
        name = f"io.k8s.api.{grouped[1].lower()}.{grouped[2].lower()}.{grouped[3]}"
    else:
        (name,) = (key for key in definitions["$defs"] if key.endswith(f".{kind.removeprefix('V1')}") and ".v1." in key)
    schema = {"$ref": f"{definitions['$id']}#/$defs/{name}"}
    registry: Registry[Any] = Resource.from_contents(definitions) @ Registry()
    for error in jsonschema.Draft202012Validator(schema, registry=registry).iter_errors(value):
        yield f"{place}{error.json_path.removeprefix('$')}: {error.message}"
