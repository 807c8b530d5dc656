"""Engines built ahead of time: TensorRT for RTX builds the export of every form and family."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from mnexport.commands.cli import main
from mnexport.commands.settings import ExportCommand
from mnexport.errors import TensorRTError, UsageError
from mnexport.forms.plan import FORMS
from mnexport.options import ExportOptions
from mnexport.pipeline import export
from mnexport.report import ExportReport
from mnexport.repository.target import Target
from mnexport.signature import ExportSignature, RowInterface, image_signature, table_signature
from mnexport.tensorrt import CAPABILITIES, USUAL_CAPABILITIES, BatchProfile, TensorRTOptions, build_engine
from mntrain.artifact_config import InputSpec
from mntrain.models.families import FAMILIES

needs_rtx = pytest.mark.skipif(
    importlib.util.find_spec("tensorrt_rtx") is None, reason="TensorRT for RTX is not installed (extra tensorrt-rtx)"
)
RTX = TensorRTOptions(format="tensorrt-rtx", capabilities=("8.9",))
# Warning of TensorRT about an output of integers, whose binding on the client's side has to be one, too.
EXPLAINED = "Int64 binding"


def image_of_one_channel() -> ExportSignature:
    return image_signature(InputSpec(channels=1, height=4, width=4), tuple("abc"))


def built(runs: Path, repository: Path, family: str, form: str, explain: int = 0) -> ExportReport:
    target = Target(repository=repository, name="m")
    options = ExportOptions(artifact=runs / family / "artifact", target=target, form=form, explain=explain, engine=RTX)
    return export(options)


class FakeTensorRT(ModuleType):
    """Builder that records its calls."""

    def __init__(self) -> None:
        super().__init__("tensorrt_rtx")
        self.__version__ = "0"
        self.said: dict[str, Any] = {}
        self.ILogger = type("ILogger", (), {"WARNING": 1, "ERROR": 2, "INTERNAL_ERROR": 3})
        self.NetworkDefinitionCreationFlag = SimpleNamespace(STRONGLY_TYPED=5)
        self.ComputeCapability = SimpleNamespace(**{f"SM{item.replace('.', '')}": item for item in CAPABILITIES})

    def Builder(self, log: Any) -> Any:
        said = self.said

        class Config:
            num_compute_capabilities = 0

            def set_compute_capability(self, capability: str, place: int) -> None:
                assert place < self.num_compute_capabilities
                said.setdefault("capabilities", {})[place] = capability

            def add_optimization_profile(self, profile: Any) -> None:
                said["profiles"] = said.get("profiles", 0) + 1

        def create_network(flags: int = 0) -> None:
            said["flags"] = flags

        def serialized(network: Any, config: Config) -> bytes:
            said["built for"] = config.num_compute_capabilities
            return b"engine"

        profile = SimpleNamespace(set_shape=lambda name, *shapes: said.update(shapes={name: shapes}))
        return SimpleNamespace(
            create_network=create_network,
            create_builder_config=Config,
            create_optimization_profile=lambda: profile,
            build_serialized_network=serialized,
        )

    def OnnxParser(self, network: Any, log: Any) -> Any:
        return SimpleNamespace(parse=lambda content: content == b"graph")


@pytest.mark.parametrize("capabilities", [("8.6",), USUAL_CAPABILITIES, ("12.0", "7.5")])
def test_the_builder_is_asked_for_every_capability_and_the_types_of_the_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capabilities: tuple[str, ...]
) -> None:
    fake = FakeTensorRT()
    monkeypatch.setitem(sys.modules, "tensorrt_rtx", fake)
    (tmp_path / "m.onnx").write_bytes(b"graph")
    wanted = TensorRTOptions(
        format="tensorrt-rtx", capabilities=capabilities, profile=BatchProfile(minimum=1, optimum=4, maximum=9)
    )
    report = build_engine(tmp_path / "m.onnx", image_of_one_channel(), wanted, tmp_path / "m.rtx")
    assert fake.said == {
        "flags": 1 << fake.NetworkDefinitionCreationFlag.STRONGLY_TYPED,
        "capabilities": dict(enumerate(capabilities)),
        "built for": len(capabilities),
        "profiles": 1,
        "shapes": {"image": ((1, 1, 4, 4), (4, 1, 4, 4), (9, 1, 4, 4))},
    }
    assert (tmp_path / "m.rtx").read_bytes() == b"engine"
    assert report.capabilities == capabilities


@needs_rtx
@pytest.mark.parametrize(
    ("family", "form"),
    [
        *((family, "auto") for family in sorted(FAMILIES)),
        *(("meta_neighborhoods", form) for form in FORMS if form != "auto"),
    ],
)
def test_an_engine_is_built_from_every_form_of_every_family(
    runs: Path, repository: Path, family: str, form: str
) -> None:
    report = built(runs, repository, family, form)
    assert report.engine is not None
    assert report.engine.warnings == ()
    file = report.path.with_name("model.rtx")
    assert file.stat().st_size == report.engine.size > 10_000
    record = json.loads(report.path.with_name("export.json").read_text())
    assert record["engine"]["profile"] == {"minimum": 1, "optimum": 8, "maximum": 64}
    assert "model.rtx" in record["sha256"]


@needs_rtx
def test_integers_are_the_only_warning_of_an_explained_model(runs: Path, repository: Path) -> None:
    report = built(runs, repository, "meta_neighborhoods", "auto", explain=3)
    assert report.engine is not None
    assert len(report.engine.warnings) == 2
    assert all(EXPLAINED in warning for warning in report.engine.warnings)


@needs_rtx
def test_a_graph_that_tensorrt_cannot_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"no graph")
    with pytest.raises(TensorRTError, match="cannot read the exported graph"):
        build_engine(tmp_path / "m.onnx", image_of_one_channel(), RTX, tmp_path / "m.rtx")
    assert not (tmp_path / "m.rtx").exists()


@pytest.mark.skipif(importlib.util.find_spec("tensorrt") is not None, reason="standard TensorRT is installed here")
def test_an_engine_whose_builder_is_not_installed_is_refused_before_any_work(
    runs: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(runs / "vanilla" / "artifact"), str(repository / "m"), "--format", "tensorrt"]
    assert main(words) == 1
    err = capsys.readouterr().err
    assert "pip install '.[tensorrt]'" in err
    assert "reading" not in err
    assert list(repository.iterdir()) == []


@pytest.mark.parametrize("sizes", [(0, 1, 2), (2, 1, 3), (1, 3, 2), (-1, -1, -1)])
def test_batch_sizes_out_of_order_are_refused(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(UsageError, match="smallest, usual and largest"):
        BatchProfile(minimum=sizes[0], optimum=sizes[1], maximum=sizes[2])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--batch-profile", "1,2,3"], "--batch-profile is of an engine"),
        (["--compute-capability", "8.9"], "--compute-capability is of an engine"),
        (["--format", "tensorrt-rtx", "--batch-profile", "8,1"], "three whole numbers"),
        (["--format", "tensorrt-rtx", "--batch-profile", "8,1,64"], "smallest, usual and largest"),
        (["--format", "tensorrt-rtx", "--batch-profile", "1,8,32"], "raise one or lower the other"),
        (["--format", "tensorrt-rtx", "--batch-profile", "8,16,64"], "begin it at 1"),
        (["--format", "tensorrt-rtx", "--compute-capability", "9.0"], "choose from 7.5"),
        (["--format", "tensorrt-rtx", "--compute-capability", "8.9,8.6, 8.9"], "name each of them once"),
        (["--format", "tensorrt", "--compute-capability", "8.9"], "builds for the GPU of this machine"),
    ],
)
def test_impossible_options_of_an_engine_are_refused(
    runs: Path, repository: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert main([str(runs / "vanilla" / "artifact"), str(repository / "m"), *words]) == 2
    assert told in capsys.readouterr().err
    assert list(repository.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "capabilities"), [(None, USUAL_CAPABILITIES), ("8.9", ("8.9",)), ("8.6, 12.0", ("8.6", "12.0"))]
)
def test_every_compute_capability_that_is_asked_for_is_built_for(
    words: str | None, capabilities: tuple[str, ...]
) -> None:
    command = ExportCommand(
        artifact=Path("artifact"), target=Path("repository/m"), format="tensorrt-rtx", compute_capability=words
    )
    engine = command.export_options().engine
    assert engine is not None
    assert engine.capabilities == capabilities


def test_triton_is_told_to_run_the_engine_of_standard_tensorrt() -> None:
    from mnexport.repository.model_card import ModelCard

    signature = table_signature(RowInterface(columns=("a", "b"), targets=("y",)))
    card = ModelCard(signature=signature, max_batch_size=4, family="vanilla", form="vanilla", engine="tensorrt")
    text = card.config_pbtxt("m")
    assert 'platform: "tensorrt_plan"' in text
    assert 'default_model_filename: "model.plan"' in text
