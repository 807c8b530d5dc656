"""Prints what an image installs from elsewhere: the dependencies of this project, with those of extras.

python requirements.py EXTRA[,EXTRA…]

Run in the folder of ``pyproject.toml``, with Python's own library alone.
"""

import re
import sys
import tomllib
from pathlib import Path


def requirements(extras: list[str]) -> list[str]:
    """Lists the dependencies, and those of extras that extras name.

    Args:
        extras: Names of extras.

    Raises:
        SystemExit: There is no such extra.
    """
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    known = project["optional-dependencies"]
    found, todo, seen = list(project["dependencies"]), list(extras), set()
    while todo:
        extra = todo.pop(0)
        if extra not in known:
            raise SystemExit(f"requirements: there is no extra '{extra}'; the extras are {', '.join(sorted(known))}")
        if extra in seen:
            continue
        seen.add(extra)
        for text in known[extra]:
            own = re.fullmatch(rf"{re.escape(project['name'])}\[(.*)\]", text)
            if own is None:
                found.append(text)
            else:
                todo += [name.strip() for name in own[1].split(",")]
    return list(dict.fromkeys(found))


if __name__ == "__main__":
    print(*requirements(sys.argv[1].split(",")), sep="\n")
