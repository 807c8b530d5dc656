"""Control groups of this process, as the kernel shows them in files."""

from __future__ import annotations

from pathlib import Path


def groups(root: Path) -> dict[str, str]:
    """Reads ``/proc/self/cgroup``: controller list -> path; the list of version 2 is empty."""
    lines = read_file(root / "proc/self/cgroup").splitlines()
    parts = [line.split(":", 2) for line in lines]
    return {part[1]: part[2] for part in parts if len(part) == 3}


def ancestors(mount: Path, group: str) -> list[Path]:
    """Lists the folders from the process's own group up to the mount; the mount alone for a group out of view."""
    folder = mount / group.lstrip("/")
    if not folder.is_dir():
        return [mount]
    folders = [folder]
    while folders[-1] != mount and mount in folders[-1].parents:
        folders.append(folders[-1].parent)
    return folders


def read_file(path: Path) -> str:
    """Reads a file of the kernel; empty where it is missing or unreadable."""
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
