"""Empty environments of several Pythons, and what is installed into them."""

import os
import shutil
import subprocess
from pathlib import Path


class InstallError(Exception):
    """An environment could not be made, or a package not be installed; the message has the end of the output."""


def build_archives(root: Path, folder: Path, python: str) -> list[Path]:
    """Build the source archive, and the wheel from that archive.

    Args:
        root: folder of ``pyproject.toml``.
        folder: folder for the two files; what it held before is deleted.
        python: interpreter that has the package ``build``.

    Returns:
        The wheel and the source archive.

    Raises:
        InstallError: the build fails.
    """
    shutil.rmtree(folder, ignore_errors=True)
    run([python, "-m", "build", "--outdir", str(folder), str(root)])
    return [*sorted(folder.glob("*.whl")), *sorted(folder.glob("*.tar.gz"))]


def python_fault(python: str) -> str:
    """Tell why an interpreter cannot be used; empty where it can.

    Args:
        python: its name or path.
    """
    if shutil.which(python) is None:
        return f"there is no {python} here; give the path of one, as in PYTHONS=/opt/python/bin/python3.13"
    done = subprocess.run([python, "-c", ""], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"it ends with {done.returncode}"]
        return f"{shutil.which(python)} does not start: {lines[0]}; give the path of one that does"
    return ""


def make_environment(python: str, folder: Path) -> Path:
    """Make an environment with nothing but pip; returns its interpreter.

    Raises:
        InstallError: the interpreter cannot make one.
    """
    run([python, "-m", "venv", "--clear", str(folder)])
    return folder / "bin" / "python"


def install(interpreter: Path, archive: Path, extra: str, constraints: Path) -> None:
    """Install an archive with an extra.

    Raises:
        InstallError: pip fails.
    """
    wanted = f"{archive}[{extra}]"
    run([str(interpreter), "-m", "pip", "install", "--quiet", "--constraint", str(constraints), wanted])


def run(command: list[str], folder: Path | None = None) -> str:
    """Run a command away from this source tree; returns its standard output.

    Args:
        command: program and arguments.
        folder: working directory.

    Raises:
        InstallError: its exit code is not 0.
    """
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InstallError(f"{' '.join(command)} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout
