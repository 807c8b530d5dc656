"""Batch sizes that run as CUDA graphs, and the providers that can replay them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mnserve.engines.providers import CUDA, ProviderOption
from mnserve.errors import SettingsError

MAX_GRAPH_BATCH: Final = 65536
"""Most rows of a graph."""

_OWN_SWITCHES: Final = ("enable_cuda_graph", "trt_cuda_graph_enable", "nv_cuda_graph_enable")
_OFF: Final = ("0", "false")


def check_graph_options(sizes: Sequence[int], providers: Sequence[str], options: Sequence[ProviderOption]) -> None:
    """Checks that these providers can replay graphs of these batch sizes.

    Args:
        sizes: Rows of each graph; empty switches graphs off.
        providers: Execution providers, best first, under ONNX Runtime's names.
        options: Options of these providers.

    Raises:
        SettingsError: A size is out of range, CUDA is not the first provider, or an option makes a provider capture
            graphs by itself.
    """
    for option in options:
        if option.key in _OWN_SWITCHES and option.value.lower() not in _OFF:
            raise SettingsError(
                f"provider option {option.key}={option.value} captures the addresses of one run's inputs, so that "
                "later runs would get its answer again; leave it out, and give batch sizes with --cuda-graph-batches"
            )
    if not sizes:
        return
    setting = f"cuda_graph_batches is {', '.join(map(str, sizes))}"
    if invalid := [size for size in sizes if not 1 <= size <= MAX_GRAPH_BATCH]:
        raise SettingsError(f"{setting}; a batch has from 1 to {MAX_GRAPH_BATCH} rows, not {invalid[0]}")
    if CUDA not in providers:
        raise SettingsError(
            f"{setting}, but {CUDA} is not among the providers {', '.join(providers)}; add cuda to --providers, or "
            "leave the batch sizes out"
        )
    if providers[0] != CUDA:
        raise SettingsError(
            f"{setting}, but {providers[0]} comes before {CUDA}, whose work alone a graph replays; name cuda first in "
            "--providers, or leave the batch sizes out"
        )


def needed_sizes(sizes: Sequence[int], max_rows: int) -> tuple[int, ...]:
    """Selects the graphs for batches of 1 to ``max_rows`` rows, ascending; a batch runs on the next size up."""
    ordered = sorted(set(sizes))
    return tuple(size for index, size in enumerate(ordered) if index == 0 or ordered[index - 1] < max_rows)
