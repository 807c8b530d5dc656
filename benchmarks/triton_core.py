"""Does NVIDIA's own Triton core take a repository that mnexport wrote?

    pip download --no-deps nvidia-pytriton -d build
    python benchmarks/triton_core.py REPOSITORY build/nvidia_pytriton-*.whl
    python benchmarks/triton_core.py REPOSITORY build/nvidia_pytriton-*.whl --timeout 300

The wheel of PyTriton carries the binary of tritonserver without its ONNX Runtime backend. The core reads and checks
every configuration before it looks for the backend, so that the only complaint about a model has to be the missing
backend; it then ends by itself. Exit code 1: it has another complaint. 2: it could not be asked.
"""

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from common.options import positive_number, script_parser

_MISSING = re.compile(r"unable to find backend library for backend '(onnxruntime|tensorrt)'")


class CannotAskError(Exception):
    """The core cannot be asked; one sentence."""


def main() -> int:
    parser = script_parser(__doc__)
    parser.add_argument("repository", type=Path, help="model repository")
    parser.add_argument("wheel", type=Path, help="wheel of nvidia-pytriton")
    parser.add_argument(
        "--timeout", type=positive_number, default=60.0, metavar="SECONDS", help="for the core to end (60)"
    )
    arguments = parser.parse_args()
    try:
        models = _models(arguments.repository)
        with tempfile.TemporaryDirectory() as folder:
            binary = _unpacked(arguments.wheel, Path(folder))
            said = _said(binary, Path(folder), arguments.repository, models, arguments.timeout)
        complaints = _complaints(said, models)
    except CannotAskError as error:
        print(f"triton_core: {error}", file=sys.stderr)
        return 2
    failed = False
    for name in models:
        fine = _MISSING.search(complaints[name]) is not None
        failed |= not fine
        print(f"{name}: {'configuration taken, backend missing' if fine else complaints[name]}")
    return int(failed)


def _models(repository: Path) -> list[str]:
    try:
        found = [item.name for item in repository.iterdir() if item.is_dir() and not item.name.startswith(".")]
    except OSError as error:
        raise CannotAskError(f"the repository {repository} cannot be read: {error.strerror}") from error
    if not found:
        raise CannotAskError(f"{repository} holds no model; name the folder that mnexport wrote models into")
    return sorted(found)


def _unpacked(wheel: Path, folder: Path) -> Path:
    """The binary of tritonserver, beside its libraries."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    except OSError as error:
        raise CannotAskError(f"{wheel} cannot be unpacked: {error.strerror or error}") from error
    except zipfile.BadZipFile as error:
        raise CannotAskError(f"{wheel} is no wheel, or is damaged ({error}); download nvidia-pytriton again") from error
    binaries = list(folder.glob("**/bin/tritonserver"))
    if not binaries:
        raise CannotAskError(f"{wheel} holds no bin/tritonserver; give a wheel of nvidia-pytriton for Linux")
    binaries[0].chmod(0o755)
    return binaries[0]


def _said(binary: Path, folder: Path, repository: Path, models: list[str], timeout: float) -> list[str]:
    """All lines of the core about a repository, until it ends."""
    libraries = sorted({str(item.parent) for item in folder.glob("**/*.so*")})
    command = [str(binary), f"--model-repository={repository.resolve()}", "--model-control-mode=explicit"]
    command += [f"--load-model={name}" for name in models]
    command += ["--allow-http=false", "--allow-grpc=false", "--allow-metrics=false", "--exit-on-error=true"]
    # A file, not a pipe: nothing waits for whoever else may hold its other end.
    file = folder / "said.txt"
    with file.open("wb") as stream:
        try:
            subprocess.run(
                command,
                env=os.environ | {"LD_LIBRARY_PATH": ":".join(libraries)},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise CannotAskError(
                f"tritonserver did not end within {timeout:g} s{_last(file)}; raise --timeout"
            ) from error
        except OSError as error:
            raise CannotAskError(f"tritonserver does not start here: {error.strerror}") from error
    return _lines(file)


def _complaints(said: list[str], models: list[str]) -> dict[str, str]:
    """What the core says about each model that it does not serve."""
    rows = ([cell.strip() for cell in line.split("|")] for line in said)
    found = {row[1]: row[3] for row in rows if len(row) > 4 and row[1] in models}
    # A configuration that cannot be read is not in the table; the log tells why.
    for name in models:
        about = [line.strip() for line in said if f"/{name}/" in line or f"'{name}'" in line]
        if about:
            found.setdefault(name, about[0])
    if not found:
        last = f"; its last line: {said[-1]}" if said else ""
        raise CannotAskError(f"tritonserver said nothing about any model{last}")
    return {name: found.get(name, "not mentioned") for name in models}


def _lines(file: Path) -> list[str]:
    text = file.read_text(encoding="utf-8", errors="replace")
    return [line for line in text.splitlines() if line.strip()]


def _last(file: Path) -> str:
    said = _lines(file)
    return f", its last line: {said[-1]}" if said else ", and said nothing"


if __name__ == "__main__":
    sys.exit(main())
