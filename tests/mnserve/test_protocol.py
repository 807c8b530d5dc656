"""Our copy of the protocol is the one that others speak, and does not get in their way."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mnserve.protocol import model_config_pb2, service_pb2

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    """The script protos/generate.py as a module."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "protos" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _choice(field: Any) -> str | None:
    """The name of the choice that a field belongs to; presence of a single field is none, and encoded as none."""
    choice = field.containing_oneof
    return None if choice is None or choice.name == f"_{field.name}" else str(choice.name)


def describe_message(message: Any) -> dict[str, Any]:
    """Collect the properties of a message type that decide its wire and text formats."""
    fields = {
        field.name: (
            field.number,
            field.type,
            field.is_repeated,
            _choice(field),
            field.message_type.full_name if field.message_type else None,
            field.enum_type.full_name if field.enum_type else None,
        )
        for field in message.fields
    }
    enums = {enum.name: {value.name: value.number for value in enum.values} for enum in message.enum_types}
    return {
        "fields": fields,
        "enums": enums,
        "map": message.GetOptions().map_entry,
        "nested": {nested.name: describe_message(nested) for nested in message.nested_types},
    }


def describe_file(module: Any) -> dict[str, Any]:
    file = module.DESCRIPTOR
    return {
        "package": file.package,
        "enums": {
            name: {value.name: value.number for value in enum.values} for name, enum in file.enum_types_by_name.items()
        },
        "messages": {name: describe_message(message) for name, message in file.message_types_by_name.items()},
        "services": {
            name: {
                method.name: (
                    method.input_type.full_name,
                    method.output_type.full_name,
                    method.client_streaming,
                    method.server_streaming,
                )
                for method in service.methods
            }
            for name, service in file.services_by_name.items()
        },
    }


@pytest.mark.parametrize("name", ["service_pb2", "model_config_pb2"])
def test_descriptors_equal_those_of_tritonclient(name: str) -> None:
    theirs = importlib.import_module(f"tritonclient.grpc.{name}")
    ours = {"service_pb2": service_pb2, "model_config_pb2": model_config_pb2}[name]
    assert describe_file(ours) == describe_file(theirs)


def test_all_20_calls_are_declared() -> None:
    assert len(service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods) == 20


@pytest.mark.parametrize(
    "order",
    ["mnserve.protocol.service_pb2_grpc, tritonclient.grpc", "tritonclient.grpc, mnserve.protocol.service_pb2_grpc"],
)
def test_mnserve_and_tritonclient_import_in_any_order(order: str) -> None:
    run = subprocess.run([sys.executable, "-c", f"import {order}"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_generated_code_is_up_to_date(generate: ModuleType) -> None:
    assert generate.main(["--check"]) == 0


def test_drift_of_generated_code_is_reported(
    generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = tmp_path / "inference"
    shutil.copytree(ROOT / "protos" / "inference", sources)
    service = sources / "service.proto"
    service.write_text(service.read_text().replace("bool live = 1;", "bool live = 2;"))
    expected = generate.generate(sources)
    assert generate.drift(expected) == ["service_pb2.py"]

    target = tmp_path / "protocol"
    shutil.copytree(ROOT / "mnserve" / "protocol", target)
    (target / "model_config_pb2.pyi").unlink()
    (target / "old_pb2.py").write_text("")
    monkeypatch.setattr(generate, "TARGET", target)
    assert generate.drift(generate.generate(), target) == ["model_config_pb2.pyi", "old_pb2.py"]
    monkeypatch.setattr(generate, "drift", lambda expected: ["service_pb2.py"])
    assert generate.main(["--check"]) == 1
    assert "python protos/generate.py" in capsys.readouterr().err
