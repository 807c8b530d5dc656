"""A network in an ONNX file, such as a deployed classifier, cut before its last layer.

Shapes: B images, d features.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mntrain.data.labels import listing
from mntrain.errors import ConfigError, DataError
from mntrain.networks.frozen_network import OnnxBody
from mntrain.networks.hub import nearest_sibling
from mntrain.networks.libraries import onnx_library, runtime_library
from mntrain.networks.onnx_cut import GraphValues, OnnxCut, find_cuts
from mntrain.networks.onnx_input import OnnxInput, find_input, input_rule
from mntrain.networks.onnx_part import leave_other_inputs, needed_inputs, needed_nodes
from mntrain.networks.opened import OpenedNetwork
from mntrain.networks.options import NetworkOptions, Notify
from mntrain.networks.pixels import OFF_TIES
from mntrain.networks.pooling import pool
from mntrain.regular_files import regular

_LAST = 8
_PIECE = 1 << 20


def open_onnx(options: NetworkOptions, notify: Notify) -> OpenedNetwork:
    """Open an ONNX file, and compute the named tensor, or the input of its last linear layer.

    The file itself is never changed: a copy in memory gives the tensor beside its own outputs.

    Raises:
        ConfigError: no such file or tensor, an option that contradicts the file, or a package is missing.
        DataError: the file is damaged, or its input is no batch of images.
    """
    file, onnx = Path(options.source), onnx_library()
    if not file.is_file():
        raise ConfigError(f"{file} is no file.{nearest_sibling(file, folders=False, suffix='.onnx')}")
    if options.pooling not in ("auto", "mean"):
        raise ConfigError(f"--pooling is {options.pooling!r}, but of an ONNX file maps are taken as they are, or mean.")
    try:
        model = onnx.load(str(regular(file)), load_external_data=False)
    except Exception as error:
        raise DataError(f"{file} is no ONNX file that can be read ({type(error).__name__}: {error}).") from error
    if not model.graph.node:
        raise DataError(f"{file} holds no operators, so it is empty or no ONNX file; export or copy it again.")
    graph, where = model.graph, str(file)
    values = GraphValues(graph, file.parent)
    cuts = find_cuts(values, [output.name for output in graph.output])
    if options.output is None and not cuts:
        raise ConfigError(
            f"{where} does not end in a linear layer (Gemm, or MatMul and Add) that gives an output; name the tensor "
            f"of the features with --output. {_last_tensors(graph)}"
        )
    output = options.output or cuts[0].features
    _check_output(graph, values, output, where)
    found = find_input(needed_inputs(graph, needed_nodes(graph, output)), where, options.layout)
    if options.output is None:
        notify(_taken(cuts))
    classifier = next((cut.classifier for cut in cuts if cut.features == output), None)
    sha256 = _digest(file, model)
    width = cuts[0].classifier.features if cuts else None
    run = _session(model, file, found, output, partial(pool, pooling=options.pooling, width=width))
    return OpenedNetwork(
        kind="onnx",
        name=str(file.resolve()),
        sha256=sha256,
        input=input_rule(found, options, where),
        body=OnnxBody(file=file, input=found.name, output=output, run=run),
        output=output,
        settings={"input": found.name, "pooling": options.pooling},
        classifier=classifier,
    )


def _taken(cuts: list[OnnxCut]) -> str:
    """Say which tensor the features are, and which others could be."""
    first = cuts[0]
    told = f"features are the tensor {first.features!r}, the input of the last linear layer"
    if len(cuts) == 1:
        return told
    told += f" of the output {first.answer!r}"
    others = [f"--output {cut.features} for {cut.answer!r}" for cut in cuts if cut.features != first.features]
    if others:
        told += f"; other outputs have one, too: choose {' or '.join(others)}"
    shared = [repr(cut.answer) for cut in cuts[1:] if cut.features == first.features]
    return f"{told}; the layers of {', '.join(shared)} on the same tensor are left out" if shared else told


def _check_output(graph: Any, values: GraphValues, output: str, where: str) -> None:
    if output in values.producers:
        return
    close = get_close_matches(output, list(values.producers), n=1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    raise ConfigError(f"{where} has no tensor {output!r}. {hint}{_last_tensors(graph)}")


def _last_tensors(graph: Any) -> str:
    names = [f"{name} ({node.op_type})" for node in graph.node[-_LAST:] for name in node.output]
    return f"Its last tensors are {listing(names)}."


def _session(model: Any, file: Path, found: OnnxInput, output: str, pooled: Callable[..., torch.Tensor]) -> Any:
    """Start ONNX Runtime on a copy of the graph that gives ``output``; returns input → features [B, d].

    It takes as many threads as PyTorch does (OMP_NUM_THREADS), and none of them waits by spinning.
    """
    onnx, runtime = onnx_library(), runtime_library()
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    leave_other_inputs(copy.graph, output)
    if output not in {value.name for value in copy.graph.output}:
        copy.graph.output.append(onnx.ValueInfoProto(name=output))
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 4  # errors come as exceptions
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(file.parent.resolve()))
    try:
        session = runtime.InferenceSession(copy.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise DataError(f"{file} cannot be run by ONNX Runtime ({reason}).") from error

    def run(inputs: NDArray[Any]) -> NDArray[Any]:
        pixels = np.rint(inputs + np.float32(OFF_TIES)).clip(0, 255) if found.dtype == "uint8" else inputs
        try:
            (features,) = session.run([output], {found.name: pixels.astype(found.dtype, copy=False)})
        except Exception as error:
            reason = " ".join(str(error).split())[:300]
            raise DataError(
                f"{file} cannot compute {output!r} of images {list(inputs.shape)} ({reason}); check --layout and "
                "--data.image_size."
            ) from error
        size = inputs.shape[2:] if found.layout == "NCHW" else inputs.shape[1:3]
        vectors: NDArray[Any] = pooled(torch.from_numpy(np.asarray(features, np.float32)), size=size).numpy()
        return vectors

    return run


def _digest(file: Path, model: Any) -> str:
    """Compute the digest of the file, and of the files beside it that hold its weights."""
    names = {
        entry.value for tensor in model.graph.initializer for entry in tensor.external_data if entry.key == "location"
    }
    digest = hashlib.sha256()
    for part in (file, *(file.parent / name for name in sorted(names))):
        try:
            with regular(part).open("rb") as stream:
                while piece := stream.read(_PIECE):
                    digest.update(piece)
        except OSError as error:
            raise DataError(f"{part}, which {file} needs, cannot be read ({error.strerror or error}).") from error
    return digest.hexdigest()
