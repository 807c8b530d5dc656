"""What ``mnserve bench`` is asked to do."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mnserve.bench.timing import TimingPlan
from mnserve.connection import ConnectionSettings
from mnserve.engines.base import MAX_THREADS, EngineOptions
from mnserve.engines.providers import parse_option, provider_names
from mnserve.errors import SettingsError

__all__ = ["BenchSettings"]


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """Times a model, against another one if asked, on random input of its own shape.

    Raises:
        SettingsError: a value cannot work; the message names the option, the value and the remedy.
    """

    repository: str
    """Model repository that holds both models."""
    model: str
    """Name of the model to time."""
    against: str | None = None
    """Name of the model to compare with; ratios are latency of MODEL / latency of this one."""
    batch: str = "1"
    """Batch sizes, separated by commas."""
    threads: int = 1
    """Threads of the engine within one operator; 0 takes every core this process may run on."""
    providers: tuple[str, ...] = ("cpu",)
    """Execution providers, best first, as for `mnserve serve`."""
    provider_options: tuple[str, ...] = ()
    """Options of these providers, each PROVIDER.KEY=VALUE."""
    cuda_graph_batches: tuple[int, ...] = ()
    """Batch sizes to run as CUDA graphs, as for `mnserve serve`."""
    seconds: float = 2.0
    """Measured time of each model at each batch size, in seconds."""
    rounds: int = 20
    """Rounds; every round times each model once, in alternating order, and gives one ratio."""
    grpc: bool = False
    """Time the whole path: a server process, its batcher, and requests through a gRPC client."""
    url: str | None = None
    """With --grpc: a server that already runs, HOST:PORT or grpcs://HOST:PORT, instead of one of its own."""
    concurrency: int = 1
    """With --grpc: callers that ask at the same time."""
    timeout: float = 60.0
    """With --grpc: seconds to wait for an answer."""
    shape: list[str] = field(default_factory=list)
    """Shape of an input whose configuration leaves a dimension open, as NAME:DIM,DIM without the batch."""
    seed: int = 0
    """Seed of the random input."""
    json: str | None = None
    """File to write the result to as JSON; - writes it to standard output."""
    plot: str | None = None
    """File to draw the result in; the ending chooses the format (png, svg, pdf)."""
    connection: ConnectionSettings = field(default_factory=ConnectionSettings)

    def __post_init__(self) -> None:
        if self.against == self.model:
            raise SettingsError(
                f"MODEL and --against are both {self.model!r}; a model against itself has a ratio of 1, "
                "so name another model or leave --against out"
            )
        _check("--seconds", self.seconds, lambda v: math.isfinite(v) and v > 0, "a number of seconds above 0")
        _check("--timeout", self.timeout, lambda v: math.isfinite(v) and v > 0, "a number of seconds above 0")
        _check("--rounds", self.rounds, lambda v: v >= 1, "at least 1; ratios have a spread from 2 on")
        _check("--threads", self.threads, lambda v: 0 <= v <= MAX_THREADS, f"0 (every core) or up to {MAX_THREADS}")
        _check("--concurrency", self.concurrency, lambda v: v >= 1, "at least 1")
        _check("--seed", self.seed, lambda v: v >= 0, "0 or above")
        if not self.grpc:
            for option, given in (("--url", self.url is not None), ("--concurrency", self.concurrency > 1)):
                if given:
                    raise SettingsError(
                        f"{option} goes with --grpc: without it the engines run in this process, one call at "
                        f"a time; add --grpc or leave {option} out"
                    )
        if self.plot is not None and Path(self.plot).suffix.lower() not in (".png", ".svg", ".pdf"):
            raise SettingsError(f"--plot {self.plot!r} has no known ending; use a name that ends in .png, .svg or .pdf")
        own = (self.providers, self.provider_options, self.cuda_graph_batches) != (("cpu",), (), ())
        if self.url is not None and own:
            raise SettingsError(
                "--providers, --provider-options and --cuda-graph-batches are of a server that bench starts itself; "
                "the one at --url has its own, so leave them out"
            )
        if self.url is None and self.connection != ConnectionSettings():
            raise SettingsError(
                "TLS and tokens are for the server at --url; one that bench starts itself has neither, so give --url "
                "or leave them out"
            )
        _ = self.batches, self.shapes, self.engine_options

    @property
    def engine_options(self) -> EngineOptions:
        """How engines in this process are set up."""
        return EngineOptions(
            providers=provider_names(self.providers),
            provider_options=tuple(parse_option(text) for text in self.provider_options),
            intra_op_threads=self.threads,
            cuda_graph_batches=self.cuda_graph_batches,
        )

    @property
    def server_words(self) -> list[str]:
        """The same for `mnserve serve`."""
        words = ["--intra-op-threads", str(self.threads), "--providers", *self.providers]
        if self.provider_options:
            words += ["--provider-options", *self.provider_options]
        if self.cuda_graph_batches:
            words += ["--cuda-graph-batches", *map(str, self.cuda_graph_batches)]
        return words

    @property
    def batches(self) -> tuple[int, ...]:
        """Batch sizes in the order given, each once."""
        sizes: dict[int, None] = {}
        for part in self.batch.split(","):
            if not part.strip().isdecimal() or int(part) < 1:
                raise SettingsError(
                    f"--batch {self.batch!r} is not a list of batch sizes: {part.strip()!r} is not a whole "
                    "number above 0; write for instance --batch 1,8,32"
                )
            sizes[int(part)] = None
        return tuple(sizes)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Input name -> dimensions without the batch, from ``shape``."""
        result: dict[str, tuple[int, ...]] = {}
        for item in self.shape:
            name, _, dims = item.rpartition(":")
            parts = [part.strip() for part in dims.split(",")]
            if not name or not all(part.isdecimal() and int(part) > 0 for part in parts):
                raise SettingsError(
                    f"--shape {item!r} is not NAME:DIM,DIM with dimensions above 0; "
                    "write for instance --shape image:3,32,32 (without the batch)"
                )
            if name in result:
                raise SettingsError(f"--shape names the input {name!r} twice; give each input one shape")
            result[name] = tuple(int(part) for part in parts)
        return result

    @property
    def plan(self) -> TimingPlan:
        """The part that the timing loop needs."""
        return TimingPlan(seconds=self.seconds, rounds=self.rounds, concurrency=self.concurrency)


def _check(option: str, value: float, holds: Callable[[float], bool], expected: str) -> None:
    if not holds(value):
        raise SettingsError(f"{option} is {value}; it must be {expected}")
