"""Memory that processes of this machine can have at most: the machine's own, or a control group's if that is less.

``mnserve`` has its own twin, since it may not import this package.
"""

from pathlib import Path

_ROOT = Path("/")


def machine_bytes(root: Path = _ROOT) -> int | None:
    """Return memory and swap in bytes, whether free or not; None where the system does not tell.

    Args:
        root: Folder in which ``proc`` and ``sys`` are mounted.
    """
    words = [line.split() for line in _read(root / "proc/meminfo").splitlines()]
    sizes = {word[0]: int(word[1]) * 1024 for word in words if len(word) > 1 and word[1].isdigit()}
    memory = [sizes["MemTotal:"]] if "MemTotal:" in sizes else []
    limit = min([*memory, *_limits(root)], default=None)
    return None if limit is None else limit + sizes.get("SwapTotal:", 0)


def _limits(root: Path) -> list[int]:
    """List the limits of the process's control groups, of both versions; a group out of view counts as the mount."""
    folders = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if not controllers:
            folders.append((root / "sys/fs/cgroup", path, "memory.max"))
        elif "memory" in controllers.split(","):
            folders.append((root / "sys/fs/cgroup/memory", path, "memory.limit_in_bytes"))
    files = [
        folder / name
        for mount, path, name in folders
        for folder in (mount, *(mount / part for part in (Path(path.lstrip("/")), *Path(path.lstrip("/")).parents)))
    ]
    texts = [_read(file).strip() for file in files]
    return [int(text) for text in texts if text.isdigit()]


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
