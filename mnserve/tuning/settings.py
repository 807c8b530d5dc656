"""Settings of ``mnserve tune``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from mnserve.bench.options import (
    MAX_SECONDS,
    check_callers,
    check_option,
    check_plot,
    check_rounds,
    check_seconds,
    check_seed,
    engine_arguments,
    input_shapes,
    whole_numbers,
)
from mnserve.engines.base import EngineOptions
from mnserve.engines.cpu import available_cpus
from mnserve.engines.providers import parse_option, provider_names
from mnserve.errors import SettingsError
from mnserve.object_store.settings import StoreSettings
from mnserve.object_store.url import is_url, parse_url
from mnserve.tuning.scores import Goal
from mnserve.tuning.space import SearchLimits

_MAX_CPUS: Final = 65_536
_MAX_PERCENT: Final = 99.999
"""Largest percentile below 100; beyond it no measurement has enough calls."""


@dataclass(frozen=True, kw_only=True)
class TuneSettings:
    """Finds batch size, delay, threads and instances of a model for a bound on latency, by measuring.

    Raises:
        SettingsError: A value cannot work; the message names the option, the value and the remedy.
    """

    repository: str
    """Model repository that holds the model: a folder, or with --dry-run its URL."""
    model: str
    """Name of the model to tune."""
    latency_ms: float = 0.0
    """Bound on the latency in milliseconds, as a client sees it; it has to be given, above 0."""
    percentile: float = 99.0
    """Percentile of the latencies that has to keep the bound."""
    callers: str = "16"
    """Callers that ask at the same time, each waiting for its answer; with several numbers, separated by commas, the
    bound has to hold for each."""
    rows: int = 1
    """Rows of every request."""
    seconds: float = 2.0
    """Measured time of each configuration and number of callers, in seconds."""
    repeats: int = 5
    """Rounds in which the best configurations and the current one are measured again, in alternating order."""
    max_batch_size: int = 0
    """Largest max_batch_size to try; 0 takes what the callers can fill."""
    allow_smaller_batches: bool = False
    """Try a max_batch_size below the current one, so that larger requests than that are refused afterwards."""
    cpus: int = 0
    """CPUs that threads times instances may take; 0 takes those this process may use."""
    providers: tuple[str, ...] = ("cpu",)
    """Execution providers, best first, as for `mnserve serve`."""
    provider_options: tuple[str, ...] = ()
    """Options of these providers, each PROVIDER.KEY=VALUE."""
    cuda_graph_batches: tuple[int, ...] = ()
    """Batch sizes to run as CUDA graphs, as for `mnserve serve`."""
    timeout: float = 60.0
    """Seconds to wait for an answer; a configuration that takes longer is out."""
    shape: list[str] = field(default_factory=list)
    """Shape of an input whose configuration leaves a dimension open, as NAME:DIM,DIM without the batch."""
    seed: int = 0
    """Seed of the random input."""
    dry_run: bool = False
    """Measure and print what would be written, and write nothing."""
    json: str | None = None
    """File to write the result to as JSON; - writes it to standard output."""
    plot: str | None = None
    """File to draw the result in; the ending chooses the format (png, svg, pdf)."""
    store: StoreSettings = field(default_factory=StoreSettings)

    def __post_init__(self) -> None:
        hours = MAX_SECONDS // 3600
        check_option(
            "--latency-ms",
            self.latency_ms,
            lambda v: 0 < v <= MAX_SECONDS * 1e3,
            f"a number above 0, in milliseconds, and at most {MAX_SECONDS * 1000} ({hours} hours), such as 20",
        )
        check_option(
            "--percentile",
            self.percentile,
            lambda v: 0 < v <= _MAX_PERCENT or v == 100,
            f"above 0 and at most {_MAX_PERCENT}, such as 99, or 100 for the slowest call",
        )
        check_seconds("--seconds", self.seconds)
        check_seconds("--timeout", self.timeout)
        check_option("--rows", self.rows, lambda v: 1 <= v < 2**31, f"at least 1 and at most {2**31 - 1}")
        check_rounds("--repeats", self.repeats, "ties are told better from 4 on")
        check_option(
            "--max-batch-size", self.max_batch_size, lambda v: 0 <= v < 2**31, f"0 (automatic) or up to {2**31 - 1}"
        )
        check_option(
            "--cpus",
            self.cpus,
            lambda v: 0 <= v <= _MAX_CPUS,
            f"0 (all that this process may use) or up to {_MAX_CPUS}",
        )
        check_seed(self.seed)
        for count in self.loads:
            check_callers("--callers", count)
        check_plot(self.plot)
        if is_url(self.repository) and not self.dry_run:
            raise SettingsError(
                f"{parse_url(self.repository).shown} is a URL, and object stores are only read; give --dry-run, and "
                "write what it prints into config.pbtxt there"
            )
        _ = self.shapes, self.engine_options

    @property
    def loads(self) -> tuple[int, ...]:
        """Numbers of callers in the given order, without repetitions."""
        return whole_numbers("--callers", self.callers, what="numbers of callers", example="1,16,64")

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Input name -> dimensions without the batch, from ``shape``."""
        return input_shapes(self.shape)

    @property
    def goal(self) -> Goal:
        """Bound that a configuration has to keep."""
        return Goal(latency_ms=self.latency_ms, percentile=self.percentile, rows=self.rows)

    @property
    def limits(self) -> SearchLimits:
        """Limits of the search from the load and the options."""
        return SearchLimits(
            callers=max(self.loads),
            rows=self.rows,
            latency_ms=self.goal.latency_ms,
            cpus=self.cpus or available_cpus(),
            max_batch_size=self.max_batch_size,
            allow_smaller_batches=self.allow_smaller_batches,
        )

    @property
    def engine_options(self) -> EngineOptions:
        """Set-up of the engine in this process that reads the configuration of the model."""
        return EngineOptions(
            providers=provider_names(self.providers),
            provider_options=tuple(parse_option(text) for text in self.provider_options),
            cuda_graph_batches=self.cuda_graph_batches,
        )

    @property
    def server_arguments(self) -> list[str]:
        """Arguments of `mnserve serve`, which leave threads to the configuration of the model.

        Cache and limits are set explicitly: from the environment they would distort the measurement.
        """
        arguments = engine_arguments(0, self.providers, self.provider_options, self.cuda_graph_batches)
        arguments += ["--cache-bytes", "0", "--rate-limit", "0", "--rate-burst", "0", "--max-concurrent-requests", "0"]
        return [*arguments, "--default-max-batch-size", "32"]
