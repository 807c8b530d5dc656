"""Decision on the batches of a model, from its configuration or, where that says nothing, from trial runs.

Batching that nobody configured has to be shown: rows are run alone and joined. Where their answers differ, or nothing
can be run, requests share no batch.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mnserve.codec.signature import RequestSignature
from mnserve.engines.base import Engine, TensorSpec
from mnserve.engines.memory import available_bytes
from mnserve.errors import ModelConfigError
from mnserve.models.findings import Findings
from mnserve.models.joined_rows import Verdict, obstacle
from mnserve.models.load_options import LoadOptions
from mnserve.models.trial_runs import TrialLimits
from mnserve.models.warm_up import warm_up
from mnserve.models.warm_up_plan import WarmUp, WarmUpPlan
from mnserve.models.warm_up_samples import samples
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.model_config import complete, signature, warn_of_output_shapes
from mnserve.repository.model_files import ModelFiles
from mnserve.repository.model_parameters import allowed_batch_sizes, decides_batching, warm_up_enabled

_log = logging.getLogger(__name__)

_UNASKED_SECONDS: Final = 3.0
_UNASKED_BYTES: Final = 2**29
"""Time of the trial runs for batching that nobody configured, and memory of the largest of them."""


@dataclass(frozen=True, kw_only=True)
class TriedModel:
    """A model whose engine was tried.

    Attributes:
        config: Complete configuration.
        rules: Rules for requests.
        findings: What was found out.
        warm_up: What the runs showed; None where there were none.
    """

    config: ModelConfig
    rules: RequestSignature
    findings: Findings
    warm_up: WarmUp | None


def try_out(engine: Engine, files: ModelFiles, options: LoadOptions) -> TriedModel:
    """Warms up a model, and decides on its batches.

    Raises:
        ModelConfigError: The configuration does not fit the model, or its samples do not.
        EngineLoadError: A sample of the configuration fails.
    """
    trial = _Trial(engine, files, options)
    return trial.as_configured() if trial.decided else trial.as_shown()


def warm_up_further(engine: Engine, files: ModelFiles, rules: RequestSignature, options: LoadOptions) -> None:
    """Warms up one more engine of a model that was tried."""
    _Trial(engine, files, options).run(rules)


class _Trial:
    def __init__(self, engine: Engine, files: ModelFiles, options: LoadOptions) -> None:
        self._engine, self._files, self._options = engine, files, options
        self._config = files.config
        self._runs = options.warm_up and warm_up_enabled(files.config)
        self._sizes = allowed_batch_sizes(files.config)
        self.decided = decides_batching(files.config) or bool(self._sizes)
        """The configuration says whether requests share batches."""
        self._outputs: Sequence[TensorSpec] = engine.outputs

    def rules(self, max_batch_size: int) -> RequestSignature:
        return signature(self._completed(max_batch_size), self._engine.inputs, self._outputs)

    def run(self, rules: RequestSignature) -> WarmUp | None:
        """Warms up; None where that is switched off. Batches that nobody configured stay small."""
        if not self._runs:
            return None
        batched = rules.max_batch_size > 1
        unasked = batched and not self.decided
        limits = TrialLimits(
            seconds=_UNASKED_SECONDS if unasked else TrialLimits.seconds,
            thorough_seconds=self._options.thorough_seconds,
            memory_bytes=_UNASKED_BYTES if unasked else math.inf,
        )
        folder = self._files.version_folder.parent
        return warm_up(
            self._engine,
            rules,
            WarmUpPlan(
                grow=batched and self.decided,
                sizes=self._sizes,
                limits=limits,
                watch=self._options.watch,
            ),
            samples(self._config, rules, folder, self._options.sample_limits),
        )

    def as_configured(self) -> TriedModel:
        rules = self.rules(min([self._options.default_max_batch_size, *self._sizes[-1:]]) if self._sizes else 0)
        result = self.run(rules)
        rows = rules.max_batch_size
        doubts: tuple[str, ...] = ()
        if rows == 0:
            written = self._config.HasField("max_batch_size")
            why = "max_batch_size is 0" if written else "inputs or outputs are listed without max_batch_size"
            return self._tried(0, result, f"one request at a time: {why} in config.pbtxt")
        text = f"batches of up to {rows} rows, as config.pbtxt says"
        if result is not None and rows > 1:
            text += f"; {result.joined.reason}"
            if result.joined.verdict is Verdict.DIFFERENT:
                _log.warning(
                    "model '%s': its requests share batches of up to %d rows, as config.pbtxt says, but %s; set "
                    "max_batch_size to 0 unless that is meant",
                    *(self._config.name, rows, result.joined.reason),
                )
                doubts = (result.joined.reason,)
        return self._tried(rows, result, text, doubts)

    def as_shown(self) -> TriedModel:
        rows = self._options.default_max_batch_size
        result: WarmUp | None = None
        reason = obstacle(self._engine.inputs, self._outputs)
        if reason is None and rows == 1:
            rules = self.rules(1)
            return self._tried(1, self.run(rules), "batches of 1 row, as --default-max-batch-size says")
        if reason is None and not self._runs:
            reason = f"nothing was run ({'--no-warm-up' if not self._options.warm_up else 'mn.warm_up'})"
        if reason is None:
            try:
                result = self.run(self.rules(rows))
            except ModelConfigError as error:  # samples of a model without a batch dimension fit as soon as it has none
                reason = str(error)
        if result is not None and result.joined.verdict is Verdict.EQUAL:
            rows = self._fitting_rows(rows, result.row_bytes)
            return self._tried(rows, result, f"batches of up to {rows} rows: {result.joined.reason}")
        if result is not None:
            reason = result.joined.reason
        if result is None or not result.ran:
            result = self.run(self.rules(0))
        return self._tried(0, result, f"one request at a time: {reason}")

    def _fitting_rows(self, rows: int, row_bytes: float) -> int:
        """Lowers a batch size that nobody configured to what fits into half of the free memory."""
        free = available_bytes() if row_bytes else None
        if free is None or row_bytes * rows <= free / 2:
            return rows
        fitting = max(1, int(free / 2 / row_bytes))
        return 1 << (fitting.bit_length() - 1)

    def _tried(self, rows: int, result: WarmUp | None, batching: str, doubts: tuple[str, ...] = ()) -> TriedModel:
        if result is not None and not self._config.output:
            self._outputs = [_as_answered(self._config.name, spec, result.shapes) for spec in self._outputs]
        config = self._completed(rows)
        if rows == 0 and config.dynamic_batching.preferred_batch_size and not self._config.HasField("max_batch_size"):
            _log.warning(
                "model '%s': preferred_batch_size is ignored, as requests share no batch (%s); set max_batch_size to "
                "join them all the same",
                *(config.name, batching),
            )
            config.dynamic_batching.ClearField("preferred_batch_size")
        warn_of_output_shapes(config, self._outputs)
        off = "not run: " + ("switched off by --no-warm-up" if not self._options.warm_up else "mn.warm_up is false")
        return TriedModel(
            config=config,
            rules=signature(config, self._engine.inputs, self._outputs),
            findings=Findings(batching=batching, warm_up=off if result is None else result.text, doubts=doubts),
            warm_up=result,
        )

    def _completed(self, max_batch_size: int) -> ModelConfig:
        return complete(self._config, self._engine.inputs, self._outputs, max_batch_size=max_batch_size)


def _as_answered(model: str, spec: TensorSpec, shapes: Mapping[str, tuple[int, ...]]) -> TensorSpec:
    """Opens the sizes of an output that came otherwise than its file says; shapes in a file are hints."""
    actual = shapes.get(spec.name)
    if actual is None:
        return spec
    if len(actual) == len(spec.shape) and all(a in (-1, b) for a, b in zip(spec.shape, actual, strict=True)):
        return spec
    declared = f"is declared as {list(spec.shape)}" if spec.shape else "is declared without sizes"
    _log.info("model '%s': output '%s' %s, and came as %s", model, spec.name, declared, list(actual))
    return replace(spec, shape=(-1,) * len(actual))
