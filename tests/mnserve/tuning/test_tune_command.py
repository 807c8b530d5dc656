"""``mnserve tune`` from options to files, with a formula in place of servers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mnserve.bench.statistics import Slot
from mnserve.bench.timing import TimingPlan
from mnserve.commands.tune import run
from mnserve.engines import thread_count as engine_threads
from mnserve.errors import BenchError, MnServeError, ModelConfigError, ModelNotFoundError, OutputError, TuningError
from mnserve.repository.reader import read_config
from mnserve.tuning import configuration, settings
from mnserve.tuning.candidate import Candidate
from mnserve.tuning.measurement import ServerMeasurement
from mnserve.tuning.scores import Trial
from mnserve.tuning.settings import TuneSettings

Formula = Callable[[Candidate], tuple[float, float]]


def tune(repository: Path, model: str = "m", **fields: Any) -> int:
    return run(TuneSettings(repository=str(repository), model=model, **({"latency_ms": 20.0, "repeats": 2} | fields)))


def instances_help(candidate: Candidate) -> tuple[float, float]:
    return 1_000.0 * candidate.instances, 10.0


@pytest.fixture(autouse=True)
def four_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (engine_threads, configuration, settings):
        monkeypatch.setattr(module, "available_cpus", lambda: 4)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[[Formula], list[str | None]]:
    """Replaces servers by a formula (throughput, latency in ms); returns the configurations that were tried."""

    def install(formula: Formula) -> list[str | None]:
        tried: list[str | None] = []

        def measure(self: ServerMeasurement, candidate: Candidate) -> Trial:
            tried.append(self.configuration(candidate))
            throughput, latency = formula(candidate)
            slot = Slot(latencies_ms=(latency,) * 20, wall_s=20 / throughput)
            return Trial(slots=dict.fromkeys(self.loads, slot))

        monkeypatch.setattr(ServerMeasurement, "__call__", measure)
        return tried

    return install


@pytest.fixture
def model(repository: Path, double_model: Callable[..., Path]) -> Path:
    return double_model("m", config="# mine\nmax_batch_size: 8\n")


def files(model: Path) -> dict[str, str]:
    return {entry.name: entry.read_text() for entry in model.iterdir() if entry.is_file()}


def test_the_chosen_configuration_is_written_and_reported(
    model: Path, machine: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tried = machine(instances_help)
    before = files(model)
    out, plot = tmp_path / "tuning.json", tmp_path / "tuning.svg"
    assert tune(model.parent, json=str(out), plot=str(plot)) == 0
    config = read_config(model.parent, "m")
    assert [group.count for group in config.instance_group] == [4]
    assert config.parameters["intra_op_thread_count"].string_value == "1"
    assert config.max_batch_size == 8
    after = files(model)
    assert after["config.pbtxt.before-tune"] == before["config.pbtxt"]
    assert after["config.pbtxt"] in tried  # to the letter what a server ran with
    assert tried[0] == before["config.pbtxt"]

    printed = capsys.readouterr()
    assert "m: p99 within 20 ms" in printed.out
    assert "Chosen: batches of up to 8, delay 0 ms, 4 instances of 1 thread: 4,000 rows/s, p99 10 ms" in printed.out
    assert "now 1,000 rows/s" in printed.out
    assert "the file of before is config.pbtxt.before-tune" in printed.out
    assert printed.err == ""  # no progress where there is no terminal

    result = json.loads(out.read_text())
    assert result["schema"] == 1
    assert result["current"] == {"max_batch_size": 8, "delay_us": 0, "instances": 1, "threads": 4}
    assert result["chosen"] == {"max_batch_size": 8, "delay_us": 0, "instances": 4, "threads": 1}
    assert result["config"] == after["config.pbtxt"]
    assert (Path(result["written"]).name, Path(result["kept"]).name) == ("config.pbtxt", "config.pbtxt.before-tune")
    assert len({(entry["instances"], entry["threads"], entry["delay_us"]) for entry in result["measured"]}) > 5
    assert plot.read_text().count("chosen: batches of up to 8") == 1


def test_a_dry_run_writes_nothing_and_shows_what_it_would(
    model: Path, machine: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    machine(instances_help)
    before = files(model)
    assert tune(model.parent, dry_run=True, json="-") == 0
    assert files(model) == before
    printed = capsys.readouterr()
    assert "Not written (--dry-run)." in printed.err
    assert "intra_op_thread_count" in printed.err
    result = json.loads(printed.out)  # JSON alone
    assert "count: 4" in result["config"]
    assert result["written"] is None


def test_no_candidate_writes_nothing_and_says_how_far_it_got(
    model: Path, machine: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    machine(lambda candidate: (100.0, 60.0 - candidate.instances))
    before = files(model)
    with pytest.raises(TuningError, match=r"no configuration keeps p99 within 20 ms; the lowest .* 56 ms, with .*4 in"):
        tune(model.parent, json=str(tmp_path / "a.json"))
    assert files(model) == before
    assert "missed" in capsys.readouterr().out  # what was measured is worth reading
    assert json.loads((tmp_path / "a.json").read_text())["chosen"] is None


def test_a_current_configuration_that_is_best_stays_to_the_letter(
    model: Path, machine: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    now = Candidate(max_batch_size=8, delay_us=0, instances=1, threads=4)
    machine(lambda candidate: (1_000.0 if candidate == now else 100.0, 10.0))
    before = files(model)
    assert tune(model.parent) == 0
    assert files(model) == before
    printed = capsys.readouterr().out
    assert "What is configured already is best" in printed
    assert "Nothing was written." in printed


def test_a_model_without_a_file_gets_one(model: Path, machine: Any) -> None:
    (model / "config.pbtxt").unlink()
    tried = machine(instances_help)
    assert tune(model.parent) == 0
    assert tried[0] is None
    assert files(model).keys() == {"config.pbtxt"}
    config = read_config(model.parent, "m")
    assert config.max_batch_size == 32  # what it was without the file
    assert config.instance_group[0].count == 4


def test_smaller_batches_are_never_chosen_unasked(model: Path, machine: Any, capsys: Any) -> None:
    machine(lambda candidate: (1_000.0 / candidate.max_batch_size, 10.0))
    assert tune(model.parent, callers="4") == 0
    assert read_config(model.parent, "m").max_batch_size == 8
    assert "max_batch_size stays 8" in capsys.readouterr().out
    assert tune(model.parent, callers="4", allow_smaller_batches=True) == 0
    assert read_config(model.parent, "m").max_batch_size == 1


def test_a_model_without_batches_is_searched_for_threads_and_instances(
    repository: Path, onnx_model: Callable[..., Path], machine: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = ("INT64", [2, 3])
    onnx_model("m", [("Add", ["x", "x"], ["y"])], {"x": whole}, {"y": whole})
    tried = machine(instances_help)
    assert tune(repository) == 0
    assert not any("dynamic_batching" in (text or "") for text in tried)
    assert "Chosen: 4 instances of 1 thread: 4,000 rows/s" in capsys.readouterr().out
    with pytest.raises(BenchError, match="--rows is 2, and model 'm' has no batch dimension; leave --rows out"):
        tune(repository, rows=2)


def test_a_file_that_changed_meanwhile_is_left_alone_and_the_table_is_shown(
    model: Path, machine: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def formula(candidate: Candidate) -> tuple[float, float]:
        (model / "config.pbtxt").write_text("max_batch_size: 4")
        return instances_help(candidate)

    machine(formula)
    with pytest.raises(TuningError, match="was changed while this measured"):
        tune(model.parent)
    assert files(model) == {"config.pbtxt": "max_batch_size: 4"}
    assert "Chosen: " in capsys.readouterr().out


def test_an_interruption_leaves_everything_as_it_was(
    model: Path, machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: Candidate) -> tuple[float, float]:
        raise KeyboardInterrupt

    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    machine(interrupted)
    before = files(model)
    with pytest.raises(KeyboardInterrupt):
        tune(model.parent)
    assert files(model) == before
    assert list(scratch.iterdir()) == []


def test_few_calls_are_pointed_out(model: Path, machine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    machine(instances_help)
    assert tune(model.parent, dry_run=True, percentile=95.0) == 0
    printed = capsys.readouterr().out
    assert "Only 20 calls in a round of the finals, where 200 would make p95 steady" in printed
    assert "Do not rely" not in printed
    assert tune(model.parent, dry_run=True, percentile=50.0) == 0
    assert "Only" not in capsys.readouterr().out


def test_the_verdict_says_where_a_percentile_is_the_slowest_call(
    model: Path, machine: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    machine(instances_help)
    out = tmp_path / "tuning.json"
    doubt = (
        "Do not rely on p99: a round had as few as 20 calls, of which it is the slowest, and only of 100 or more is it "
        "not; raise --seconds to 10, or lower --percentile to 95"
    )
    assert tune(model.parent, dry_run=True, json=str(out)) == 0
    printed = capsys.readouterr().out
    assert doubt in printed
    assert "Only" not in printed  # one complaint about too few calls is enough
    assert "kept?" in printed
    result = json.loads(out.read_text())
    assert doubt in result["verdict"]
    assert {entry["enough_calls"] for entry in result["measured"]} == {False}
    machine(lambda _: (100.0, 60.0))
    with pytest.raises(TuningError, match=r"model\. Do not rely on p99: .*; config\.pbtxt is left as it is"):
        tune(model.parent)
    assert tune(model.parent, dry_run=True, percentile=100.0, latency_ms=60.0) == 0
    assert "Do not rely" not in capsys.readouterr().out  # of the slowest call nobody expects another thing


def test_advice_keeps_to_the_limits_of_the_options(
    model: Path, machine: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    machine(instances_help)
    assert tune(model.parent, dry_run=True, percentile=99.999, seconds=60.0) == 0
    printed = capsys.readouterr().out
    assert "Do not rely on p99.999: " in printed
    assert "only of 100000 or more is it not; lower --percentile to 95" in printed
    assert "--seconds" not in printed


def test_slow_candidates_are_measured_for_the_calls_of_the_percentile(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[TimingPlan] = []

    def interleave(_: Any, plan: TimingPlan) -> list[list[Slot]]:
        plans.append(plan)
        return [[Slot(latencies_ms=(10.0,) * 20, wall_s=1.0)]]

    for name in ("server_process", "Client"):
        monkeypatch.setattr(f"mnserve.tuning.measurement.{name}", lambda *_: contextlib.nullcontext("address"))
    monkeypatch.setattr("mnserve.tuning.measurement.interleave", interleave)
    assert tune(model.parent, dry_run=True, percentile=99.5, seconds=3.0, callers="2") == 0
    assert set(plans) == {TimingPlan(seconds=3.0, rounds=1, concurrency=2, least_calls=200, stretch=5.0)}


@pytest.mark.parametrize(
    ("config", "fields", "kind", "words"),
    [
        ("max_batch_size: 8", {"model": "gone"}, ModelNotFoundError, "no model 'gone'; it has m"),
        ("max_batch_size: 8 }", {}, ModelConfigError, "does not parse"),
        ("max_batch_size: 8 instance_group { count: 65 }", {}, ModelConfigError, "asks for 65 instances"),
        ("max_batch_size: 8", {"rows": 9}, BenchError, "--rows is 9, and model 'm' takes at most 8 rows in a request"),
        ("max_batch_size: 8", {"max_batch_size": 4}, BenchError, "--max-batch-size is 4, and model 'm' takes"),
        ("max_batch_size: 8", {"shape": ["z:3"]}, BenchError, "--shape names the input 'z', the inputs are x"),
        ("max_batch_size: 8", {"json": "/nowhere/a.json"}, OutputError, "the folder /nowhere does not exist"),
    ],
)
def test_faults_are_reported_before_the_measurement(
    repository: Path,
    double_model: Callable[..., Path],
    machine: Any,
    config: str,
    fields: dict[str, Any],
    kind: type[MnServeError],
    words: str,
) -> None:
    tried = machine(instances_help)
    double_model("m", config=config)
    with pytest.raises(kind, match=words):
        tune(repository, **fields)
    assert tried == []


def test_a_folder_that_may_not_be_written_to_is_found_out_first(
    model: Path, machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = machine(instances_help)
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(OutputError, match=r"config\.pbtxt: the folder .* is not writable"):
        tune(model.parent)
    assert tried == []
    assert tune(model.parent, dry_run=True) == 0


@pytest.mark.parametrize(
    ("kind", "shape", "words"),
    [
        ("STRING", ["batch", 1], "holds strings"),
        ("FLOAT", ["batch", "any"], "choose sizes with --shape x:SIZE"),
    ],
)
def test_inputs_that_cannot_be_generated_are_refused_before_any_trial(
    repository: Path, onnx_model: Callable[..., Path], machine: Any, kind: str, shape: list[Any], words: str
) -> None:
    tensor = (kind, shape)
    onnx_model("m", [("Identity", ["x"], ["y"])], {"x": tensor}, {"y": tensor})
    tried = machine(instances_help)
    with pytest.raises(BenchError, match=words):
        tune(repository)
    assert tried == []


def test_candidates_are_described_in_words() -> None:
    candidate = Candidate(max_batch_size=8, delay_us=500, instances=1, threads=2)
    assert candidate.label == "batches of up to 8, delay 0.5 ms, 1 instance of 2 threads"
    assert replace(candidate, max_batch_size=0, instances=2, threads=1).label == "2 instances of 1 thread"


@pytest.mark.parametrize("callers", ["16", "1,16"])
def test_the_table_fits_a_terminal_and_cuts_no_number(
    model: Path, machine: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, callers: str
) -> None:
    monkeypatch.setattr("mnserve.bench.report._LOG_COLUMNS", 80)
    machine(lambda candidate: (12_345.0 * candidate.instances, 19.75))
    assert tune(model.parent, callers=callers) == 0
    table = capsys.readouterr().out.split("gRPC, callers")[0]
    assert "…" not in table
    if callers == "16":
        assert "49,380" in table
        assert "chosen" in table
        assert "now" in table
