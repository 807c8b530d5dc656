"""A real server as the manifests ask for: a read-only root, another user, no capability, and /tmp alone to write."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from soaking.models import expected, write_repository

from mnserve import Client

USER = "10001"
CONFINE = f"""
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /tmp
mount -o remount,bind,ro /
for folder in /dev/shm /var/tmp /home /root /run; do
    if [ -d "$folder" ]; then mount --bind "$folder" "$folder" && mount -o remount,bind,ro "$folder"; fi
done
cd /
exec unshare --user --map-user={USER} --map-group={USER} setpriv --no-new-privs --bounding-set=-all "$@"
"""
"""Run in mounts of its own; the second `unshare` leaves the capabilities behind."""
PROBE = "import os; print(os.getuid(), *(os.access(f, os.W_OK) for f in ('/', '/var/tmp', os.getcwd(), '/tmp')))"


def confined(*command: str) -> list[str]:
    return ["unshare", "--mount", "sh", "-c", CONFINE, "sh", *command]


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """The environment of the image, which the test's own interpreter stands in for."""
    if os.geteuid() != 0 or any(shutil.which(name) is None for name in ("unshare", "setpriv", "mount")):
        pytest.skip("mounts of its own need root, and unshare and setpriv of util-linux")
    found = {**os.environ, "HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"}
    found.pop("XDG_CACHE_HOME", None)
    found["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(confined(sys.executable, "-c", PROBE), capture_output=True, text=True, env=found, check=False)
    if done.returncode:
        pytest.skip(f"this machine lets no one mount or change users: {done.stderr.strip()[-200:]}")
    assert done.stdout.split() == [USER, "False", "False", "False", "True"]
    return found


@pytest.fixture
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A repository outside of /tmp, which the server sees an empty one of."""
    folder = Path(__file__).parents[2] / "build" / f"read-only-{os.getpid()}"
    write_repository(folder)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("front_ends", ["0", "2"])
def test_the_server_serves_and_drains(environment: dict[str, str], repository: Path, front_ends: str) -> None:
    rule = yaml.safe_load(
        (Path(__file__).parents[2] / "deploy/kubernetes/components/autoscaling/adapter.yaml").read_text()
    )
    ports = ["--grpc-port", "0", "--metrics-port", "0", "--front-ends", front_ends, "--intra-op-threads", "1"]
    server = subprocess.Popen(
        confined(sys.executable, "-m", "mnserve", "serve", str(repository), "--host", "0.0.0.0", *ports),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert server.stdout is not None
    assert server.stderr is not None
    try:
        line = server.stdout.readline()
        assert line.startswith("serving 2 models"), server.stderr.read()
        words = line.replace(",", " ").split()
        url, metrics = (next(word for word in words if word.startswith(name)) for name in ("grpc://", "http://"))
        rows: Any = np.arange(16, dtype=np.float32).reshape(2, 8)
        with Client(url.replace("0.0.0.0", "127.0.0.1")) as client:
            assert np.array_equal(client.infer("thrice", {"x": rows})["y"], expected("thrice", rows))
        with urllib.request.urlopen(metrics.replace("0.0.0.0", "127.0.0.1"), timeout=30) as answer:
            series = answer.read().decode()
        (custom,) = rule["rules"]["custom"]
        assert f"\n{custom['name']['as']}{{" in series  # what the autoscaler asks for
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
        log = server.stderr.read()
    finally:
        if server.poll() is None:
            server.kill()
        server.stdout.close()
        server.stderr.close()
    for word in ("Read-only", "Permission denied", "Traceback", "WARNING"):
        assert word not in log, log
