"""Small networks: an ONNX classifier of PyTorch's making, and folders of `transformers`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray


@pytest.fixture(scope="session")
def images() -> NDArray[np.uint8]:
    """Five colour images, uint8 [5, 3, 16, 16]."""
    return np.random.default_rng(0).integers(0, 256, (5, 3, 16, 16), dtype=np.uint8)


@pytest.fixture
def write_classifier(tmp_path: Path) -> Callable[..., Path]:
    """Writes an ONNX classifier that averages places, adds a line of features, and tells classes apart.

    ``write_classifier(tail="gemm")``: features ``pooled`` are the channel means of the input, [B, 3].
    """
    from onnx import TensorProto, helper, numpy_helper, save

    weight = np.arange(12, dtype=np.float32).reshape(4, 3) / 10
    bias = np.array([1, -1, 2, 0.5], np.float32)

    def write(
        *,
        tail: str = "gemm",
        dims: tuple[Any, ...] = ("batch", 3, 16, 16),
        kind: int = TensorProto.FLOAT,
        keepdims: int = 0,
    ) -> Path:
        source = "image"
        nodes = []
        if kind != TensorProto.FLOAT:
            nodes.append(helper.make_node("Cast", ["image"], ["pixels"], to=TensorProto.FLOAT))
            source = "pixels"
        axes = np.array([1, 2] if dims[-1] == 3 else [2, 3], np.int64)
        nodes.append(helper.make_node("ReduceMean", [source, "axes"], ["pooled"], keepdims=keepdims))
        tails = {
            "gemm": [helper.make_node("Gemm", ["pooled", "w", "b"], ["logits"], transB=1)],
            "matmul": [
                helper.make_node("MatMul", ["pooled", "wt"], ["product"]),
                helper.make_node("Add", ["b", "product"], ["sum"]),
                helper.make_node("Softmax", ["sum"], ["logits"], axis=1),
            ],
            "relu": [helper.make_node("Relu", ["pooled"], ["logits"])],
        }
        inputs = [helper.make_tensor_value_info("image", kind, dims)]
        graph = helper.make_graph(
            nodes + tails[tail],
            "classifier",
            inputs,
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, None)],
            [
                numpy_helper.from_array(array, name)
                for name, array in (("axes", axes), ("w", weight), ("wt", weight.T.copy()), ("b", bias))
            ],
        )
        file = tmp_path / "classifier.onnx"
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), file)
        return file

    return write


_TINY = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 8,
}


@pytest.fixture(scope="session")
def hf_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folders of `transformers` with random weights: ``hf_folder("resnet")``, dinov2, clip, dinov2-classifier."""
    transformers = pytest.importorskip("transformers")
    root = tmp_path_factory.mktemp("hf")
    transformers.logging.disable_progress_bar()

    def build(kind: str) -> Any:
        if kind == "resnet":
            config = transformers.ResNetConfig(
                hidden_sizes=[8, 12], depths=[1, 1], embedding_size=8, id2label={0: "cat", 1: "dog", 2: "owl"}
            )
            return transformers.AutoModelForImageClassification.from_config(config)
        if kind == "dinov2-classifier":
            return transformers.AutoModelForImageClassification.from_config(transformers.Dinov2Config(**_TINY))
        if kind == "vit":  # its pooled output comes without weights
            return transformers.AutoModel.from_config(transformers.ViTConfig(**_TINY), add_pooling_layer=False)
        if kind == "clip":
            text = {name: _TINY[name] for name in list(_TINY)[:4]} | {"vocab_size": 64}
            tokens = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
            config = transformers.CLIPConfig(vision_config=_TINY, text_config=text | tokens)
            return transformers.AutoModel.from_config(config)
        return transformers.AutoModel.from_config(transformers.Dinov2Config(**_TINY))

    def make(kind: str) -> Path:
        folder = root / kind
        if not folder.exists():
            build(kind).eval().save_pretrained(folder)
            processor = {"size": {"shortest_edge": 18}, "crop_size": 16, "do_center_crop": True}
            scale = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.25, 0.5]}
            (folder / "preprocessor_config.json").write_text(json.dumps(processor | scale))
        return folder

    return make
