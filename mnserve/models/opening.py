"""Opening of a model's files as one engine: variants, padding, reshapes and CUDA graphs."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from mnserve.engines.base import Engine, EngineOptions
from mnserve.engines.graph_options import needed_sizes
from mnserve.engines.optional_outputs import CoreFirstEngine
from mnserve.engines.padded import PaddedEngine
from mnserve.errors import ModelConfigError
from mnserve.models.load_options import LoadOptions
from mnserve.repository.model_files import ModelFiles
from mnserve.repository.model_parameters import allowed_batch_sizes, decides_batching
from mnserve.repository.reshape import with_reshapes

_log = logging.getLogger(__name__)


def with_needed_graphs(files: ModelFiles, options: LoadOptions) -> EngineOptions:
    """Returns engine options with the CUDA graphs that batches of the model can use; none without a batch dimension."""
    sizes, config = options.engine.cuda_graph_batches, files.config
    max_rows = config.max_batch_size or options.default_max_batch_size
    if sizes and config.max_batch_size == 0 and decides_batching(config):
        _log.warning(
            "model '%s' runs without CUDA graphs: its max_batch_size is 0, so a batch cannot be padded", files.name
        )
        max_rows = 0
    return replace(options.engine, cuda_graph_batches=needed_sizes(sizes, max_rows) if max_rows else ())


def open_engine(files: ModelFiles, variant: Path | None, options: LoadOptions) -> tuple[Engine, str]:
    """Opens the engine of a model, with padding where only some batch sizes are allowed, and with its reshapes.

    Args:
        files: The files.
        variant: The file for the default outputs, beside the whole model; None for none.
        options: Options of every model.

    Returns:
        The engine, and the name of the file that computes the default outputs.

    Raises:
        ModelConfigError: Padding or a reshape does not fit the model.
        EngineError: A file cannot be loaded.
    """
    engine, file = _open_files(files, variant, options)
    try:
        return with_reshapes(files.config, _padded(engine, files)), file
    except BaseException:
        engine.close()
        raise


def _padded(engine: Engine, files: ModelFiles) -> Engine:
    sizes = allowed_batch_sizes(files.config)
    try:
        return PaddedEngine(engine, sizes) if sizes else engine
    except ModelConfigError as error:
        raise ModelConfigError(f"model '{files.name}': {error}") from error


def _open_files(files: ModelFiles, variant: Path | None, options: LoadOptions) -> tuple[Engine, str]:
    """Opens the engine of a model, of two engines where the model has a variant."""
    whole = options.factory(files.model_path, options.engine)
    if variant is None:
        return whole, files.model_path.name
    try:
        core = options.factory(variant, options.engine)
    except BaseException:
        whole.close()
        raise
    try:
        pair = CoreFirstEngine(whole, core)
    except BaseException:
        whole.close()
        core.close()
        raise
    if core.outputs == whole.outputs:
        whole.close()
        return core, variant.name
    return pair, variant.name
