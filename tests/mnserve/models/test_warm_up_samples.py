"""Warm-up samples of config.pbtxt: the inputs they run on, and the faults that are refused."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mnserve.engines.base import TensorSpec
from mnserve.engines.fake import FakeEngine
from mnserve.errors import EngineLoadError, EngineRunError, ModelConfigError
from mnserve.models.loading import LoadedModel, LoadOptions, load
from mnserve.models.warm_up_samples import SampleLimits

WriteModel = Callable[..., Path]
Array = np.ndarray[Any, Any]


class Sampled:
    """A model ``m`` with one input ``x`` of two elements, and an engine that records its inputs."""

    def __init__(self, repository: Path, double_model: WriteModel) -> None:
        self.root = repository
        self._write = double_model
        self.folder = repository / "m"
        self.engine = FakeEngine()
        self.limits = SampleLimits()

    def use(self, datatype: str, function: Callable[[Mapping[str, Array]], Mapping[str, Array]] | None = None) -> None:
        spec = TensorSpec(name="x", datatype=datatype, shape=(-1, 2))
        self.engine = FakeEngine(
            inputs=[spec],
            outputs=[TensorSpec(name="y", datatype=datatype, shape=(-1, 2))],
            function=function or (lambda feeds: {"y": feeds["x"]}),
        )

    def put(self, name: str, content: bytes) -> None:
        (self.folder / "warmup").mkdir(parents=True, exist_ok=True)
        (self.folder / "warmup" / name).write_bytes(content)

    def load(self, *samples: str, batch: int = 4, **fields: Any) -> LoadedModel:
        self._write("m", config=f"max_batch_size: {batch} {' '.join(samples)}")
        options = LoadOptions(factory=lambda path, options: self.engine, sample_limits=self.limits, **fields)
        return load(self.root, "m", 1, options)

    def ran(self, *samples: str, batch: int = 4) -> list[Array]:
        """Inputs of the runs of the samples; what is run to compare rows comes after them."""
        self.load(*samples, batch=batch)
        found = [re.search(r"count: (\d+)", text) for text in samples]
        count = sum(1 if match is None else int(match[1]) for match in found)
        return [call["x"] for call in self.engine.calls[:count]]


@pytest.fixture
def sampled(repository: Path, double_model: WriteModel) -> Sampled:
    found = Sampled(repository, double_model)
    found.use("FP32")
    return found


def sample(data: str, *, kind: str = "FP32", dims: str = "2", name: str = "s", more: str = "", key: str = "x") -> str:
    value = f"data_type: TYPE_{kind} dims: [{dims}] {data}"
    return f'model_warmup {{ name: "{name}" {more} inputs {{ key: "{key}" value {{ {value} }} }} }}'


def test_zeros_and_random_numbers_are_run_as_often_as_configured(sampled: Sampled) -> None:
    zeros, once, thrice = (
        sample("zero_data: true", more="batch_size: 3"),
        sample("random_data: true"),
        sample("random_data: true", more="batch_size: 4 count: 3"),
    )
    runs = sampled.ran(zeros, once, thrice)
    assert [run.shape for run in runs] == [(3, 2), (1, 2), *[(4, 2)] * 3]
    assert not runs[0].any()
    assert len(np.unique(runs[1])) == 2
    assert all(0 <= run.min() <= run.max() < 1 and run.dtype == np.float32 for run in runs)


@pytest.mark.parametrize(
    ("datatype", "kind"),
    [("UINT8", "UINT8"), ("INT64", "INT64"), ("BOOL", "BOOL"), ("FP16", "FP16"), ("BF16", "BF16"), ("BYTES", "STRING")],
)
def test_random_samples_exist_for_every_element_type(sampled: Sampled, datatype: str, kind: str) -> None:
    sampled.use(datatype)
    (run,) = sampled.ran(sample("random_data: true", kind=kind, more="batch_size: 2"))
    assert run.shape == (2, 2)
    if datatype == "BYTES":
        assert run.tolist() == [[b"", b""]] * 2
    elif datatype == "BF16":
        numbers = (run.astype(np.uint32) << 16).view(np.float32)
        assert 0 <= numbers.min() <= numbers.max() < 1
        assert numbers.any()
    else:
        assert run.max() <= 127


def test_files_hold_one_row_or_all(sampled: Sampled) -> None:
    sampled.put("one", np.array([1, 2], "<f4").tobytes())
    sampled.put("all", np.arange(6, dtype="<f4").tobytes())
    runs = sampled.ran(
        sample('input_data_file: "one"', more="batch_size: 3"), sample('input_data_file: "all"', more="batch_size: 3")
    )
    assert [run.tolist() for run in runs] == [[[1, 2]] * 3, [[0, 1], [2, 3], [4, 5]]]


def test_files_hold_strings_as_requests_do(sampled: Sampled) -> None:
    sampled.use("BYTES")
    sampled.put("text", b"".join(struct.pack("<I", len(item)) + item for item in (b"ab", b"c")))
    (run,) = sampled.ran(sample('input_data_file: "text"', kind="STRING", more="batch_size: 2"))
    assert run.tolist() == [[b"ab", b"c"]] * 2


def test_a_model_without_a_batch_dimension_is_warmed_up_in_its_own_shape(sampled: Sampled) -> None:
    spec = TensorSpec(name="x", datatype="FP32", shape=(2,))
    sampled.engine = FakeEngine(inputs=[spec], outputs=[TensorSpec(name="y", datatype="FP32", shape=(2,))])
    sampled.put("one", np.array([1, 2], "<f4").tobytes())
    sampled.load(sample('input_data_file: "one"'), sample("random_data: true"), batch=0)
    assert [call["x"].shape for call in sampled.engine.calls] == [(2,)] * 2, "the samples, and nothing made up"
    assert sampled.engine.calls[0]["x"].tolist() == [1, 2]


def open_sizes(sampled: Sampled) -> None:
    """Gives the model a first dimension of any size and then another, and no batch dimension."""
    sampled.engine = FakeEngine(
        inputs=[TensorSpec(name="x", datatype="FP32", shape=(-1, -1))],
        outputs=[TensorSpec(name="y", datatype="FP32", shape=(-1, -1))],
        function=lambda feeds: {"y": feeds["x"]},
    )


OPEN = " ".join(
    f'{kind} {{ name: "{name}" data_type: TYPE_FP32 dims: [-1, -1] }}'
    for kind, name in (("input", "x"), ("output", "y"))
)


@pytest.mark.parametrize("data", ["zero_data: true", "random_data: true", 'input_data_file: "none"'])
def test_an_empty_batch_is_refused_as_in_requests(sampled: Sampled, data: str) -> None:
    open_sizes(sampled)
    sampled.put("none", b"")
    with pytest.raises(ModelConfigError, match=r"input 'x' has dims \[0, 4\] with 0 rows; give at least 1"):
        sampled.load(OPEN, sample(data, dims="0, 4"), batch=0)
    assert sampled.engine.closed
    assert sampled.engine.calls == []


def test_other_sizes_of_0_are_as_in_requests(sampled: Sampled) -> None:
    open_sizes(sampled)
    sampled.load(OPEN, sample("zero_data: true", dims="4, 0"), batch=0)
    assert sampled.engine.calls[-1]["x"].shape == (4, 0)


@pytest.mark.parametrize("dims", ["-1, 4", "4, -1", "-7, 4"])
def test_negative_sizes_do_not_stand_for_any(sampled: Sampled, dims: str) -> None:
    open_sizes(sampled)
    with pytest.raises(ModelConfigError, match=r"has dims .*, but the model takes \[-1, -1\]; sizes have to be given"):
        sampled.load(OPEN, sample("zero_data: true", dims=dims), batch=0)


def test_no_warm_up_runs_no_samples(sampled: Sampled) -> None:
    sampled.load(sample("zero_data: true"), warm_up=False)
    assert sampled.engine.calls == []


def test_a_sample_that_fails_keeps_the_model_from_being_served(sampled: Sampled) -> None:
    def no_ones(feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        if feeds["x"].any():
            raise EngineRunError("no ones")
        return {"y": feeds["x"]}

    sampled.use("FP32", no_ones)
    sampled.put("ones", np.ones(2, "<f4").tobytes())
    with pytest.raises(EngineLoadError, match=r"model 'm' fails on the warm-up sample 'mine' of .*: no ones"):
        sampled.load(sample('input_data_file: "ones"', name="mine"))
    assert sampled.engine.closed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (sample("zero_data: true", more="batch_size: 5"), r"batch_size 5; it may be up to 4 \(max_batch_size\)"),
        (sample("zero_data: true", key="q"), "has inputs q, but the model takes x"),
        ('model_warmup { name: "s" }', "has inputs none, but the model takes x"),
        (sample("zero_data: true", kind="FP16"), "input 'x' has another data_type than the model, which takes FP32"),
        (sample("zero_data: true", dims="3"), r"dims \[3\], but the model takes \[2\]"),
        (sample("zero_data: true", dims="-1"), r"dims \[-1\].*sizes have to be given"),
        (sample("zero_data: true", dims="2, 1"), r"dims \[2, 1\]"),
        (sample(""), "has no data; give zero_data, random_data or input_data_file"),
        (sample('input_data_file: "none"'), r"none is not there; put the file into warmup/"),
        (sample('input_data_file: "short"'), "short has 4 bytes, expected 8 for one row"),
        (
            sample('input_data_file: "short"', more="batch_size: 2"),
            "expected 8 for one row of .2., or 16 for all",
        ),
        (sample('input_data_file: "folder"'), "is no file"),
        (sample('input_data_file: "pipe"'), "is no file"),
        (sample('input_data_file: "out"'), "leads out of the model's folder"),
        (sample('input_data_file: "loop"'), "is not there"),
        *(
            (sample(f'input_data_file: "{name}"'), "expected the name of a file in warmup/")
            for name in (
                "..",
                ".",
                "",
                "../config.pbtxt",
                "a/b",
                "/etc/hostname",
                r"a\\b",
                r"a\000b",
            )
        ),
    ],
)
def test_invalid_samples_are_refused_and_close_the_engine(
    sampled: Sampled, tmp_path: Path, text: str, words: str
) -> None:
    sampled.put("short", b"1234")
    (tmp_path / "outside").write_bytes(bytes(8))
    warmup = sampled.folder / "warmup"
    (warmup / "out").symlink_to(tmp_path / "outside")
    (warmup / "loop").symlink_to(warmup / "loop")
    (warmup / "folder").mkdir()
    os.mkfifo(warmup / "pipe")
    with pytest.raises(ModelConfigError, match=rf"model 'm': warm-up sample 's' of config\.pbtxt.*{words}"):
        sampled.load(text)
    assert sampled.engine.closed


ONCE, THRICE = sample("zero_data: true"), sample("zero_data: true", more="count: 3")


def test_as_many_runs_as_the_limit_are_made(sampled: Sampled) -> None:
    sampled.limits = SampleLimits(runs=12)
    assert len(sampled.ran(*[THRICE] * 3, *[ONCE] * 3)) == 12


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        ([sample("zero_data: true", more="count: 4294967295")], r"samples .* \(1\) are run 4294967295 times;"),
        ([ONCE] * 13, r"samples .* \(13\) are run 13 times; it may be up to 12 together, so lower"),
        ([THRICE] * 5, r"samples .* \(5\) are run 15 times; it"),
        ([*[THRICE] * 2, ONCE, "instance_group { count: 2 }"], "are run 14 times in 2 instances; it may be up to 12"),
    ],
)
def test_too_many_runs_of_all_samples_together_are_refused(sampled: Sampled, samples: list[str], words: str) -> None:
    sampled.limits = SampleLimits(runs=12)
    with pytest.raises(ModelConfigError, match=rf"model 'm': .*{words}"):
        sampled.load(*samples)
    assert sampled.engine.calls == []
    assert sampled.engine.closed


def test_a_sample_of_as_many_bytes_as_the_limit_is_run(sampled: Sampled) -> None:
    sampled.limits = SampleLimits(nbytes=32)
    assert len(sampled.ran(sample("zero_data: true", more="batch_size: 4"))) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (sample("zero_data: true", more="batch_size: 5"), "has 40 bytes, which is more than the 32 of all inputs"),
        (sample('input_data_file: "large"'), "has 48 bytes, which is more than the 32 .*; give a lower batch_size"),
    ],
)
def test_a_sample_of_too_many_bytes_is_refused(sampled: Sampled, text: str, words: str) -> None:
    sampled.limits = SampleLimits(nbytes=32)
    sampled.put("large", bytes(48))
    with pytest.raises(ModelConfigError, match=f"input 'x' {words}"):
        sampled.load(text, batch=8)


def test_inputs_with_too_many_bytes_together_are_refused(sampled: Sampled) -> None:
    sampled.limits = SampleLimits(nbytes=32)
    specs = [TensorSpec(name=name, datatype="FP32", shape=(-1, 2)) for name in "xz"]
    sampled.engine = FakeEngine(inputs=specs, outputs=[TensorSpec(name="y", datatype="FP32", shape=(-1, 2))])
    value = "data_type: TYPE_FP32 dims: [2] zero_data: true"
    both = " ".join(f'inputs {{ key: "{name}" value {{ {value} }} }}' for name in "xz")
    with pytest.raises(ModelConfigError, match=r"input 'z' has 24 bytes, .* of a sample, of which 8 are left; give"):
        sampled.load(f'model_warmup {{ name: "s" batch_size: 3 {both} }}')


def test_a_folder_that_is_a_link_leads_out_too(sampled: Sampled, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "one").write_bytes(bytes(8))
    sampled.folder.mkdir()
    (sampled.folder / "warmup").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelConfigError, match="leads out of the model's folder"):
        sampled.load(sample('input_data_file: "one"'))


def test_a_link_within_the_folder_of_the_model_is_followed(sampled: Sampled) -> None:
    sampled.put("one", np.array([1, 2], "<f4").tobytes())
    (sampled.folder / "warmup" / "again").symlink_to("one")
    (run,) = sampled.ran(sample('input_data_file: "again"'))
    assert run.tolist() == [[1, 2]]


def test_a_sample_without_a_name_is_known_by_its_number(sampled: Sampled) -> None:
    with pytest.raises(ModelConfigError, match="sample 'number 2'"):
        sampled.load(sample("zero_data: true"), sample("", name=""))
