"""Batch sizes of CUDA graphs: what is refused, and which of them a model needs."""

import pytest

from mnserve.engines.base import EngineOptions
from mnserve.engines.graph_options import needed_sizes
from mnserve.engines.providers import parse_option
from mnserve.errors import SettingsError
from mnserve.settings import ServeSettings

CPU, CUDA, TENSORRT = "CPUExecutionProvider", "CUDAExecutionProvider", "TensorrtExecutionProvider"


def test_sizes_of_the_command_line_reach_the_engine() -> None:
    settings = ServeSettings(repository="r", providers=("cuda", "cpu"), cuda_graph_batches=(1, 8))
    assert settings.engine_options.cuda_graph_batches == (1, 8)
    assert ServeSettings(repository="r").engine_options.cuda_graph_batches == ()


@pytest.mark.parametrize(
    ("sizes", "providers", "message"),
    [
        ((1, 8), (CPU,), "cuda_graph_batches is 1, 8, but CUDAExecutionProvider is not among the providers"),
        ((1,), (TENSORRT, CUDA), "TensorrtExecutionProvider comes before CUDAExecutionProvider"),
        ((1, 0), (CUDA,), "from 1 to 65536 rows, not 0"),
        ((70000,), (CUDA,), "from 1 to 65536 rows, not 70000"),
    ],
)
def test_sizes_that_cannot_be_graphs_are_refused(
    sizes: tuple[int, ...], providers: tuple[str, ...], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        EngineOptions(providers=providers, cuda_graph_batches=sizes)


@pytest.mark.parametrize("option", ["cuda.enable_cuda_graph=1", "tensorrt.trt_cuda_graph_enable=True"])
def test_graphs_that_would_answer_the_first_input_for_ever_are_refused(option: str) -> None:
    with pytest.raises(SettingsError, match=r"would get its answer again; leave it out.*--cuda-graph-batches"):
        EngineOptions(providers=(TENSORRT, CUDA), provider_options=(parse_option(option),))
    EngineOptions(providers=(CUDA,), provider_options=(parse_option("cuda.enable_cuda_graph=0"),))


@pytest.mark.parametrize(
    ("most", "needed"), [(1, (1,)), (2, (1, 8)), (8, (1, 8)), (9, (1, 8, 32)), (32, (1, 8, 32)), (99, (1, 8, 32))]
)
def test_a_model_gets_the_graphs_that_its_batches_reach(most: int, needed: tuple[int, ...]) -> None:
    assert needed_sizes((32, 1, 8, 8), most) == needed
    assert needed_sizes((16,), most) == (16,)
