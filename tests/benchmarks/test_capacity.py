"""The simulation of a server against closed forms, and its costs against loads that it has made itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import simpy
from capacity_model.batching import no_moment
from capacity_model.calibration import MANY, fit
from capacity_model.cores import Cores, Steps
from capacity_model.costs import Costs, Runs, Work, read_costs
from capacity_model.fleet import Demand, plan_fleet, servers_needed
from capacity_model.load import Load
from capacity_model.prediction import Network, forecast, front_ends_needed, gpu_rate
from capacity_model.serving import Cpu
from capacity_model.simulation import Outcome, Setup, simulate

US = 1e-6
SHORT: dict[str, Any] = {"seconds": 0.2, "warm_up": 0.1}
NOTHING = Work(0.0, 0.0)
FREE = Costs(NOTHING, NOTHING, NOTHING, NOTHING, 0.0, Runs.line(1e-3, 0.0))
COSTS = Costs(
    client=Work(0.0, 25 * US),
    transport=Work(0.0, 40 * US),
    front_end=Work(30 * US, 120 * US),
    engine=Work(20 * US, 10 * US),
    wake=10 * US,
    runs=Runs.line(15 * US, 2 * US),
)
COMPUTING = replace(FREE, front_end=Work(0.0, 100 * US), runs=Runs.line(1 * US, 0.0, on_core=False))


def test_a_single_engine_that_runs_one_by_one_is_an_m_d_1_queue() -> None:
    load = 0.7
    setup = Setup(costs=FREE, rate=load * 1000, max_batch=1, client_here=False, varied=False, rule=no_moment)
    outcome = simulate(replace(setup, seconds=12.0))
    in_queue = outcome.rate * (outcome.mean - 1e-3)  # Little's law
    assert outcome.rate == pytest.approx(700, rel=0.05)
    assert in_queue == pytest.approx(load**2 / 2 / (1 - load), rel=0.15)
    assert outcome.use["runs"] == pytest.approx(load, rel=0.05)


@pytest.mark.parametrize("front_ends", [1, 3])
def test_callers_get_what_the_busiest_part_can_answer(front_ends: int) -> None:
    spread = [8] * front_ends
    setup = Setup(
        costs=COMPUTING, front_ends=front_ends, callers=sum(spread), spread=spread, client_here=False, **SHORT
    )
    outcome = simulate(setup)
    assert outcome.rate == pytest.approx(front_ends * 10_000, rel=0.02)
    assert outcome.bottleneck == "front ends"


def test_cores_are_shared_by_all_that_computes() -> None:
    costs = replace(COMPUTING, client=Work(0.0, 50 * US), engine=Work(0.0, 25 * US), runs=Runs.line(25 * US, 25 * US))
    one, two = (simulate(Setup(costs=costs, cores=cores, callers=32, **SHORT)) for cores in (1, 2))
    assert one.rate == pytest.approx(1 / (200 * US), rel=0.02)
    assert 1.75 * one.rate < two.rate < 1 / (100 * US)  # the front end cannot use more than one of them
    assert one.use["cores"] == pytest.approx(1, abs=0.01)


def test_a_long_run_does_not_hold_a_core_for_itself() -> None:
    env, ends = simpy.Environment(), {}
    cores = Cores(env, 1)

    def work(name: str, start: float, seconds: float) -> Steps:
        yield env.timeout(start)
        yield from cores.work(seconds)
        ends[name] = env.now

    for name, start, seconds in (("run", 0.0, 50e-3), ("call", 1.2e-3, 1e-4)):
        env.process(work(name, start, seconds))
    env.run()
    assert ends == {"call": pytest.approx(1.6e-3), "run": pytest.approx(50.1e-3)}
    assert cores.used == pytest.approx(50.1e-3)


def test_an_idle_engine_takes_what_waits_and_a_busy_one_gathers() -> None:
    setup = Setup(costs=FREE, callers=16, max_batch=8, client_here=False, rule=no_moment, **SHORT)
    assert simulate(setup).rows == 8
    assert simulate(setup).rate == pytest.approx(8000, rel=0.02)
    assert simulate(replace(setup, callers=1)).rows == 1
    assert simulate(replace(setup, callers=32, instances=2)).rate == pytest.approx(16_000, rel=0.02)


def test_the_moment_makes_batches_where_calls_come_one_by_one_and_costs_a_single_caller_nothing() -> None:
    setup = Setup(costs=COSTS, cores=2, callers=64, **SHORT)
    served, at_once = simulate(setup), simulate(replace(setup, rule=no_moment))
    assert at_once.rows < 2 < 2 * at_once.rows < served.rows
    assert served.rate > 1.05 * at_once.rate
    alone = replace(setup, callers=1)
    assert simulate(alone).p50 == simulate(replace(alone, rule=no_moment)).p50


def test_a_seed_decides_everything() -> None:
    setup = Setup(costs=COSTS, front_ends=2, cores=2, callers=16, seconds=0.1, warm_up=0.05)
    assert simulate(setup) == simulate(setup) != simulate(replace(setup, seed=1))


def test_one_process_and_one_front_end_cost_a_caller_the_same_but_for_the_way_between_them() -> None:
    apart, together = (simulate(Setup(costs=COSTS, front_ends=count, callers=1, **SHORT)) for count in (1, 0))
    assert together.p50 < apart.p50 < 1.2 * together.p50


def test_a_load_is_either_callers_or_a_rate() -> None:
    with pytest.raises(ValueError, match="either callers or a rate"):
        simulate(Setup(costs=COSTS))
    with pytest.raises(ValueError, match="does not spread 4 callers over 2 front ends"):
        simulate(Setup(costs=COSTS, callers=4, front_ends=2, spread=[1, 2]))


def as_measured(outcome: Outcome, costs: Costs) -> Load:
    """The load that a server with such costs would have been measured to have."""
    runs = 1 / outcome.rows
    front_end, engine = (work.turn * (1 + runs) + work.call for work in (costs.front_end, costs.engine))
    cpu = Cpu(costs.transport.call, front_end, engine, 0.0)
    return Load(outcome.rate, outcome.p50, outcome.p99, outcome.rows, costs.client.call, cpu, runs, (1,), 0.0)


def test_costs_are_found_again_from_two_loads() -> None:
    alone, many = (
        as_measured(simulate(Setup(costs=COSTS, cores=2, callers=callers, **SHORT)), COSTS) for callers in (1, MANY)
    )
    found = fit(alone, many, COSTS.runs, cores=2)
    assert found.wake == pytest.approx(COSTS.wake, rel=0.3)
    assert replace(found, wake=COSTS.wake).to_json() == approx_all(COSTS.to_json())


def approx_all(record: dict[str, Any]) -> Any:
    return {
        name: approx_all(value) if isinstance(value, dict) else value if name == "on_core" else pytest.approx(value)
        for name, value in record.items()
    }


def test_runs_lie_on_lines_between_the_measured_sizes() -> None:
    runs = Runs((1, 4, 8), (1.0, 4.0, 6.0))
    assert [runs.of(rows) for rows in (1, 2, 4, 6, 8, 10)] == [1.0, 2.0, 4.0, 5.0, 6.0, 7.0]
    assert Runs((1,), (2.0,)).of(7) == 2.0
    assert [Runs((1, 3), (1.0, 1.0), True, (0.2, 0.4)).share_of(rows) for rows in (1, 2, 3)] == [
        0.2,
        pytest.approx(0.3),
        0.4,
    ]


def test_a_forecast_follows_the_rule_of_thumb() -> None:
    network = Network(1e-3, 10 * US)
    needed = front_ends_needed(COSTS, network, 32)
    assert needed == 4  # 24,427 rows a second of 150 µs each
    few, enough = forecast(COSTS, networks=[network], front_ends=[1, 6], max_batch=32)
    assert few.full.bottleneck == "front ends"
    assert enough.full.bottleneck == "runs"
    assert enough.full.rate == pytest.approx(gpu_rate(network, 32), rel=0.05)
    assert enough.eased.rate == pytest.approx(0.8 * enough.full.rate, rel=0.05)
    assert enough.eased.p50 < enough.full.p50


def test_the_script_reads_costs_and_draws(run_script: Callable[..., Any], tmp_path: Path) -> None:
    file, picture = tmp_path / "costs.json", tmp_path / "capacity.svg"
    file.write_text(json.dumps({"costs": COSTS.to_json()}))
    assert read_costs(file) == COSTS
    words = ["--costs", file, "--networks", "1000+10", "--front-ends", "1,2", "--plot", picture]
    done = run_script("capacity", *words, "--json", tmp_path / "out.json")
    assert done.code == 0, done.stderr
    assert "4 front ends by the rule of thumb" in done.stdout
    assert len(json.loads((tmp_path / "out.json").read_text())["forecasts"]) == 2
    assert picture.read_text().startswith("<?xml")


def test_a_fleet_loses_a_zone_without_a_server_that_is_over_its_ease() -> None:
    for zones, needed in ((2, 26), (3, 21), (4, 20)):  # 13 servers at 80 % answer 104,000 calls a second
        assert servers_needed(Demand(rate=104_000, zones=zones), 10_000) == needed
    demand = Demand(rate=39_000, zones=3)
    fleet = plan_fleet(COSTS, Network(1e-3, 10e-6), demand, max_batch=32, seconds=0.1)
    assert fleet.servers % 3 == 0
    assert fleet.usual.rate == pytest.approx(39_000 / fleet.servers, rel=0.1)
    assert fleet.reduced.rate == pytest.approx(1.5 * fleet.usual.rate, rel=0.1)
    assert fleet.reduced.rate <= 0.85 * fleet.full.rate
    assert fleet.usual.p50 < fleet.full.p50
    assert fleet.in_progress == pytest.approx(39_000 * fleet.usual.mean)
    assert fleet.gigabits == pytest.approx((39_000 * 3500 * 8e-9, 39_000 * 300 * 8e-9))
    assert 0 < fleet.seconds_to_fill(2048) < 10


def test_the_script_plans_a_fleet_with_the_costs_of_the_page(run_script: Callable[..., Any]) -> None:
    costs = Path(__file__).parents[2] / "benchmarks/capacity_model/epyc.json"
    done = run_script("capacity", "--costs", costs, "--fleet", "9000", "--networks", "2000+50", "--zones", "2")
    assert done.code == 0, done.stderr
    assert "9,000 calls a second in 2 zones" in done.stdout
    assert run_script("capacity", "--costs", costs, "--fleet", "9000", "--zones", "1").code == 2


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("nonsense", "write it with --measure"),
        ({"costs": {}}, "KeyError: 'client'"),
        ({"costs": {**COSTS.to_json(), "wake": -1}}, "are not times from 0 to 60 s"),
        ({"costs": {**COSTS.to_json(), "runs": {"rows": [2, 1], "seconds": [1, 1]}}}, "rows have to rise"),
    ],
)
def test_files_without_costs_are_refused(
    run_script: Callable[..., Any], tmp_path: Path, record: object, message: str
) -> None:
    file = tmp_path / "costs.json"
    file.write_text(record if isinstance(record, str) else json.dumps(record))
    done = run_script("capacity", "--costs", file)
    assert done.code == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
