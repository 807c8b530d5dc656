"""Contents that are exchanged with a hub: which files of a folder belong to an artifact or a model repository.

::

    artifact      config.json · model.safetensors · samples.safetensors · README.md and a few further ones
    model         config.pbtxt · labels.txt · README.md · VERSION/export.json and the files that it has digests of
    repository    NAME/ with a model each · README.md
"""

import json
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from mntrain.errors import ArtifactError
from mntrain.regular_files import read_text

Kind = Literal["artifact", "model", "repository"]
NOUNS: Final[Mapping[Kind, str]] = {
    "artifact": "an artifact",
    "model": "a model of a repository",
    "repository": "a model repository",
}
CONFIG: Final = "config.pbtxt"
RECORD: Final = "export.json"
CARD: Final = "README.md"
NEEDED_OF_ARTIFACT: Final = ("config.json", "model.safetensors", "samples.safetensors")
OF_ARTIFACT: Final = (
    *NEEDED_OF_ARTIFACT,
    *(CARD, "composition.json", "neighbors.safetensors", "network_images.safetensors"),
)
"""Every file that an artifact may have."""
OF_MODEL: Final = (CONFIG, "labels.txt", CARD)
_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_VERSION: Final = re.compile(r"[1-9][0-9]{0,18}")


@dataclass(frozen=True, kw_only=True)
class Contents:
    """Files of a folder that belong to what it holds.

    Args:
        folder: where they lie.
        kind: what they are.
        files: paths below the folder, with ``/``, sorted.
        others: entries of the folder that are left out; hidden ones are not counted.
    """

    folder: Path
    kind: Kind
    files: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def size(self) -> int:
        """Number of bytes of all files."""
        return sum((self.folder / name).stat().st_size for name in self.files)

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models of a repository."""
        return tuple(sorted({name.split("/")[0] for name in self.files if "/" in name}))


def read_contents(folder: Path) -> Contents:
    """Find out what a folder holds, and which files belong to it.

    Raises:
        ArtifactError: it holds neither an artifact nor models, a file is missing, or one is no plain file.
    """
    if not folder.is_dir():
        raise ArtifactError(
            f"There is no folder {folder}; give an artifact (runs/NAME/artifact) or a model repository."
        )
    try:
        present = tuple(_walk(folder))
        kind = kind_of(present)
        if kind is None:
            raise ArtifactError(
                f"{folder} holds no artifact (config.json), no model (config.pbtxt) and no models; give "
                "runs/NAME/artifact or a repository that mnexport has written."
            )
        files = tuple(sorted(_belonging(folder, kind, present)))
        for name in files:
            _check_plain(folder / name)
    except OSError as error:
        raise ArtifactError(f"{error.filename or folder} cannot be read: {error.strerror or error}.") from error
    return Contents(folder=folder, kind=kind, files=files, others=_left_out(present, files))


def kind_of(names: Iterable[str]) -> Kind | None:
    """Tell what a set of paths is; None for something else."""
    given = set(names)
    if "config.json" in given and "model.safetensors" in given:
        return "artifact"
    if CONFIG in given:
        return "model"
    return "repository" if any(re.fullmatch(rf"[^/]+/{re.escape(CONFIG)}", name) for name in given) else None


def may_belong(kind: Kind, name: str) -> bool:
    """Tell if a path can be a file of ours by its form alone: no hidden file, no way out of the folder.

    Args:
        kind: of the contents.
        name: path below their folder, from anywhere.
    """
    parts = name.split("/")
    if not all(_SAFE.fullmatch(part) for part in parts):
        return False
    if kind == "artifact":
        return name in OF_ARTIFACT
    if kind == "repository":
        return name == CARD if len(parts) == 1 else may_belong("model", "/".join(parts[1:]))
    return name in OF_MODEL if len(parts) == 1 else len(parts) == 2 and bool(_VERSION.fullmatch(parts[0]))


def read_record(folder: Path) -> dict[str, Any]:
    """Read ``export.json`` of a version.

    Raises:
        ArtifactError: it is missing or damaged, or has no digests.
    """
    try:
        record = json.loads(read_text(folder / RECORD))
        digests = record["sha256"]
        if not isinstance(digests, dict) or not all(_SAFE.fullmatch(str(name)) for name in digests):
            raise ValueError("its digests are not those of files beside it")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        detail = getattr(error, "strerror", None) or str(error)
        raise ArtifactError(
            f"{folder / RECORD} does not tell which files belong to the version ({detail}); export it again with "
            "mnexport."
        ) from error
    assert isinstance(record, dict)
    return record


def _walk(folder: Path, depth: int = 3) -> Iterable[str]:
    """List files that are not hidden, three folders deep at most, with links as they are."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            if depth > 1:
                yield from (f"{entry.name}/{name}" for name in _walk(Path(entry.path), depth - 1))
        else:
            yield entry.name


def _belonging(folder: Path, kind: Kind, present: tuple[str, ...]) -> list[str]:
    if kind == "artifact":
        if missing := [name for name in NEEDED_OF_ARTIFACT if name not in present]:
            raise ArtifactError(
                f"{folder} has no {' and no '.join(missing)}; the artifact is incomplete, copy it again."
            )
        return [name for name in present if name in OF_ARTIFACT]
    if kind == "model":
        return _of_model(folder, present)
    models = sorted(
        {name.partition("/")[0] for name in present if name.count("/") == 1 and name.endswith(f"/{CONFIG}")}
    )
    files = [name for name in present if name == CARD]
    for model in models:
        if not _SAFE.fullmatch(model):
            raise ArtifactError(
                f"{folder} holds a model named {model!r}; rename it to letters, digits, '.', '_' and '-', also in its "
                "config.pbtxt."
            )
        inner = tuple(name.partition("/")[2] for name in present if name.startswith(f"{model}/"))
        files += [f"{model}/{name}" for name in _of_model(folder / model, inner)]
    return files


def _of_model(folder: Path, present: tuple[str, ...]) -> list[str]:
    versions = sorted({first for name in present if _VERSION.fullmatch(first := name.split("/")[0]) and "/" in name})
    if not versions:
        raise ArtifactError(f"{folder} has a config.pbtxt and no version; export the model again with mnexport.")
    files = [name for name in present if name in OF_MODEL]
    for version in versions:
        of_version = [RECORD, *read_record(folder / version)["sha256"]]
        if missing := [name for name in of_version if f"{version}/{name}" not in present]:
            raise ArtifactError(
                f"{folder / version} has no {missing[0]}, which its export.json names; export it again."
            )
        files += [f"{version}/{name}" for name in of_version]
    return files


def _left_out(present: tuple[str, ...], files: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in present if name not in set(files))


def _check_plain(file: Path) -> None:
    if not stat.S_ISREG(file.lstat().st_mode):
        raise ArtifactError(
            f"{file} is a link or no plain file; put the file itself there, so that it can be passed on."
        )
