"""Files of a table: one file, or a folder with one for each split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mntrain.data.account import Ignored
from mntrain.data.labels import listing
from mntrain.data.reading.split_names import SPLIT_NAMES
from mntrain.errors import ConfigError, DataError

TEXT_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
ENDINGS = (*TEXT_ENDINGS, ".parquet")
# A .txt file may be a table or a note, so it has to be given itself.
_ALONE = (".txt", ".txt.gz")


@dataclass(frozen=True, kw_only=True)
class TableFiles:
    """Files of a table.

    Args:
        splits: split → its file; ``all`` alone where there is one file.
        ignored: what else lies in the folder.
    """

    splits: Mapping[str, Path]
    ignored: tuple[Ignored, ...] = ()

    @property
    def description(self) -> str:
        """Sentence on where the splits come from."""
        if "all" in self.splits:
            return f"all splits are drawn from the rows of {self.splits['all'].name}"
        return ", ".join(f"{split} is {file.name}" for split, file in self.splits.items())


def ending_of(file: Path, endings: tuple[str, ...] = (*ENDINGS, *_ALONE)) -> str | None:
    """Return the ending of a table's name, with ``.gz``; None for other files."""
    name = file.name.lower()
    return max((ending for ending in endings if name.endswith(ending)), key=len, default=None)


def find_tables(path: Path, *, trained: bool = True) -> TableFiles:
    """Find the file or files at ``path``; a folder with a single table, whatever its name, counts as that file.

    Args:
        path: of a file or folder.
        trained: of several tables one must be that of training.

    Raises:
        DataError: nothing is there, or a folder holds several tables that are not named like splits.
        ConfigError: the file is no table.
    """
    if path.is_file():
        if ending_of(path) is None:
            raise ConfigError(
                f"data.path is '{path}', which is no table; use a file called {', '.join(ENDINGS)}, or .txt."
            )
        return TableFiles(splits={"all": path})
    if not path.is_dir():
        fault = "is a pipe, a socket or a device" if path.exists() else "does not exist"
        raise DataError(f"'{path}' {fault}; set data.path to a .csv, .tsv or .parquet file, or to a folder of them.")
    files, ignored = _sort(path)
    if len(files) == 1:
        return TableFiles(splits={"all": files[0]}, ignored=ignored)
    if not files:
        raise DataError(
            f"'{path}' holds nothing of that kind; a folder must hold one file called {', '.join(ENDINGS)}, or one "
            "for each split."
        )
    splits: dict[str, Path] = {}
    for file in files:
        ending = ending_of(file) or ""
        split = SPLIT_NAMES.get(file.name.lower().removesuffix(ending))
        if split is None or split in splits:
            fault = "belongs to no split" if split is None else f"is {split} like {splits[split].name}"
            raise DataError(
                f"'{path}' holds {listing([file.name for file in files])}, where {file.name} {fault}; a folder must "
                "hold one table, or tables named train, validation and test, one of each."
            )
        splits[split] = file
    if trained and "train" not in splits:
        raise DataError(
            f"'{path}' holds {listing([file.name for file in files])}, of which none is called train; name the file "
            "of training rows so."
        )
    return TableFiles(
        splits={name: splits[name] for name in ("train", "validation", "test") if name in splits}, ignored=ignored
    )


def _sort(folder: Path) -> tuple[list[Path], tuple[Ignored, ...]]:
    """Return the tables in a folder, and account for the rest."""
    files: list[Path] = []
    others: dict[str, list[str]] = {}
    for item in sorted(folder.iterdir()):
        if item.name.startswith("."):
            others.setdefault("hidden", []).append(item.name)
        elif item.is_dir():
            others.setdefault("a folder", []).append(item.name)
        elif ending_of(item, ENDINGS) is None:
            others.setdefault("no table by its name", []).append(item.name)
        else:
            files.append(item)
    return files, tuple(Ignored.of(reason, names) for reason, names in others.items())
