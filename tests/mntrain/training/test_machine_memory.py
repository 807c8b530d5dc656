"""Memory that there is, read from files as the kernel writes them."""

from pathlib import Path

import pytest

from mntrain.training.machine_memory import machine_bytes

MEMINFO = "MemTotal:       8000 kB\nMemFree:        100 kB\nSwapTotal:      500 kB\n"


def write(root: Path, name: str, text: str) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_without_a_limit_it_is_memory_and_swap(tmp_path: Path) -> None:
    assert machine_bytes(tmp_path) is None
    write(tmp_path, "proc/meminfo", MEMINFO)
    assert machine_bytes(tmp_path) == 8500 * 1024


@pytest.mark.parametrize("folder", ["", "a", "a/b"])
def test_the_tightest_control_group_of_version_2_limits_it(tmp_path: Path, folder: str) -> None:
    write(tmp_path, "proc/meminfo", MEMINFO)
    write(tmp_path, "proc/self/cgroup", "0::/a/b\n")
    for name in ("", "a", "a/b"):
        write(tmp_path, f"sys/fs/cgroup/{name}/memory.max", "3000\n" if name == folder else "max\n")
    assert machine_bytes(tmp_path) == 3000 + 500 * 1024


def test_a_control_group_of_version_1_limits_it(tmp_path: Path) -> None:
    write(tmp_path, "proc/meminfo", MEMINFO)
    write(tmp_path, "proc/self/cgroup", "5:cpu,cpuacct:/c\n4:memory:/m\nbroken\n")
    write(tmp_path, "sys/fs/cgroup/memory/m/memory.limit_in_bytes", "4000\n")
    write(tmp_path, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert machine_bytes(tmp_path) == 4000 + 500 * 1024
    write(tmp_path, "proc/self/cgroup", "4:memory:/out/of/view\n")  # the mount alone can be seen
    assert machine_bytes(tmp_path) == 8500 * 1024
