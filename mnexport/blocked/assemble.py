"""Assembly of a graph whose backbone with iFiLM is in ONNX Runtime's blocked layout, for any number of images.

images ─ If(this processor has the layout) ─ yes: eight at a time, the rest one by one ─ features ─ what adapts
                                           └ no:  the backbone as it was ──────────────┘
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, helper, numpy_helper

from mnexport.blocked.backbone_rewriter import BlockedBackbone
from mnexport.blocked.cut import Backbone, find_backbone, split_nodes
from mnexport.blocked.guard import guard
from mnexport.blocked.index import GraphIndex, with_names
from mnexport.blocked.layout import DOMAIN, block_size
from mnexport.blocked.patterns import affine_maps

Array = npt.NDArray[Any]

ROWS = 8
"""Images in one pass; more gain little, and the images left over are computed one by one."""
# Maps that leave or enter the layout, for each affine map; with more of them little is gained.
_MAX_REORDERED = 0.25
# The backbone's weights are in the file four times; above this size it would get near the 2 GB of protobuf.
_MAX_SOURCE_BYTES = 256 * 2**20
_FLOAT = onnx.TensorProto.FLOAT


@dataclass(frozen=True, kw_only=True)
class BlockedReport:
    """Result of the rewriting.

    Args:
        block: channels side by side in memory.
        maps: affine maps that stay in the layout.
    """

    block: int
    maps: int


def write_blocked(source: Path, target: Path) -> BlockedReport | None:
    """Write a file whose backbone stays in the blocked layout of this machine's processor.

    On a processor with another block the file computes what ``source`` computes.

    Args:
        source: an ONNX file with float32 weights.
        target: the file to write; may be ``source``.

    Returns:
        A report. None, with nothing written, where there is no iFiLM, its maps would leave the layout all the
        same, the file is larger than 256 MiB, a name in it has a colon, or ONNX Runtime has no such layout here.
    """
    if source.stat().st_size > _MAX_SOURCE_BYTES:
        return None
    block = block_size()
    model = onnx.load(str(source))
    index = GraphIndex(model)
    if any(":" in name for name in index.names):  # like the names that are made here
        return None
    affine = affine_maps(index)
    backbone = find_backbone(index, affine) if affine else None
    if block is None or backbone is None:
        return None
    bodies = [BlockedBackbone(backbone, rows, block, f"rows{rows}") for rows in (ROWS, 1)]
    if any(body.reordered > _MAX_REORDERED * len(affine) for body in bodies):
        return None
    _rewrite(model, backbone, bodies, block)
    onnx.save(model, str(target))
    return BlockedReport(block=block, maps=len(affine))


def _rewrite(model: onnx.ModelProto, backbone: Backbone, bodies: list[BlockedBackbone], block: int) -> None:
    graph = model.graph
    guard_nodes, constants, answer = guard(block)
    before, behind = split_nodes(backbone.index, backbone)
    constants["blocked:1"] = np.array([1], np.int64)
    chosen = [
        helper.make_node("Shape", [backbone.images], ["blocked:count"], start=0, end=1),
        helper.make_node("Equal", ["blocked:count", "blocked:1"], ["blocked:one"]),
        helper.make_node("And", ["blocked:one", answer], ["blocked:alone"]),
        helper.make_node("Not", ["blocked:alone"], ["blocked:several"]),
        # In this order: the branch that ONNX Runtime lays out last runs a little faster, and one image is the rule.
        helper.make_node(
            "If",
            ["blocked:several"],
            [backbone.features],
            then_branch=_not_alone(backbone, bodies, answer),
            else_branch=_alone(backbone, block),
        ),
    ]
    taken = {name for node in [*before, *behind] for name in node.input}
    kept = [item for item in graph.initializer if item.name in taken]
    present = taken | {name for node in [*before, *behind] for name in node.output}
    shapes = [item for item in graph.value_info if item.name in present]
    for field in (graph.node, graph.initializer, graph.value_info):
        del field[:]
    graph.node.extend([*before, *guard_nodes, *chosen, *behind])
    graph.initializer.extend([*kept, *_tensors(constants)])
    graph.value_info.extend(shapes)
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))


def _ordinary(backbone: Backbone) -> onnx.GraphProto:
    """Make the branch of the backbone as it was; names are given once, so all have a prefix."""
    inside = {name for node in backbone.nodes for name in node.output}
    constants: dict[str, Array] = {}

    def renamed(name: str) -> str:
        value = backbone.index.constant(name)
        if value is None and name not in inside:
            return name
        if value is not None:
            constants[f"ordinary:{name}"] = value
        return f"ordinary:{name}"

    nodes = [with_names(node, renamed) for node in backbone.nodes]
    return _graph("ordinary", nodes, constants, [], _features(backbone, renamed(backbone.features)))


def _alone(backbone: Backbone, block: int) -> onnx.GraphProto:
    """Make the branch of one image; the way through loops would cost as much as a hundred operators."""
    body = BlockedBackbone(backbone, 1, block, "alone")
    # Where shapes are known, sums are made in place.
    shape = np.array([1, *backbone.index.shape(backbone.images)[1:]], np.int64)
    shape_name = f"{body.images}:shape"
    first = helper.make_node("Reshape", [backbone.images, shape_name], [body.images])
    constants = body.constants | {shape_name: shape}
    return _graph("alone", [first, *body.nodes], constants, [], _features(backbone, body.features))


def _not_alone(backbone: Backbone, bodies: list[BlockedBackbone], answer: str) -> onnx.GraphProto:
    group, single = bodies
    choice = helper.make_node(
        "If",
        [answer],
        ["blocked:features"],
        then_branch=_by_rows(backbone, group, single),
        else_branch=_ordinary(backbone),
    )
    return _graph("not alone", [choice], {}, [], _features(backbone, "blocked:features"))


def _by_rows(backbone: Backbone, group: BlockedBackbone, single: BlockedBackbone) -> onnx.GraphProto:
    """Make the branch of several images: eight at a time, and the rest one by one."""
    passes = {
        group: _Pass(backbone, group, start="blocked:0", end="blocked:whole", count="blocked:whole"),
        single: _Pass(backbone, single, start="blocked:whole", end="blocked:count", count="blocked:rest"),
    }
    nodes = [
        helper.make_node("Mod", ["blocked:count", "blocked:rows"], ["blocked:rest"]),
        helper.make_node("Sub", ["blocked:count", "blocked:rest"], ["blocked:whole"]),
        *(node for item in passes.values() for node in item.nodes()),
        helper.make_node("Concat", [item.features for item in passes.values()], ["blocked:joined"], axis=0),
    ]
    constants = {"blocked:0": np.array([0], np.int64), "blocked:rows": np.array([group.rows], np.int64)}
    return _graph("several", nodes, constants, [], _features(backbone, "blocked:joined"))


class _Pass:
    """Pass of images through a blocked backbone, as many at a time as it takes.

    Args:
        backbone: in the ordinary layout.
        body: the same in the blocked layout, for a fixed number of images.
        start: name of the first image's number [1].
        end: name of the number behind the last [1].
        count: name of the number of images [1], a multiple of the body's; may be 0.
    """

    def __init__(self, backbone: Backbone, body: BlockedBackbone, *, start: str, end: str, count: str) -> None:
        self._backbone, self._body = backbone, body
        self._start, self._end, self._count = start, end, count
        self._name = f"blocked:rows{body.rows}"
        self.features = f"{self._name}:features"

    def nodes(self) -> list[NodeProto]:
        """Make the nodes that compute ``features`` [count, d]."""
        name = self._name
        choice = helper.make_node(
            "If", [f"{name}:any"], [self.features], then_branch=self._some(), else_branch=self._none()
        )
        return [helper.make_node("Greater", [self._count, "blocked:0"], [f"{name}:any"]), choice]

    def _some(self) -> onnx.GraphProto:
        name, index = self._name, self._backbone.index
        image = index.shape(self._backbone.images)[1:]
        size = index.shape(self._backbone.features)[1]
        constants = {
            f"{name}:group": np.array([-1, self._body.rows, *image], np.int64),
            f"{name}:row": np.array([-1, size], np.int64),
        }
        nodes = [
            helper.make_node("Slice", [self._backbone.images, self._start, self._end, "blocked:0"], [f"{name}:images"]),
            helper.make_node("Reshape", [f"{name}:images", f"{name}:group"], [f"{name}:groups"]),
            helper.make_node("Scan", [f"{name}:groups"], [f"{name}:found"], num_scan_inputs=1, body=self._loop(image)),
            helper.make_node("Reshape", [f"{name}:found", f"{name}:row"], [f"{name}:some"]),
        ]
        return _graph(f"{name} some", nodes, constants, [], _features(self._backbone, f"{name}:some"))

    def _loop(self, image: tuple[int, ...]) -> onnx.GraphProto:
        body = self._body
        images = helper.make_tensor_value_info(body.images, _FLOAT, [body.rows, *image])
        features = _features(self._backbone, body.features, body.rows)
        return _graph(f"{body.rows} images", body.nodes, body.constants, [images], features)

    def _none(self) -> onnx.GraphProto:
        empty, nothing = f"{self._name}:empty", f"{self._name}:nothing"
        constants = {empty: np.zeros((0, self._backbone.index.shape(self._backbone.features)[1]), np.float32)}
        nodes = [helper.make_node("Identity", [empty], [nothing])]
        return _graph(f"{self._name} none", nodes, constants, [], _features(self._backbone, nothing))


def _graph(
    name: str,
    nodes: list[NodeProto],
    constants: dict[str, Array],
    inputs: list[onnx.ValueInfoProto],
    output: onnx.ValueInfoProto,
) -> onnx.GraphProto:
    """Make a graph with its own constants: those of a graph around it are handed in one by one, on every run."""
    return helper.make_graph(nodes, name, inputs, [output], initializer=_tensors(constants))


def _tensors(constants: dict[str, Array]) -> list[onnx.TensorProto]:
    return [numpy_helper.from_array(value, name) for name, value in constants.items()]


def _features(backbone: Backbone, name: str, rows: int | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, _FLOAT, [rows, backbone.index.shape(backbone.features)[1]])
