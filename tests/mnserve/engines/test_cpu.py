"""CPUs: the affinity mask, cut by quotas of control groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mnserve.engines.cpu import available_cpus, cgroup_quota


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture(autouse=True)
def _eight_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))


def test_without_a_quota_the_affinity_mask_counts(tmp_path: Path) -> None:
    assert cgroup_quota(tmp_path) is None
    assert available_cpus(tmp_path) == 8


@pytest.mark.parametrize(("text", "cpus"), [("max 100000", 8), ("150000 100000", 2), ("20000 100000", 1), ("", 8)])
def test_the_quota_of_cgroup_version_2_limits_the_cpus(tmp_path: Path, text: str, cpus: int) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/a/b\n")
    write(tmp_path, "sys/fs/cgroup/a/b/cpu.max", text)
    assert available_cpus(tmp_path) == cpus


def test_the_tightest_group_counts(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/a/b\n")
    write(tmp_path, "sys/fs/cgroup/a/b/cpu.max", "max 100000")
    write(tmp_path, "sys/fs/cgroup/a/cpu.max", "300000 100000")
    write(tmp_path, "sys/fs/cgroup/cpu.max", "700000 100000")
    assert cgroup_quota(tmp_path) == 3


def test_inside_a_container_the_path_may_be_out_of_view(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/docker/123\n")
    write(tmp_path, "sys/fs/cgroup/cpu.max", "200000 100000")
    assert available_cpus(tmp_path) == 2


@pytest.mark.parametrize(("quota", "cpus"), [("-1", 8), ("250000", 3)])
def test_the_quota_of_cgroup_version_1_limits_the_cpus(tmp_path: Path, quota: str, cpus: int) -> None:
    write(tmp_path, "proc/self/cgroup", "4:memory:/m\n3:cpu,cpuacct:/a\n")
    write(tmp_path, "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", quota)
    write(tmp_path, "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000")
    assert available_cpus(tmp_path) == cpus
