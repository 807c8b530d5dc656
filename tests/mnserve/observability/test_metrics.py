"""One source of counters, shown as metrics and as statistics."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import select
import socket
import struct
import sys
import urllib.request
from errno import ECONNREFUSED
from pathlib import Path

import pytest

from mnserve.access import addresses
from mnserve.access.addresses import check_port_free, socket_addresses
from mnserve.errors import StartError
from mnserve.execution.results import BatchResult, BatchTimes
from mnserve.http import metrics
from mnserve.http.listening.sockets import bind_port
from mnserve.http.metrics import MetricsServer
from mnserve.models.statistics import ModelCounters
from mnserve.observability.metrics import ModelCollector

PATIENCE = 30
"""Seconds within which anything is answered on a machine with other work."""
TIMES = BatchTimes(input_ns=1_000, infer_ns=20_000, output_ns=300)


@pytest.fixture
def counters() -> ModelCounters:
    item = ModelCounters("m", 3, lambda: 5)
    item.record_batch(BatchResult(outputs=[], rows=3, times=TIMES))
    item.record_success(rows=1, total_ns=50_000, queue_ns=4_000, times=TIMES)
    item.record_success(rows=2, total_ns=60_000, queue_ns=5_000, times=TIMES)
    item.record_cache_hit(total_ns=0, lookup_ns=400)
    item.record_cache_miss(300)
    item.record_cache_miss(400)
    item.record_failure(reason="REJECTED", total_ns=7_000)
    return item


def test_counters_become_the_statistics_of_the_protocol(counters: ModelCounters) -> None:
    message = counters.message()
    assert (message.name, message.version) == ("m", "3")
    assert (message.inference_count, message.execution_count) == (3, 1)
    assert message.last_inference > 1_500_000_000_000
    stats = message.inference_stats
    assert (stats.success.count, stats.success.ns) == (3, 110_000)
    assert (stats.fail.count, stats.fail.ns) == (1, 7_000)
    assert (stats.queue.count, stats.queue.ns) == (2, 9_000)
    assert (stats.compute_infer.count, stats.compute_infer.ns) == (2, 40_000)
    (batch,) = message.batch_stats
    assert (batch.batch_size, batch.compute_infer.count, batch.compute_infer.ns) == (3, 1, 20_000)


def test_counters_become_metrics_of_triton(counters: ModelCounters) -> None:
    server = MetricsServer("127.0.0.1", 0, lambda: [counters])
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics") as response:
            lines = response.read().decode().splitlines()
    finally:
        server.close()
    samples = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    where = 'model="m",version="3"'
    assert {name: float(value) for name, value in samples.items()} == {
        f"nv_inference_request_success{{{where}}}": 3,
        f"nv_inference_count{{{where}}}": 3,
        f"nv_inference_exec_count{{{where}}}": 1,
        f"nv_inference_request_duration_us{{{where}}}": 110,
        f"nv_inference_queue_duration_us{{{where}}}": 9,
        f"nv_inference_compute_input_duration_us{{{where}}}": 2,
        f"nv_inference_compute_infer_duration_us{{{where}}}": 40,
        f"nv_inference_compute_output_duration_us{{{where}}}": 0.6,
        'nv_inference_request_failure{model="m",reason="REJECTED",version="3"}': 1,
        'nv_inference_request_failure{model="m",reason="CANCELED",version="3"}': 0,
        'nv_inference_request_failure{model="m",reason="BACKEND",version="3"}': 0,
        'nv_inference_request_failure{model="m",reason="OTHER",version="3"}': 0,
        f"nv_inference_pending_request_count{{{where}}}": 5,
        f"nv_cache_num_hits_per_model{{{where}}}": 1,
        f"nv_cache_num_misses_per_model{{{where}}}": 2,
        f"nv_cache_hit_duration_per_model{{{where}}}": 0.4,
        f"nv_cache_miss_duration_per_model{{{where}}}": 0.7,
    }


def test_names_of_models_cannot_steer_a_terminal() -> None:
    counters = ModelCounters("m\x9b\u202e", 1, lambda: 0)
    labels = {
        sample.labels["model"] for family in ModelCollector(lambda: [counters]).collect() for sample in family.samples
    }
    assert labels == {r"m\x9b\u202e"}


@pytest.mark.parametrize(
    ("accept", "format"),
    [
        ("application/openmetrics-text; version=1.0.0", "application/openmetrics-text"),
        ("application/openmetrics-text; version=1.0.0 ;q=0.5,text/plain;version=0.0.4", "application/openmetrics-text"),
        *[
            (f"{kind}; version={version}", "text/plain; version=0.0.4")
            for kind in ("application/openmetrics-text", "text/plain")
            for version in ("abc", "1.0.x", "2.x", "2.", '"1.0.0"', "9" * 5000)
        ],
    ],
)
def test_a_version_that_is_none_is_answered_in_the_default_format(
    counters: ModelCounters, accept: str, format: str, capfd: pytest.CaptureFixture[str]
) -> None:
    server = MetricsServer("127.0.0.1", 0, lambda: [counters])
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}/metrics", headers={"Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            assert response.headers["Content-Type"].startswith(format)
            assert b"nv_inference_count" in response.read()
    finally:
        server.close()
    assert capfd.readouterr().err == ""


def test_methods_that_do_not_read_are_refused_and_HEAD_has_the_headers_of_GET(counters: ModelCounters) -> None:
    server = MetricsServer("127.0.0.1", 0, lambda: [counters])

    def answer(method: str, body: bytes | None = None) -> tuple[int, dict[str, str], bytes]:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)) as connection:
            connection.request(method, "/metrics", body)
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            return response.status, names, response.read()

    try:
        (got, headers, text), (head, head_headers, nothing) = answer("GET"), answer("HEAD")
        assert got == head == 200
        assert text
        assert nothing == b""
        for name in ("content-type", "content-length"):
            assert head_headers[name] == headers[name]
        assert int(head_headers["content-length"]) == len(text)
        for method, body in (("POST", b"x" * 10_000), ("PUT", None), ("DELETE", None), ("TRACE", None)):
            status, headers, text = answer(method, body)
            assert (status, headers["allow"]) == (405, "GET, HEAD, OPTIONS")
            assert text == b"metrics are read with GET, HEAD, OPTIONS\n"
        status, headers, text = answer("OPTIONS")
        assert (status, headers["allow"], text) == (200, "GET, HEAD, OPTIONS", b"")
    finally:
        server.close()


def has_ipv6() -> bool:
    """Whether this machine has ``::1``."""
    try:
        with socket.socket(socket.AF_INET6) as trial:
            trial.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")


@needs_ipv6
def test_a_name_is_served_on_all_of_its_addresses(counters: ModelCounters) -> None:
    server = MetricsServer("localhost", 0, lambda: [counters])
    try:
        for address in ("127.0.0.1", "[::1]"):
            with urllib.request.urlopen(f"http://{address}:{server.port}/metrics", timeout=PATIENCE) as response:
                assert b"nv_inference_count" in response.read()
    finally:
        server.close()
    for family, address in socket_addresses("localhost", server.port):
        with socket.socket(family) as after:
            assert after.connect_ex(address) == ECONNREFUSED


@needs_ipv6
def test_a_port_in_use_on_one_address_of_a_name_is_refused(counters: ModelCounters) -> None:
    with socket.socket(socket.AF_INET6) as other:
        other.bind(("::1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(StartError, match=f"cannot serve metrics on localhost:{port}: Address already in use"):
            MetricsServer("localhost", port, lambda: [counters])
        with pytest.raises(StartError, match=f"cannot listen on localhost:{port}: Address already in use"):
            check_port_free("localhost", port, "--grpc-port")


def test_an_address_that_this_machine_lacks_is_left_out_where_another_is_there(
    counters: ModelCounters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``::1`` is on a machine without IPv6."""
    lacking = (socket.AF_INET6, ("2001:db8::1", 0, 0, 0))
    for found in ([lacking, (socket.AF_INET, ("127.0.0.1", 0))], [lacking]):
        monkeypatch.setattr(addresses, "socket_addresses", lambda host, port, found=found: found)
        if len(found) > 1:
            check_port_free("both", 0, "--grpc-port")
            MetricsServer("both", 0, lambda: [counters]).close()
        else:
            with pytest.raises(StartError, match="cannot serve metrics on lacking:0"):
                MetricsServer("lacking", 0, lambda: [counters])
            with pytest.raises(StartError, match="cannot listen on lacking:0"):
                check_port_free("lacking", 0, "--grpc-port")


def ask(port: int) -> socket.socket:
    """A connection on its way, without waiting for it."""
    connection = socket.socket()
    connection.setblocking(False)
    connection.connect_ex(("127.0.0.1", port))
    return connection


def sent_again(connection: socket.socket) -> int:
    """Segments that TCP sent more than once, the one that opens the connection among them (``tcpi_total_retrans``)."""
    return int(struct.unpack_from("I", connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 100)[0])


@pytest.mark.skipif(sys.platform != "linux", reason="TCP_INFO of Linux says what had to be sent again")
def test_a_burst_of_connections_is_taken_at_once(counters: ModelCounters) -> None:
    """A short queue of the port would make the system drop connections, which TCP retries after a second or more."""
    server = MetricsServer("127.0.0.1", 0, lambda: [counters])
    connections = [ask(server.port) for _ in range(200)]
    try:
        for connection in connections:
            connection.settimeout(PATIENCE)
            select.select([], [connection], [], PATIENCE)
            connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        answers = [connection.makefile("rb").read() for connection in connections]
        dropped = sum(sent_again(connection) > 0 for connection in connections)
    finally:
        for connection in connections:
            connection.close()
        server.close()
    assert all(b"200 OK" in answer and b"nv_inference_count" in answer for answer in answers)
    assert dropped == 0


def test_closing_waits_for_no_connection(counters: ModelCounters) -> None:
    server = MetricsServer("127.0.0.1", 0, lambda: [counters])
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as silent:
        server.close()
        with contextlib.suppress(ConnectionResetError):  # it had not been accepted yet
            assert silent.recv(1) == b""


def test_a_port_in_use_is_refused() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(StartError, match=f"127.0.0.1:{port}.*--metrics-port"):
            MetricsServer("127.0.0.1", port, list)


def test_a_port_that_another_process_listens_on_meanwhile_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

        def bind_first(host: str, port: int, failure: str) -> list[socket.socket]:
            sockets = bind_port(host, port, failure)
            other.bind(sockets[0].getsockname())
            other.listen()
            return sockets

        monkeypatch.setattr(metrics, "bind_port", bind_first)
        with pytest.raises(StartError, match=r"cannot serve metrics on 127.0.0.1:.*choose another --metrics-port"):
            MetricsServer("127.0.0.1", 0, list)


def test_the_dashboard_asks_for_metrics_and_labels_that_there_are(counters: ModelCounters) -> None:
    dashboard = json.loads((Path(__file__).parents[3] / "docs" / "grafana.json").read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    families = list(ModelCollector(lambda: [counters]).collect())
    names = {sample.name for family in families for sample in family.samples}
    labels = {label for family in families for sample in family.samples for label in sample.labels}
    asked = {name for query in queries for name in re.findall(r"nv_\w+", query)}
    assert asked == names
    grouped = {
        label for query in queries for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(", ")
    }
    assert grouped <= labels
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
