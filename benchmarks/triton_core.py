"""Check that NVIDIA's own Triton core takes a repository that mnexport wrote.

    pip download --no-deps nvidia-pytriton -d build
    python benchmarks/triton_core.py REPOSITORY build/nvidia_pytriton-*.whl
    python benchmarks/triton_core.py REPOSITORY build/nvidia_pytriton-*.whl --timeout 300

The wheel of PyTriton contains the binary of tritonserver without its ONNX Runtime backend. The core reads and checks
every configuration before it looks for the backend, so the only complaint about a model must be the missing backend;
then the core ends by itself. Exit code 1: the core has another complaint. 2: the core could not be run.
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
    """The core cannot be run; the message is one sentence."""


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
            lines = _core_lines(binary, Path(folder), arguments.repository, models, arguments.timeout)
        complaints = _complaints(lines, models)
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
        names = [item.name for item in repository.iterdir() if item.is_dir() and not item.name.startswith(".")]
    except OSError as error:
        raise CannotAskError(f"the repository {repository} cannot be read: {error.strerror}") from error
    if not names:
        raise CannotAskError(f"{repository} holds no model; name the folder that mnexport wrote models into")
    return sorted(names)


def _unpacked(wheel: Path, folder: Path) -> Path:
    """Unpack the binary of tritonserver, beside its libraries."""
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


def _core_lines(binary: Path, folder: Path, repository: Path, models: list[str], timeout: float) -> list[str]:
    """Run the core on a repository until it ends; returns all its lines."""
    libraries = sorted({str(item.parent) for item in folder.glob("**/*.so*")})
    command = [str(binary), f"--model-repository={repository.resolve()}", "--model-control-mode=explicit"]
    command += [f"--load-model={name}" for name in models]
    command += ["--allow-http=false", "--allow-grpc=false", "--allow-metrics=false", "--exit-on-error=true"]
    # A file, not a pipe, whose other end a child of the core might hold open.
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


def _complaints(lines: list[str], models: list[str]) -> dict[str, str]:
    """Find the complaint of the core about each model that it does not serve."""
    rows = ([cell.strip() for cell in line.split("|")] for line in lines)
    complaints = {row[1]: row[3] for row in rows if len(row) > 4 and row[1] in models}
    # A configuration that cannot be read is missing in the table; the reason is in the log.
    for name in models:
        about = [line.strip() for line in lines if f"/{name}/" in line or f"'{name}'" in line]
        if about:
            complaints.setdefault(name, about[0])
    if not complaints:
        last = f"; its last line: {lines[-1]}" if lines else ""
        raise CannotAskError(f"tritonserver said nothing about any model{last}")
    return {name: complaints.get(name, "not mentioned") for name in models}


def _lines(file: Path) -> list[str]:
    text = file.read_text(encoding="utf-8", errors="replace")
    return [line for line in text.splitlines() if line.strip()]


def _last(file: Path) -> str:
    lines = _lines(file)
    return f", its last line: {lines[-1]}" if lines else ", and said nothing"


if __name__ == "__main__":
    sys.exit(main())
