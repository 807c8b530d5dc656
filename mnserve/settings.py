"""Settings of ``mnserve serve``."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Final, Literal

from mnserve.access.addresses import is_loopback
from mnserve.access.connection_limits import TransportSettings
from mnserve.access.settings import SecuritySettings
from mnserve.engines.base import EngineOptions
from mnserve.engines.providers import parse_option, provider_names
from mnserve.errors import SettingsError
from mnserve.object_store.settings import StoreSettings
from mnserve.object_store.url import is_url, parse_url

Control = Literal["none", "poll", "explicit"]
"""Source of the list of served models: the repository at the start, the repository as it changes, or callers."""

ALL_MODELS: Final = "*"
"""In place of names: every model, as Triton has it."""
OFF: Final = -1
"""In place of a port: none is opened."""
_HTTP_PORT: Final = 8000
_MEBIBYTE: Final = 1024 * 1024
_MAX_PORT: Final = 65535
_MAX_NAME: Final = 128
MAX_PROCESSES: Final = 64
"""Most front ends, and most engine processes."""


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """Serves every model of a repository over gRPC.

    Raises:
        SettingsError: A value cannot work; the message names the option, the value and the remedy.
    """

    repository: str
    """Folder that holds one folder for each model, in Triton's layout, or its URL: s3, gs, hf, http and others."""
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 is every network interface."""
    grpc_port: int = 8001
    """Port for gRPC; 0 takes a free one, which is printed."""
    http_port: int = OFF
    """Port for the protocol over HTTP, 8000 as a rule; 0 takes a free one, which is printed, and -1 opens none."""
    console: bool = False
    """Serve a page on the HTTP port to look after the models and to try them; the port is 8000 if none is given."""
    metrics_port: int = 8002
    """Port for Prometheus metrics over HTTP; 0 takes a free one, which is printed."""
    front_ends: int = -1
    """Processes that take calls in; 0 does everything in one process, and -1 chooses by CPUs and models."""
    engine_processes: int = 1
    """Processes that run the models, each with its share of the CPUs; where there are several GPUs, one for each."""
    server_name: str = "mnserve"
    """Name of the server in ServerMetadata, for clients that expect another one, such as triton."""
    strict: bool = False
    """Refuse to start if any model cannot be served."""
    model_control: Control = "none"
    """Serve what is there at the start (none), what is there as it changes (poll), or what is asked for (explicit)."""
    allow_empty: bool = False
    """Be ready without any model; without it a repository that is empty is a fault, unless the control is explicit."""
    load_model: tuple[str, ...] = ()
    """With --model-control explicit: models to load at the start; * alone loads all."""
    shared_memory: Literal["auto", "on", "off"] = "auto"
    """Let callers leave tensors in shared memory: on, off, or auto, on where only this machine can connect."""
    poll_seconds: float = 15.0
    """With --model-control poll: seconds between two looks at the repository."""
    default_max_batch_size: int = 32
    """Most rows in a batch of a model that has a batch dimension but no config.pbtxt to say so."""
    max_queue_rows: int = 0
    """Most rows that may wait for one model; 0 is 64 batches, or what max_queue_size in config.pbtxt asks for."""
    max_queue_bytes: int = 1024 * _MEBIBYTE
    """Most bytes of tensors that may wait for one model, or that streams hold; their messages are in memory beside."""
    run_timeout: float = 300.0
    """Seconds that a run of an engine may take; beyond it the model is not ready until it is loaded again, which front
    ends have done at once. 0 is no limit."""
    cache_bytes: int = 0
    """Most bytes of answers to keep, for models with response_cache { enable: true } in config.pbtxt; 0 keeps none."""
    rate_limit: float = 0.0
    """Requests a second that a caller may send, by its token, or by its address where there are none; 0 is no limit."""
    rate_burst: int = 0
    """With --rate-limit: requests that a caller may send at once after it was silent; 0 is one second's worth."""
    max_concurrent_requests: int = 8192
    """Most inference calls in progress, a stream as one; 0 is no limit. Other calls have bounds of their own."""
    max_message_bytes: int = 64 * _MEBIBYTE
    """Largest gRPC message, in either direction."""
    intra_op_threads: int = 0
    """Threads of an engine within one operator; 0 measures what a model gains from the CPUs this process may use."""
    inter_op_threads: int = 1
    """Threads of an engine across operators; more than 1 run branches of a model side by side."""
    global_thread_pool: bool = False
    """Let all engines share the threads of --intra-op-threads and --inter-op-threads."""
    providers: tuple[str, ...] = ("CPUExecutionProvider",)
    """Execution providers, best first: cpu, cuda, tensorrt, openvino, or any name that ONNX Runtime has."""
    provider_options: tuple[str, ...] = ()
    """Options of these providers, each PROVIDER.KEY=VALUE, such as cuda.cudnn_conv_algo_search=EXHAUSTIVE."""
    allow_fallback: bool = False
    """Serve with fewer providers than asked for instead of failing."""
    cuda_graph_batches: tuple[int, ...] = ()
    """Batch sizes to capture as CUDA graphs, such as 1 8 32; batches in between are padded. CUDA has to come first."""
    warm_up: bool = True
    """Run made-up inputs, or the samples of config.pbtxt, before a model is called ready."""
    reflection: bool = True
    """Let clients ask for the services and messages (gRPC reflection)."""
    drain_delay: float = 0.0
    """Seconds to go on serving as not ready after SIGTERM, so that load balancers notice."""
    drain_timeout: float = 30.0
    """Seconds that requests in progress get after that."""
    trace_endpoint: str = ""
    """Collector of spans that takes OTLP over gRPC, such as http://localhost:4317; empty traces nothing."""
    trace_rate: int = 1000
    """With --trace-endpoint: one request of so many is traced, and every one whose caller is traced itself."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe messages to log."""
    log_format: Literal["text", "json"] = "text"
    """One line of text, or one JSON object, for each message."""
    security: SecuritySettings = field(default_factory=SecuritySettings)
    transport: TransportSettings = field(default_factory=TransportSettings)
    store: StoreSettings = field(default_factory=StoreSettings)

    def __post_init__(self) -> None:
        if not self.repository:
            raise SettingsError("REPOSITORY is empty; give the folder that holds the model folders")
        if is_url(self.repository):
            parse_url(self.repository)
        if not 0 < len(self.server_name) <= _MAX_NAME or not self.server_name.isprintable():
            raise SettingsError(
                f"--server-name is {self.server_name[:80]!r}; it must have 1 to {_MAX_NAME} printable characters"
            )
        for option, port in (("--grpc-port", self.grpc_port), ("--metrics-port", self.metrics_port)):
            if not 0 <= port <= _MAX_PORT:
                raise SettingsError(f"{option} is {port}; it must be from 0 to {_MAX_PORT}")
        if self.console and self.http_port == OFF:
            object.__setattr__(self, "http_port", _HTTP_PORT)
        if self.http_port != OFF and not 0 <= self.http_port <= _MAX_PORT:
            raise SettingsError(f"--http-port is {self.http_port}; it must be -1 (none) or from 0 to {_MAX_PORT}")
        ports = {"--grpc-port": self.grpc_port, "--http-port": self.http_port, "--metrics-port": self.metrics_port}
        for (option, port), (other, twin) in combinations(ports.items(), 2):
            if port == twin > 0:
                raise SettingsError(f"{option} and {other} are both {port}; choose two")
        if not -1 <= self.front_ends <= MAX_PROCESSES:
            raise SettingsError(
                f"--front-ends is {self.front_ends}; it must be -1 (automatic), 0 (one process for all) or up to "
                f"{MAX_PROCESSES}"
            )
        if not 1 <= self.engine_processes <= MAX_PROCESSES:
            raise SettingsError(f"--engine-processes is {self.engine_processes}; it must be from 1 to {MAX_PROCESSES}")
        if self.engine_processes > 1 and not self.front_ends:
            raise SettingsError(
                f"--engine-processes {self.engine_processes} needs front ends, and --front-ends is 0, one process for "
                "all; leave one out"
            )
        if self.load_model and self.model_control != "explicit":
            raise SettingsError(
                f"--load-model goes with --model-control explicit, and this is {self.model_control}, which loads every "
                "model; leave one out"
            )
        if ALL_MODELS in self.load_model and len(self.load_model) > 1:
            raise SettingsError(
                f"--load-model has {ALL_MODELS}, which is every model, beside other names; give one or the other"
            )
        if not 0.1 <= self.poll_seconds <= 86_400:
            raise SettingsError(f"--poll-seconds is {self.poll_seconds}; it must be from 0.1 to 86400 seconds")
        if self.cuda_graph_batches and self.model_control != "none":
            raise SettingsError(
                "--cuda-graph-batches goes with --model-control none: a capture breaks where another model uses the "
                "GPU meanwhile, as it would where models are loaded beside those that run"
            )
        if self.default_max_batch_size < 1:
            raise SettingsError(f"--default-max-batch-size is {self.default_max_batch_size}; it must be at least 1")
        if self.max_queue_rows < 0:
            raise SettingsError(f"--max-queue-rows is {self.max_queue_rows}; it must be 0 (automatic) or more")
        if self.max_queue_bytes < 1:
            raise SettingsError(f"--max-queue-bytes is {self.max_queue_bytes}; it must be at least 1")
        if self.max_concurrent_requests < 0:
            raise SettingsError(
                f"--max-concurrent-requests is {self.max_concurrent_requests}; it must be 0 (no limit) or more"
            )
        if not 1024 <= self.max_message_bytes < 2**31:
            raise SettingsError(f"--max-message-bytes is {self.max_message_bytes}; it must be from 1024 to {2**31 - 1}")
        if self.trace_endpoint and not self.trace_endpoint.startswith(("http://", "https://")):
            raise SettingsError(
                f"--trace-endpoint is '{self.trace_endpoint}'; it must begin with http:// or https://, such as "
                "http://localhost:4317"
            )
        if not 1 <= self.trace_rate < 2**31:
            raise SettingsError(f"--trace-rate is {self.trace_rate}; it must be from 1 to {2**31 - 1}")
        if self.cache_bytes < 0:
            raise SettingsError(f"--cache-bytes is {self.cache_bytes}; it must be 0 (no cache) or more")
        if not 0 <= self.rate_limit <= 1e9:
            raise SettingsError(f"--rate-limit is {self.rate_limit}; it must be 0 (no limit) or up to 1e9 a second")
        if self.rate_burst < 0 or (self.rate_burst and not self.rate_limit):
            raise SettingsError(
                f"--rate-burst is {self.rate_burst}; it goes with --rate-limit, and is 0 (one second's worth) or more"
            )
        for option, seconds in (
            ("--drain-delay", self.drain_delay),
            ("--drain-timeout", self.drain_timeout),
            ("--run-timeout", self.run_timeout),
        ):
            if not 0 <= seconds <= 86_400:
                raise SettingsError(f"{option} is {seconds}; it must be from 0 to 86400 seconds")
        self.security.check_host(self.host, local=self.is_local)
        _ = self.engine_options  # checks the rest

    @property
    def is_local(self) -> bool:
        """True where only this machine can connect."""
        return is_loopback(self.host)

    @property
    def offers_shared_memory(self) -> bool:
        """True where callers may leave tensors in shared memory."""
        return self.shared_memory == "on" or (self.shared_memory == "auto" and self.is_local)

    @property
    def engine_options(self) -> EngineOptions:
        """Options of the engines."""
        return EngineOptions(
            providers=provider_names(self.providers),
            provider_options=tuple(parse_option(text) for text in self.provider_options),
            intra_op_threads=self.intra_op_threads,
            inter_op_threads=self.inter_op_threads,
            global_thread_pool=self.global_thread_pool,
            allow_fallback=self.allow_fallback,
            cuda_graph_batches=self.cuda_graph_batches,
        )
