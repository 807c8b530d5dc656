"""Settings of ``mnserve check``."""

from __future__ import annotations

from dataclasses import dataclass, field

from mnserve.object_store.settings import StoreSettings
from mnserve.settings import ServeSettings


@dataclass(frozen=True, kw_only=True)
class CheckSettings:
    """Tells what a server would find here, and whether it could serve a repository.

    Raises:
        SettingsError: A value cannot work; the message names the option, the value and the remedy.
    """

    repository: str = field(default="", metadata={"positional": True})
    """Folder that holds one folder for each model, or its URL; without it no models are looked at."""
    providers: tuple[str, ...] = ("CPUExecutionProvider",)
    """Execution providers that have to start, as for `mnserve serve`."""
    provider_options: tuple[str, ...] = ()
    """Options of these providers, each PROVIDER.KEY=VALUE."""
    allow_fallback: bool = False
    """Be content with fewer providers than asked for."""
    intra_op_threads: int = 0
    """Threads of an engine within one operator; 0 measures what a model gains, as a server does."""
    inter_op_threads: int = 1
    """Threads of an engine across operators."""
    cuda_graph_batches: tuple[int, ...] = ()
    """Batch sizes to capture as CUDA graphs."""
    default_max_batch_size: int = 32
    """Most rows in a batch of a model that has a batch dimension but no config.pbtxt to say so."""
    warm_up: bool = True
    """Run each model with made-up inputs, as a server does before it calls a model ready."""
    run_timeout: float = 300.0
    """Seconds that a run of an engine may take; 0 is no limit."""
    json: bool = False
    """Print JSON in place of the page."""
    store: StoreSettings = field(default_factory=StoreSettings)

    def __post_init__(self) -> None:
        _ = self.serve_settings  # checks the rest

    @property
    def serve_settings(self) -> ServeSettings:
        """Settings of a server with the same options."""
        return ServeSettings(
            repository=self.repository or ".",
            providers=self.providers,
            provider_options=self.provider_options,
            allow_fallback=self.allow_fallback,
            intra_op_threads=self.intra_op_threads,
            inter_op_threads=self.inter_op_threads,
            cuda_graph_batches=self.cuda_graph_batches,
            default_max_batch_size=self.default_max_batch_size,
            warm_up=self.warm_up,
            run_timeout=self.run_timeout,
            store=self.store,
        )
