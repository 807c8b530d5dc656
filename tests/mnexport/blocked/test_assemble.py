"""Assembly around the backbone, and graphs that are left alone."""

from pathlib import Path
from typing import Any

import onnx
import pytest

from mnexport.blocked.assemble import write_blocked
from mnexport.blocked.layout import block_size

pytestmark = pytest.mark.skipif(block_size() is None, reason="ONNX Runtime has no blocked layout on this processor")


@pytest.mark.parametrize(("layers", "written"), [(7, False), (8, True)])
def test_one_map_in_four_may_leave_the_layout_or_enter_it(
    sketch: Any, tmp_path: Path, layers: int, written: bool
) -> None:
    """The maps of one layer leave it for a tanh and enter it again."""
    maps = "image"
    for layer in range(layers):
        maps = sketch.ifilm(sketch.convolution(maps, 16 if layer else 3, 16), 16)
        maps = maps if layer else sketch.add("Tanh", maps)
    source, target = sketch.classified(sketch.pooled(maps), 16).save(tmp_path / "m.onnx"), tmp_path / "cpu.onnx"
    report = write_blocked(source, target)
    assert (None if report is None else report.maps) == (layers if written else None)
    assert target.exists() is written


def test_shapes_are_given_of_present_values_only(sketch: Any, rewritten: Any) -> None:
    """A shape of a missing value would mislead readers of the file."""
    maps = sketch.ifilm(sketch.convolution("image", 3, 16), 16)
    sketch.classified(sketch.add("Relu", sketch.pooled(maps, output="features"), output="behind"), 16)
    graph: onnx.GraphProto = rewritten(sketch).graph
    there = {name for node in graph.node for name in node.output} | {item.name for item in graph.initializer}
    described = {item.name for item in graph.value_info}
    assert described <= there
    assert described >= {"features", "behind"}


def with_names(sketch: Any, name: str, where: str) -> Any:
    """Write two layers and give ``name`` to a value before the backbone, in it or behind it, or to a constant."""

    def called(place: str) -> str:
        return name if place == where else ""

    image = sketch.add("Neg", "image", output=called("before"))
    maps = sketch.ifilm(sketch.convolution(image, 3, 16, output="first"), 16, output="maps")
    inner = sketch.add("Relu", maps, output=called("inside"))
    features = sketch.pooled(sketch.ifilm(sketch.convolution(inner, 16, 16), 16))
    weight = sketch.constant(sketch.numbers(16, 16), called("constant"))
    return sketch.classified(sketch.add("MatMul", features, weight, output=called("behind")), 16)


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("blocked.1", "behind"),
        ("blocked.count", "before"),
        ("blocked.guard.maps", "constant"),
        ("ordinary.first", "constant"),
        ("rows8.first", "before"),
        ("alone.first", "before"),
        ("constant.alone.first.packed", "before"),
        ("maps.pooled", "before"),
        ("first.blocked", "before"),
        ("shape", "before"),
    ],
)
def test_names_that_are_near_those_made_here_change_nothing(sketch: Any, rewritten: Any, name: str, where: str) -> None:
    graph = rewritten(with_names(sketch, name, where)).graph
    there = {item for node in graph.node for item in node.output} | {item.name for item in graph.initializer}
    assert name in there


@pytest.mark.parametrize("where", ["before", "inside", "behind", "constant"])
def test_a_graph_with_names_like_those_made_here_is_left_as_it_is(sketch: Any, tmp_path: Path, where: str) -> None:
    source = with_names(sketch, "blocked:1", where).save(tmp_path / "m.onnx")
    assert write_blocked(source, tmp_path / "cpu.onnx") is None
    assert not (tmp_path / "cpu.onnx").exists()
