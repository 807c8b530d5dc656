"""Requests that config.pbtxt asks to be run before a model is called ready: ``model_warmup``.

Shapes: a sample gives each input without its batch dimension, once; it is repeated for the B rows of its batch. Files
lie in the folder ``warmup`` of the model and hold raw contents as requests do, for one row or for all B.
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

__all__ = ["MAX_RUNS", "MAX_SAMPLE_BYTES", "Sample", "samples"]

Array = np.ndarray[Any, Any]

FOLDER: Final = "warmup"
MAX_RUNS: Final = 10_000
"""Most runs of all samples of a model in all of its instances; it is not ready before the last."""
MAX_SAMPLE_BYTES: Final = 2**28
"""Most bytes of the inputs of one sample. Requests are smaller: a message is, by default, a quarter of that."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One warm-up request.

    Attributes:
        name: What it is called.
        work: The request.
        runs: How often it is run.
    """

    name: str
    work: InferenceWork
    runs: int


def samples(config: ModelConfig, rules: RequestSignature, folder: Path) -> Iterator[Sample]:
    """The samples of a configuration, one after the other.

    Args:
        config: The configuration.
        rules: What requests to the model have to look like.
        folder: The model's folder.

    Raises:
        ModelConfigError: A sample does not fit the model, is too large, or its file is not there; names the sample. Or
            they are run too often.
    """
    _check_runs(config)
    for number, message in enumerate(config.model_warmup, start=1):
        name = message.name or f"number {number}"
        where = f"model '{config.name}': warm-up sample '{name}' of config.pbtxt"
        yield Sample(name=name, work=_work(message, rules, folder, where), runs=_runs(message))


def _check_runs(config: ModelConfig) -> None:
    instances = instance_count(config)
    runs = instances * sum(map(_runs, config.model_warmup))
    if runs > MAX_RUNS:
        where = "" if instances == 1 else f" in {instances} instances"
        raise ModelConfigError(
            f"model '{config.name}': the warm-up samples of config.pbtxt ({len(config.model_warmup)}) are run {runs} "
            f"times{where}; it may be up to {MAX_RUNS} together, so lower their count or leave some out"
        )


def _runs(message: ModelWarmup) -> int:
    return message.count or 1


def _work(message: ModelWarmup, rules: RequestSignature, folder: Path, where: str) -> InferenceWork:
    rows, most = message.batch_size or 1, max(1, rules.max_batch_size)
    if rows > most:
        raise ModelConfigError(f"{where} has batch_size {rows}; it may be up to {most} (max_batch_size)")
    names = [rule.name for rule in rules.inputs]
    if sorted(names) != sorted(message.inputs):
        raise ModelConfigError(
            f"{where} has inputs {', '.join(sorted(message.inputs)) or 'none'}, but the model takes {', '.join(names)}"
        )
    batch = rows if rules.max_batch_size > 0 else None
    feeds: dict[str, Array] = {}
    room = MAX_SAMPLE_BYTES
    for rule in rules.inputs:
        what = f"{where}: input '{rule.name}'"
        if batch is None and rules.is_empty_batch(rule, message.inputs[rule.name].dims):
            dims = list(message.inputs[rule.name].dims)
            raise ModelConfigError(f"{what} has dims {dims} with 0 rows; give at least 1")
        feeds[rule.name] = array = _array(message.inputs[rule.name], rule, batch, folder, what, room)
        room -= array.nbytes
    return InferenceWork(feeds=feeds, rows=rows, outputs=rules.default_outputs)


def _array(item: ModelWarmup.Input, rule: TensorRule, batch: int | None, folder: Path, what: str, room: int) -> Array:
    """[B, *dims], or [*dims] for a model without a batch dimension (``batch`` is None); of ``room`` bytes at most."""
    dims, datatype = list(item.dims), rule.datatype
    if BY_CONFIG_TYPE.get(item.data_type) is not datatype:
        raise ModelConfigError(f"{what} has another data_type than the model, which takes {datatype.name}")
    if len(dims) != len(rule.dims) or any(
        given < 0 or size not in (-1, given) for size, given in zip(rule.dims, dims, strict=True)
    ):
        raise ModelConfigError(f"{what} has dims {dims}, but the model takes {list(rule.dims)}; sizes have to be given")
    try:
        _check_room(element_count([batch or 1, *dims], datatype, what) * datatype.dtype.itemsize, room, what)
        kind = item.WhichOneof("input_data_type")
        if kind == "input_data_file":
            path = _file(folder, item.input_data_file, what)
            _check_room(path.stat().st_size, room, what)
            return _read(path, datatype, dims, batch, what)
        if kind is None:
            raise ModelConfigError(f"{what} has no data; give zero_data, random_data or input_data_file")
        row = _random(datatype, dims) if kind == "random_data" else datatype.zeros(dims)
        return row if batch is None else _repeat(row, batch)
    except InvalidRequestError as error:
        raise ModelConfigError(str(error)) from error
    except MemoryError as error:
        raise ModelConfigError(f"{what} has dims {dims}, for which there is no memory; give smaller ones") from error


def _check_room(size: int, room: int, what: str) -> None:
    if size > room:
        raise ModelConfigError(
            f"{what} has {size} bytes, which is more than the {MAX_SAMPLE_BYTES} of all inputs of a sample"
            f"{'' if room == MAX_SAMPLE_BYTES else f', of which {room} are left'}; give a lower batch_size or smaller "
            "inputs"
        )


def _random(datatype: Datatype, dims: list[int]) -> Array:
    """Values that models take: numbers from 0 to 1, integers from 0 to 127, strings without content as zeros have."""
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
    size, row = path.stat().st_size, element_count(dims, datatype, what) * datatype.dtype.itemsize
    whole = row * (batch or 1)
    if not datatype.is_bytes and size not in (row, whole):
        raise ModelConfigError(
            f"{what}: {path.name} has {size} bytes, expected {row} for one row of {dims}"
            f"{'' if whole == row else f', or {whole} for all'}"
        )
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ModelConfigError(f"{what}: cannot read {path}: {error.strerror}") from error
    if batch is None:
        return raw_to_array(raw, datatype, dims, what)
    if datatype.is_bytes or len(raw) == row:
        return _repeat(raw_to_array(raw, datatype, dims, what), batch)
    return raw_to_array(raw, datatype, [batch, *dims], what)


def _file(folder: Path, name: str, what: str) -> Path:
    """The file of a sample, which has to lie in the model's own folder."""
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
