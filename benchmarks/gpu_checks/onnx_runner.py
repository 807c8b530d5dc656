"""Run exported models in ONNX Runtime, through the engine that mnserve serves with."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from gpu_checks.budget import Budget
from gpu_checks.forms import Forms, lowered
from gpu_checks.models import CheckedModel
from gpu_checks.parity import Answers, Run
from mnexport.graph import write_onnx
from mnexport.signature import ExportSignature, ExportTensor
from mnserve.engines.base import Engine, EngineOptions
from mnserve.engines.onnxruntime import OnnxRuntimeEngine
from mnserve.engines.providers import CUDA, ProviderOption
from mnserve.errors import EngineLoadError

CPU, TENSORRT = "CPUExecutionProvider", "TensorrtExecutionProvider"
_OPSET = 20
_LARGEST = 256
_TENSORRT_SECONDS = 60.0  # estimated time to build an engine


class OnnxRunner:
    """Exports to ``folder`` and runs the files.

    Args:
        folder: for the files.
        device: cuda or cpu.
        sizes: batch sizes to capture on a GPU.
        providers: execution providers of this build.
    """

    label = "ONNX Runtime"

    def __init__(self, folder: Path, device: str, sizes: Sequence[int], providers: Sequence[str]) -> None:
        self._folder, self._device, self._sizes = folder, device, tuple(sizes)
        self._providers = providers

    @property
    def mode(self) -> str:
        """Description of the way in which batches run."""
        return "CUDA graphs on bound buffers" if self._device == "cuda" else "plain calls, CPU provider"

    def reference(self, checked: CheckedModel, forms: Forms) -> Answers:
        """Compute the answers of the CPU provider in float32, all samples in one batch."""
        engine = OnnxRuntimeEngine(self._exported(checked, forms, "float32")[0], EngineOptions())
        try:
            return _run(engine, checked.outputs, checked.samples)
        finally:
            engine.close()

    @contextmanager
    def pair(self, checked: CheckedModel, forms: Forms, dtype: str, *, tf32: bool) -> Iterator[tuple[Run, Run]]:
        """Open the adaptive and the vanilla model."""
        with ExitStack() as stack:
            adaptive, vanilla = (
                partial(_run, stack.enter_context(closing(self._open(path, graphs=True, tf32=tf32))), checked.outputs)
                for path in self._exported(checked, forms, dtype)
            )
            yield adaptive, vanilla

    @contextmanager
    def further(self, checked: CheckedModel, forms: Forms, dtype: str, budget: Budget) -> Iterator[dict[str, Run]]:
        """Open the adaptive model in other engines, for parity alone: CUDA without graphs, TensorRT."""
        path, engines = self._exported(checked, forms, dtype)[0], {}
        with ExitStack() as stack:
            if self._device == "cuda":
                engines["CUDA without graphs"] = self._open(path, graphs=False, tf32=False)
                stack.callback(engines["CUDA without graphs"].close)
                with_tensorrt = self._tensorrt(path, checked, budget, f"TensorRT parity, {checked.name}, {dtype}")
                if with_tensorrt is not None:
                    engines["TensorRT"] = stack.enter_context(closing(with_tensorrt))
            yield {name: partial(_run, engine, checked.outputs) for name, engine in engines.items()}

    def _tensorrt(self, path: Path, checked: CheckedModel, budget: Budget, what: str) -> Engine | None:
        if TENSORRT not in self._providers:
            budget.skip(what, "this build of ONNX Runtime has no TensorRT provider")
        elif os.environ.get("NVIDIA_TF32_OVERRIDE") != "0":
            budget.skip(what, "TensorRT cannot be told to leave TF32 out of one engine alone; leave --tf32 out")
        elif budget.allows(what, _TENSORRT_SECONDS):
            try:
                return OnnxRuntimeEngine(path, _tensorrt_options(checked, self._folder))
            except EngineLoadError as error:
                budget.skip(what, str(error))
        return None

    def _open(self, path: Path, *, graphs: bool, tf32: bool) -> Engine:
        if self._device == "cpu":
            return OnnxRuntimeEngine(path, EngineOptions())
        sizes = self._sizes if graphs else ()
        option = ProviderOption(provider=CUDA, key="use_tf32", value=str(int(tf32)))
        options = EngineOptions(providers=(CUDA, CPU), provider_options=(option,), cuda_graph_batches=sizes)
        engine = OnnxRuntimeEngine(path, options)
        if engine.graph_batches != sizes:
            engine.close()
            raise EngineLoadError(f"{path.name} runs without CUDA graphs; the warning above says why")
        return engine

    def _exported(self, checked: CheckedModel, forms: Forms, dtype: str) -> list[Path]:
        """Return the files of the adaptive and the vanilla form; they are written once."""
        paths = [self._folder / f"{checked.name}-{kind}-{dtype}.onnx" for kind in ("adaptive", "vanilla")]
        if not all(path.exists() for path in paths):
            forms_in_dtype = lowered(forms, dtype)
            for path, module in zip(paths, (forms_in_dtype.adaptive, forms_in_dtype.vanilla), strict=True):
                write_onnx(module, _signature(checked), _OPSET, {}, path)
        return paths


def cuda_fault(folder: Path) -> str:
    """Return the reason why the CUDA provider does not start on this machine; empty if it does."""
    import onnx
    from onnx import TensorProto, helper

    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "probe", infos[:1], infos[1:])
    opsets = [helper.make_opsetid("", _OPSET)]
    path = folder / "probe.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), str(path))
    try:
        engine = OnnxRuntimeEngine(path, EngineOptions(providers=(CUDA, CPU)))
        engine.run({"x": np.ones((1, 2), np.float32)}, ["y"])
    except Exception as error:  # noqa: BLE001 (any error makes it unusable)
        return str(error)
    engine.close()
    return ""


def _run(engine: Engine, outputs: Sequence[str], inputs: np.ndarray) -> Answers:
    (spec,) = engine.inputs
    return dict(zip(outputs, engine.run({spec.name: inputs}, outputs), strict=True))


def _signature(checked: CheckedModel) -> ExportSignature:
    image = checked.samples.dtype == np.uint8
    width = checked.samples.shape[1:]
    return ExportSignature(
        inputs=(ExportTensor(name="image" if image else "row", datatype="UINT8" if image else "FP32", shape=width),),
        input_type="uint8" if image else "float32",
        outputs=tuple(ExportTensor(name=name, datatype="FP32", shape=(1,)) for name in checked.outputs),
        labels=None,
        description={},
    )


def _tensorrt_options(checked: CheckedModel, cache: Path) -> EngineOptions:
    """Make options for a single engine for all batch sizes of the parity check."""
    name = "image" if checked.samples.dtype == np.uint8 else "row"
    sizes = "x".join(map(str, checked.samples.shape[1:]))
    batches = {"min": 1, "opt": 32, "max": _LARGEST}
    profile = {f"trt_profile_{kind}_shapes": f"{name}:{batch}x{sizes}" for kind, batch in batches.items()}
    options = [ProviderOption(provider=TENSORRT, key=key, value=value) for key, value in profile.items()]
    # A cache of its own, since engines elsewhere may have been built with TF32.
    caches = ("trt_engine_cache_path", "trt_timing_cache_path")
    options += [ProviderOption(provider=TENSORRT, key=key, value=str(cache / "tensorrt")) for key in caches]
    options.append(ProviderOption(provider=CUDA, key="use_tf32", value="0"))
    return EngineOptions(providers=(TENSORRT, CUDA, CPU), provider_options=tuple(options))
