"""A server of several processes is one server: its answers, its numbers, and what is left of it after each death."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import onnx
import onnx.parser
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

StartServer = Callable[..., Any]
WriteModel = Callable[..., Path]


def children(server: Any, role: str) -> list[int]:
    """Processes of a role that a server has now."""
    own = server.process.pid
    pids = [int(pid) for pid in Path(f"/proc/{own}/task/{own}/children").read_text().split()]
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            if role in Path(f"/proc/{pid}/cmdline").read_text():
                found.append(pid)
    return found


def ask(client: Any, value: float, model: str = "double", **options: Any) -> float:
    tensor = triton.InferInput("x", [1, 4], "FP32")
    tensor.set_data_from_numpy(np.full((1, 4), value, np.float32))
    return float(client.infer(model, [tensor], **options).as_numpy("y")[0, 0])


@contextlib.contextmanager
def clients(server: Any, count: int) -> Iterator[list[Any]]:
    """Clients with a connection each, which the system spreads over the front ends."""
    with contextlib.ExitStack() as stack:
        options = [("grpc.use_local_subchannel_pool", 1)]
        yield [
            stack.enter_context(triton.InferenceServerClient(server.address, channel_args=options))
            for _ in range(count)
        ]


def patiently(call: Callable[[], float]) -> float:
    """Result of a call that may be refused for some seconds, as a client with retries has it."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return call()
        except InferenceServerException as error:
            if error.status() != "StatusCode.UNAVAILABLE" or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    try:
        return "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except OSError:
        return True


@pytest.fixture(scope="module")
def server(start_server: StartServer, write_models: Callable[[Path], None], tmp_path_factory: Any) -> Any:
    """Two front ends and one engine process, whose models callers load."""
    root = tmp_path_factory.mktemp("repository")
    write_models(root)
    words = ("--front-ends", "2", "--model-control", "explicit", "--load-model", "double", "slow")
    return start_server(root, *words)


def test_every_front_end_answers_and_the_numbers_are_those_of_all(server: Any) -> None:
    with clients(server, 12) as callers:
        assert [ask(caller, 3) for caller in callers] == [6.0] * 12
        numbers = {caller.get_inference_statistics("double").model_stats[0].inference_count for caller in callers}
        assert numbers == {12}
    assert server.metric('nv_inference_request_success{model="double"') == 12
    assert server.metric('nv_inference_exec_count{model="double"') == 12


def test_a_load_and_an_unload_are_seen_by_every_front_end_at_once(server: Any) -> None:
    with clients(server, 8) as callers:
        for _ in range(3):
            callers[0].load_model("plain")
            assert all(caller.is_model_ready("plain") for caller in callers)
            callers[1].unload_model("plain")
            assert not any(caller.is_model_ready("plain") for caller in callers)
        with pytest.raises(InferenceServerException, match="failed to load 'broken'"):
            callers[2].load_model("broken")
        assert not any(caller.is_server_ready() for caller in callers)
        callers[2].unload_model("broken")
        assert all(caller.is_server_ready() for caller in callers)
        callers[3].update_log_settings({"log_verbose_level": 1})
        levels = [caller.get_log_settings().settings["log_verbose_level"].uint32_param for caller in callers]
        assert levels == [1] * 8
        callers[4].update_log_settings({"log_verbose_level": 0, "log_info": True})


def test_a_front_end_that_is_killed_costs_its_own_callers_alone(server: Any) -> None:
    before = server.metric('nv_inference_request_success{model="double"')
    with clients(server, 12) as callers:
        assert [ask(caller, 3) for caller in callers] == [6.0] * 12
        victim = children(server, "front_end")[0]
        os.kill(victim, signal.SIGKILL)
        lost = 0
        for caller in callers:
            try:
                assert ask(caller, 4) == 8.0
            except InferenceServerException:
                lost += 1
        assert lost < 12
        wait_for(lambda: len(children(server, "front_end")) == 2 and victim not in children(server, "front_end"))
    with clients(server, 12) as callers:
        assert [patiently(lambda caller=caller: ask(caller, 5)) for caller in callers] == [10.0] * 12  # type: ignore[misc]
    assert server.metric('nv_inference_request_success{model="double"') == before + 24 + 12 - lost


def test_an_engine_process_that_is_killed_takes_no_connection_along(server: Any) -> None:
    before = server.metric('nv_inference_exec_count{model="double"')
    with clients(server, 6) as callers:
        assert [ask(caller, 3) for caller in callers] == [6.0] * 6
        lost: list[str] = []

        def run(caller: Any) -> None:
            with pytest.raises(InferenceServerException) as caught:
                ask(caller, 3, "slow")
            lost.append(f"{caught.value.status()}: {caught.value.message()}")

        threads = [threading.Thread(target=run, args=(caller,)) for caller in callers[1:]]
        for thread in threads:
            thread.start()
        wait_for(lambda: server.metric('nv_inference_pending_request_count{model="slow"') > 0)  # one runs, others wait
        os.kill(children(server, "engine")[0], signal.SIGKILL)
        assert ask(callers[0], 4) == 8.0  # waits for the next one
        for thread in threads:
            thread.join()
        assert len(lost) == 5
        assert all("UNAVAILABLE: model 'slow': its engine process ended while it ran" in text for text in lost)
        assert [ask(caller, 5) for caller in callers] == [10.0] * 6
        assert patiently(lambda: ask(callers[0], 3, "slow")) == pytest.approx(3)
        assert callers[0].is_server_ready()
        assert callers[0].get_inference_statistics("double").model_stats[0].execution_count == before + 13
    assert server.metric('nv_inference_exec_count{model="double"') == before + 13


def test_nothing_is_left_of_a_server_that_is_killed(
    start_server: StartServer, repository: Path, double_model: WriteModel
) -> None:
    double_model()
    server = start_server(repository, "--front-ends", "1")
    pids = [*children(server, "front_end"), *children(server, "engine")]
    assert len(pids) == 2
    shared = set(os.listdir("/dev/shm"))
    server.process.kill()
    server.process.wait(20)
    wait_for(lambda: all(map(is_gone, pids)))
    assert set(os.listdir("/dev/shm")) <= shared
    with pytest.raises(grpc.FutureTimeoutError):
        grpc.channel_ready_future(grpc.insecure_channel(server.address)).result(0.2)


def test_a_drain_finishes_what_was_admitted_by_all_front_ends(server: Any) -> None:
    results: list[float] = []
    with clients(server, 4) as callers:
        threads = [
            threading.Thread(target=lambda caller=caller: results.append(ask(caller, 7, "slow"))) for caller in callers
        ]
        for thread in threads:
            thread.start()
        wait_for(lambda: server.metric('nv_inference_pending_request_count{model="slow"') > 0 or len(results) > 0)
        server.process.terminate()
        for thread in threads:
            thread.join()
    assert server.process.wait(30) == 0, server.log()
    assert results == [pytest.approx(7)] * 4
    assert "Traceback" not in server.log()


@pytest.fixture(scope="module")
def engines(start_server: StartServer, tmp_path_factory: Any) -> Any:
    """One front end, two engine processes, and models that end or stop them: ``fragile`` at zeros, ``endless`` always.

    ONNX Runtime's Einsum divides by zero where no row is left.
    """
    root = tmp_path_factory.mktemp("repository")
    step = "step (int64 i, bool c, float[N,4] v) => (bool go, float[N,4] w) { go = Identity(c) w = Mul(v, v) }"
    einsum = 'e = Einsum<equation = "nmd,bnd->bnm">(square, rows3) s = ReduceSum<keepdims = 0>(e) n = Mul(s, zero)'
    graphs = {
        "double": "y = Add(x, x)",
        "endless": f"yes = Constant<value = bool {{1}}>() y = Loop<body = {step}>(, yes, x)",
        "fragile": "axis = Constant<value = int64[1] {1}>() zero = Constant<value = float {0}>() "
        "square = Constant<value = float[1,4,4] {1,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1}>() "
        "sums = ReduceSum<keepdims = 0>(x, axis) keep = Greater(sums, zero) rows = Compress<axis = 0>(x, keep) "
        f"rows3 = Unsqueeze(rows, axis) {einsum} y = Add(x, n)",
    }
    for name, body in graphs.items():
        text = f'<ir_version: 8, opset_import: ["" : 18]> g (float[N,4] x) => (float[N,4] y) {{ {body} }}'
        folder = root / name / "1"
        folder.mkdir(parents=True)
        onnx.save(onnx.parser.parse_model(text), folder / "model.onnx")
        warm_up = "" if name == "fragile" else 'parameters { key: "mn.warm_up" value { string_value: "false" } }'
        (root / name / "config.pbtxt").write_text(f"max_batch_size: 4\n{warm_up}")
    words = ("--front-ends", "1", "--engine-processes", "2", "--model-control", "explicit", "--run-timeout", "0.5")
    return start_server(root, *words, "--load-model", "double", "endless")


def test_two_engine_processes_have_cpus_of_their_own_and_serve_in_turn(engines: Any) -> None:
    first, second = children(engines, "engine")
    if len(os.sched_getaffinity(0)) > 1:
        assert not os.sched_getaffinity(first) & os.sched_getaffinity(second)
    with clients(engines, 1) as (caller,):
        assert ask(caller, 3) == 6.0
        os.kill(first, signal.SIGKILL)
        assert [ask(caller, value) for value in range(20)] == [2.0 * value for value in range(20)]
        assert caller.is_server_ready()
        wait_for(lambda: len(children(engines, "engine")) == 2)


def test_a_model_that_ends_its_process_when_it_is_loaded_is_refused_with_that_reason(engines: Any) -> None:
    with clients(engines, 1) as (caller,):
        with pytest.raises(InferenceServerException, match="its load ended the engine process by SIGFPE"):
            caller.load_model("fragile")
        assert ask(caller, 3) == 6.0
        assert caller.is_server_ready()
        config = {"max_batch_size": 4, "parameters": {"mn.warm_up": {"string_value": "false"}}}
        patiently(lambda: caller.load_model("fragile", config=json.dumps(config)) or 0.0)
        assert ask(caller, 1, "fragile") == 1.0


def test_a_run_that_ends_its_process_costs_the_callers_of_its_model_alone(engines: Any) -> None:
    with clients(engines, 1) as (caller,):
        for _ in range(2):  # one for each engine process
            with pytest.raises(InferenceServerException, match="ended while it ran the model"):
                ask(caller, 0, "fragile")
            assert ask(caller, 3) == 6.0
        assert patiently(lambda: ask(caller, 1, "fragile")) == 1.0  # with the configuration of its load


def test_a_run_that_never_ends_has_its_process_replaced(engines: Any) -> None:
    with clients(engines, 1) as (caller,):
        wait_for(lambda: caller.is_server_ready() and len(children(engines, "engine")) == 2)
        before = children(engines, "engine")
        with pytest.raises(InferenceServerException, match="has not ended after"):
            ask(caller, 1, "endless")
        assert ask(caller, 3) == 6.0
        wait_for(lambda: len(set(children(engines, "engine")) - set(before)) == 1)
        wait_for(lambda: caller.is_model_ready("endless"))


def test_a_drain_waits_for_no_engine_process_that_has_died(engines: Any) -> None:
    lost: list[str] = []
    with clients(engines, 1) as (caller,):

        def run() -> None:
            with pytest.raises(InferenceServerException) as caught:
                ask(caller, 1, "endless")
            lost.append(caught.value.status())

        thread = threading.Thread(target=run)
        thread.start()
        time.sleep(0.1)
        engines.process.terminate()
        engines.wait_for_log("stopping")
        for pid in children(engines, "engine"):
            os.kill(pid, signal.SIGKILL)
        thread.join()
    assert lost == ["StatusCode.UNAVAILABLE"]
    assert engines.process.wait(10) in (0, 1), engines.log()
    assert "Traceback" not in engines.log()
