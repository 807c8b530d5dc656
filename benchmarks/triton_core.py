"""Does NVIDIA's own Triton core take a repository that mnexport wrote?

    pip download --no-deps nvidia-pytriton -d build
    python benchmarks/triton_core.py REPOSITORY build/nvidia_pytriton-*.whl

The wheel of PyTriton carries the binary of tritonserver without its ONNX Runtime backend. The core reads and checks
every configuration before it looks for the backend, so that the only complaint about a model has to be the missing
backend.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

_MISSING = re.compile(r"unable to find backend library for backend '(onnxruntime|tensorrt)'")
_SECONDS = 60


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=Path, help="model repository")
    parser.add_argument("wheel", type=Path, help="wheel of nvidia-pytriton")
    arguments = parser.parse_args()
    models = sorted(
        item.name for item in arguments.repository.iterdir() if item.is_dir() and not item.name.startswith(".")
    )
    if not models:
        parser.error(f"{arguments.repository} holds no model")
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(arguments.wheel).extractall(folder)
        (binary,) = Path(folder).glob("**/bin/tritonserver")
        binary.chmod(0o755)
        complaints = _complaints(binary, Path(folder), arguments.repository, models)
    failed = False
    for name in models:
        fine = _MISSING.search(complaints[name]) is not None
        failed |= not fine
        print(f"{name}: {'configuration taken, backend missing' if fine else complaints[name]}")
    return int(failed)


def _complaints(binary: Path, folder: Path, repository: Path, models: list[str]) -> dict[str, str]:
    """What the core says about each model that it does not serve."""
    libraries = sorted({str(item.parent) for item in folder.glob("**/*.so*")})
    command = [str(binary), f"--model-repository={repository.resolve()}", "--model-control-mode=explicit"]
    command += [f"--load-model={name}" for name in models]
    command += ["--allow-http=false", "--allow-grpc=false", "--allow-metrics=false", "--exit-on-error=false"]
    process = subprocess.Popen(
        command,
        env=os.environ | {"LD_LIBRARY_PATH": ":".join(libraries)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    lines = []
    try:
        for line in process.stdout:
            lines.append(line)
            if "tritonserver.cc" in line and "failed" in line:
                break
    finally:
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=_SECONDS)
    everything = [*lines, *rest.splitlines()]
    rows = ([cell.strip() for cell in line.split("|")] for line in everything)
    found = {row[1]: row[3] for row in rows if len(row) > 4 and row[1] in models}
    # A configuration that cannot be read is not in the table; the log tells why.
    for name in models:
        said = [line.strip() for line in everything if f"/{name}/" in line or f"'{name}'" in line]
        found.setdefault(name, said[0] if said else "not mentioned")
    return found


if __name__ == "__main__":
    sys.exit(main())
