"""Warm-up requests of config.pbtxt (``model_warmup``), which run before a model is ready.

Shapes: a sample has each input without the batch dimension; the row is repeated for the B rows of the batch. Files lie
in the folder ``warmup`` of the model and have raw contents as in requests, for one row or for all B.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from mnserve.codec.datatypes import BY_CONFIG_TYPE, Datatype
from mnserve.codec.decoding import InferenceWork
from mnserve.codec.signature import RequestSignature, TensorRule
from mnserve.codec.tensors import element_count, raw_to_array
from mnserve.engines.instance_groups import instance_count
from mnserve.errors import InvalidRequestError, ModelConfigError
from mnserve.protocol.model_config_pb2 import ModelConfig, ModelWarmup

Array = np.ndarray[Any, Any]

FOLDER: Final = "warmup"


@dataclass(frozen=True, kw_only=True)
class SampleLimits:
    """Limits of the warm-up samples of one model.

    Attributes:
        runs: Most runs of all samples in all instances; the model is not ready before the last.
        nbytes: Most bytes of the inputs of one sample. By default a message has a quarter of this at most.
    """

    runs: int = 10_000
    nbytes: int = 2**28


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Warm-up request.

    Attributes:
        name: Name of the sample.
        work: The request.
        runs: Number of runs.
    """

    name: str
    work: InferenceWork
    runs: int


def samples(config: ModelConfig, rules: RequestSignature, folder: Path, limits: SampleLimits) -> Iterator[Sample]:
    """Yields the samples of a configuration, one after the other.

    Args:
        config: The configuration.
        rules: Rules for requests to the model.
        folder: Folder of the model.
        limits: Limits of the samples.

    Raises:
        ModelConfigError: A sample does not fit the model, is too large, or its file is missing; the message names the
            sample. Or the samples have too many runs.
    """
    _check_runs(config, limits.runs)
    for number, message in enumerate(config.model_warmup, start=1):
        name = message.name or f"number {number}"
        where = f"model '{config.name}': warm-up sample '{name}' of config.pbtxt"
        yield Sample(name=name, work=_work(message, rules, folder, where, limits.nbytes), runs=_runs(message))


def _check_runs(config: ModelConfig, limit: int) -> None:
    instances = instance_count(config)
    runs = instances * sum(map(_runs, config.model_warmup))
    if runs > limit:
        where = "" if instances == 1 else f" in {instances} instances"
        raise ModelConfigError(
            f"model '{config.name}': the warm-up samples of config.pbtxt ({len(config.model_warmup)}) are run {runs} "
            f"times{where}; it may be up to {limit} together, so lower their count or leave some out"
        )


def _runs(message: ModelWarmup) -> int:
    return message.count or 1


def _work(message: ModelWarmup, rules: RequestSignature, folder: Path, where: str, max_bytes: int) -> InferenceWork:
    rows, max_rows = message.batch_size or 1, max(1, rules.max_batch_size)
    if rows > max_rows:
        raise ModelConfigError(f"{where} has batch_size {rows}; it may be up to {max_rows} (max_batch_size)")
    names = [rule.name for rule in rules.inputs]
    replaced = [rule for rule in rules.optional_inputs if rule.name in message.inputs]
    if sorted([*names, *(rule.name for rule in replaced)]) != sorted(message.inputs):
        raise ModelConfigError(
            f"{where} has inputs {', '.join(sorted(message.inputs)) or 'none'}, but the model takes {', '.join(names)}"
        )
    batch = rows if rules.max_batch_size > 0 else None
    feeds: dict[str, Array] = {}
    budget = _ByteBudget(limit=max_bytes, remaining=max_bytes)
    for rule in (*rules.inputs, *replaced):
        what = f"{where}: input '{rule.name}'"
        count = None if rule.optional else batch
        if count is None and rules.is_empty_batch(rule, message.inputs[rule.name].dims):
            dims = list(message.inputs[rule.name].dims)
            raise ModelConfigError(f"{what} has dims {dims} with 0 rows; give at least 1")
        feeds[rule.name] = array = _array(message.inputs[rule.name], rule, count, folder, what, budget)
        budget.remaining -= array.nbytes
    return InferenceWork(feeds=feeds, rows=rows, outputs=rules.default_outputs, alone=bool(replaced))


@dataclass(kw_only=True)
class _ByteBudget:
    """Bytes that the inputs of one sample may still take."""

    limit: int
    remaining: int

    def check(self, size: int, what: str) -> None:
        if size > self.remaining:
            raise ModelConfigError(
                f"{what} has {size} bytes, which is more than the {self.limit} of all inputs of a sample"
                f"{'' if self.remaining == self.limit else f', of which {self.remaining} are left'}; give a lower "
                "batch_size or smaller inputs"
            )


def _array(
    sample: ModelWarmup.Input, rule: TensorRule, batch: int | None, folder: Path, what: str, budget: _ByteBudget
) -> Array:
    """Builds an input [B, *dims], or [*dims] for a model without a batch dimension (``batch`` is None)."""
    dims, datatype = list(sample.dims), rule.datatype
    if BY_CONFIG_TYPE.get(sample.data_type) is not datatype:
        raise ModelConfigError(f"{what} has another data_type than the model, which takes {datatype.name}")
    if len(dims) != len(rule.dims) or any(
        size < 0 or rule_size not in (-1, size) for rule_size, size in zip(rule.dims, dims, strict=True)
    ):
        raise ModelConfigError(f"{what} has dims {dims}, but the model takes {list(rule.dims)}; sizes have to be given")
    try:
        budget.check(element_count([batch or 1, *dims], datatype, what) * datatype.dtype.itemsize, what)
        kind = sample.WhichOneof("input_data_type")
        if kind == "input_data_file":
            path = _file(folder, sample.input_data_file, what)
            budget.check(path.stat().st_size, what)
            return _read(path, datatype, dims, batch, what)
        if kind is None:
            raise ModelConfigError(f"{what} has no data; give zero_data, random_data or input_data_file")
        row = _random(datatype, dims) if kind == "random_data" else datatype.zeros(dims)
        return row if batch is None else _repeat(row, batch)
    except InvalidRequestError as error:
        raise ModelConfigError(str(error)) from error
    except MemoryError as error:
        raise ModelConfigError(f"{what} has dims {dims}, for which there is no memory; give smaller ones") from error


def _random(datatype: Datatype, dims: list[int]) -> Array:
    """Draws values that models accept: floats from 0 to 1, integers from 0 to 127, empty strings."""
    generator = np.random.default_rng(0)
    if datatype.is_bytes:
        return datatype.zeros(dims)
    if datatype.name == "BF16":
        return (generator.random(dims, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if datatype.floating:
        return generator.random(dims).astype(datatype.dtype)
    return generator.integers(0, 2 if datatype.name == "BOOL" else 128, dims).astype(datatype.dtype)


def _repeat(row: Array, batch: int) -> Array:
    return np.repeat(row[None], batch, axis=0)


def _read(path: Path, datatype: Datatype, dims: list[int], batch: int | None, what: str) -> Array:
    size, row_bytes = path.stat().st_size, element_count(dims, datatype, what) * datatype.dtype.itemsize
    batch_bytes = row_bytes * (batch or 1)
    if not datatype.is_bytes and size not in (row_bytes, batch_bytes):
        raise ModelConfigError(
            f"{what}: {path.name} has {size} bytes, expected {row_bytes} for one row of {dims}"
            f"{'' if batch_bytes == row_bytes else f', or {batch_bytes} for all'}"
        )
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ModelConfigError(f"{what}: cannot read {path}: {error.strerror}") from error
    if batch is None:
        return raw_to_array(raw, datatype, dims, what)
    if datatype.is_bytes or len(raw) == row_bytes:
        return _repeat(raw_to_array(raw, datatype, dims, what), batch)
    return raw_to_array(raw, datatype, [batch, *dims], what)


def _file(folder: Path, name: str, what: str) -> Path:
    """Finds the file of a sample, which has to lie in the folder of the model."""
    if name in ("", ".", "..") or any(mark in name for mark in "/\\\0"):
        raise ModelConfigError(f"{what}: input_data_file is {name!r}, expected the name of a file in {FOLDER}/")
    path = folder / FOLDER / name
    try:
        resolved = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise ModelConfigError(f"{what}: {path} is not there; put the file into {FOLDER}/") from error
    if not resolved.is_relative_to(folder.resolve()) or not resolved.is_file():
        raise ModelConfigError(f"{what}: {path} leads out of the model's folder, or is no file; put a file there")
    return resolved
