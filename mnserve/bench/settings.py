"""Settings of ``mnserve bench``."""

from __future__ import annotations

from dataclasses import dataclass, field

from mnserve.bench.options import (
    check_callers,
    check_option,
    check_plot,
    check_rounds,
    check_seconds,
    check_seed,
    engine_arguments,
    input_shapes,
    is_file_name,
    whole_numbers,
)
from mnserve.bench.timing import TimingPlan
from mnserve.client.settings import ConnectionSettings
from mnserve.engines.base import MAX_THREADS, EngineOptions
from mnserve.engines.providers import parse_option, provider_names
from mnserve.errors import SettingsError
from mnserve.object_store.settings import StoreSettings


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """Times a model, against another one if asked, on random input of its own shape.

    Raises:
        SettingsError: A value cannot work; the message names the option, the value and the remedy.
    """

    repository: str
    """Model repository that holds both models: a folder, or its URL."""
    model: str
    """Name of the model to time."""
    against: str | None = None
    """Name of the model to compare with, or an ONNX file such as the network that MODEL was made from; ratios are
    latency of MODEL / latency of this one."""
    batch: str = "1"
    """Batch sizes, separated by commas."""
    threads: int = 1
    """Threads of the engine within one operator; 0 takes every core; a server chooses."""
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
    store: StoreSettings = field(default_factory=StoreSettings)

    def __post_init__(self) -> None:
        if self.against == self.model:
            raise SettingsError(
                f"MODEL and --against are both {self.model!r}; a model against itself has a ratio of 1, "
                "so name another model or leave --against out"
            )
        check_seconds("--seconds", self.seconds)
        check_seconds("--timeout", self.timeout)
        check_rounds("--rounds", self.rounds, "ratios have a spread from 2 on")
        check_option(
            "--threads", self.threads, lambda v: 0 <= v <= MAX_THREADS, f"0 (automatic) or up to {MAX_THREADS}"
        )
        check_callers("--concurrency", self.concurrency)
        check_seed(self.seed)
        if not self.grpc:
            for option, given in (("--url", self.url is not None), ("--concurrency", self.concurrency > 1)):
                if given:
                    raise SettingsError(
                        f"{option} goes with --grpc: without it the engines run in this process, one call at "
                        f"a time; add --grpc or leave {option} out"
                    )
        if self.grpc and self.against is not None and is_file_name(self.against):
            raise SettingsError(
                f"--against {self.against} is a file, which no server serves; leave --grpc out, or put the file into "
                "the repository as NAME/1/model.onnx and name it"
            )
        check_plot(self.plot)
        has_engine_options = (self.providers, self.provider_options, self.cuda_graph_batches) != (("cpu",), (), ())
        if self.url is not None and has_engine_options:
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
        """Set-up of engines in this process."""
        return EngineOptions(
            providers=provider_names(self.providers),
            provider_options=tuple(parse_option(text) for text in self.provider_options),
            intra_op_threads=self.threads,
            cuda_graph_batches=self.cuda_graph_batches,
        )

    @property
    def server_arguments(self) -> list[str]:
        """The same set-up as arguments of `mnserve serve`."""
        return engine_arguments(self.threads, self.providers, self.provider_options, self.cuda_graph_batches)

    @property
    def batches(self) -> tuple[int, ...]:
        """Batch sizes in the given order, without repetitions."""
        return whole_numbers("--batch", self.batch, what="batch sizes", example="1,8,32")

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Input name -> dimensions without the batch, from ``shape``."""
        return input_shapes(self.shape)

    @property
    def plan(self) -> TimingPlan:
        """Settings of the timing loop."""
        return TimingPlan(seconds=self.seconds, rounds=self.rounds, concurrency=self.concurrency)
