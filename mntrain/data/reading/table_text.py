"""Tables in text files: delimiter, decimal mark, compression, and the spellings of missing values."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from mntrain.data.labels import listing
from mntrain.data.reading.table_decimals import with_numbers
from mntrain.errors import DataError
from mntrain.regular_files import regular

DELIMITERS: Mapping[str, str] = MappingProxyType({",": "comma", ";": "semicolon", "\t": "tab"})
MISSING_TEXTS = frozenset({*pyarrow.csv.ConvertOptions().null_values, "<NA>"})
"""Texts that stand for a missing value in every column."""
_HEAD = 1 << 20
_COMPARED_LINES = 20


@dataclass(frozen=True, kw_only=True)
class TextTable:
    """A table as it was read from text.

    Args:
        table: its columns; texts without blanks around them.
        layout: delimiter and decimal mark in words.
    """

    table: pa.Table
    layout: str


def read_text_table(file: Path, texts: Collection[str] = ()) -> TextTable:
    """Read a file with a line of names and one line for each row.

    Args:
        file: UTF-8 text, perhaps compressed (``.gz``).
        texts: names of columns that are read as texts, whatever they hold.

    Raises:
        DataError: the file is no UTF-8 text, or its delimiter or its decimal marks cannot be told.
        OSError, EOFError, pa.ArrowException: it is damaged.
    """
    with _open(file) as stream:
        head = stream.read(_HEAD)
        delimiter = _delimiter(_decoded(head, file), file)
        content = head + stream.read()
    table = _parse(content, delimiter, [])
    names = [name.strip() or f"Unnamed: {place}" for place, name in enumerate(table.column_names)]
    check_unique(names, file)
    wanted = [raw for raw, name in zip(table.column_names, names, strict=True) if name in texts]
    if wanted:
        table = _parse(content, delimiter, wanted)
    binary = [f"'{name}'" for name, kind in zip(names, table.schema.types, strict=True) if pa.types.is_binary(kind)]
    if binary:
        raise _no_utf8(file, f"column {listing(binary)}")
    clean = pa.table([trimmed(column) for column in table.columns], names=names)
    plain, decimal = with_numbers(clean, keep=frozenset(texts), delimiter=delimiter, where=f"'{file}'")
    layout = f"{DELIMITERS[delimiter]}-separated text" + (" with decimal commas" if decimal == "," else "")
    return TextTable(table=plain, layout=layout)


def check_unique(names: Sequence[str], file: Path) -> None:
    """Check that the columns of ``file`` can be told apart by their names.

    Raises:
        DataError: several have one name.
    """
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(f"'{file}' has several columns called {listing(twice)}; give every column a name of its own.")


def _open(file: Path) -> BinaryIO:
    if file.name.lower().endswith(".gz"):
        return cast(BinaryIO, gzip.open(regular(file), "rb"))
    return regular(file).open("rb")


def _decoded(head: bytes, file: Path) -> str:
    """Decode the start of a file; a character cut off at its end is left out."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise _no_utf8(file, "it starts like UTF-16")
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head)
    except UnicodeDecodeError as error:
        raise _no_utf8(file, f"line {head[: error.start].count(10) + 1}") from error
    if "\0" in text:
        raise DataError(f"'{file}' cannot be read as a table (it holds zero bytes); it is no text.")
    return text


def _no_utf8(file: Path, where: str) -> DataError:
    return DataError(
        f"'{file}' cannot be read as a table ({where}): it is not UTF-8 text, but perhaps Latin-1, Windows-1252 or "
        "UTF-16; save it as UTF-8, such as by `iconv -f WINDOWS-1252 -t UTF-8`."
    )


def _delimiter(text: str, file: Path) -> str:
    """Tell the delimiter by the line of names; where that has several, by the number of fields in the lines below."""
    fields = {mark: _lengths(text, mark) for mark in DELIMITERS}
    found = [mark for mark, lengths in fields.items() if lengths and lengths[0] > 1]
    if len(found) > 1:
        found = [mark for mark in found if set(fields[mark]) == {fields[mark][0]}] or found
    if len(found) > 1:
        raise DataError(
            f"'{file}' cannot be read as a table (its line of names has several delimiters: "
            f"{listing([DELIMITERS[mark] for mark in found])}); put the names in quotes."
        )
    return found[0] if found else ","


def _lengths(text: str, delimiter: str) -> list[int]:
    """Count the fields in each of the first lines; the last one may be cut off and does not count."""
    lengths = []
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        for row in rows:
            if row:
                lengths.append(len(row))
            if len(lengths) == _COMPARED_LINES:
                return lengths
    except csv.Error:
        return []
    return lengths[:-1] if len(text) >= _HEAD else lengths


def _parse(content: bytes, delimiter: str, texts: list[str]) -> pa.Table:
    """Parse text in one block, so that the type of a column is that of all its values.

    In one thread: threads of Arrow beside those of PyTorch may abort a program that ends at once.
    """
    size = min(max(len(content), 1 << 20), (1 << 31) - 1)
    return pyarrow.csv.read_csv(
        pa.BufferReader(content),
        read_options=pyarrow.csv.ReadOptions(block_size=size, use_threads=False),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            null_values=sorted(MISSING_TEXTS), column_types=dict.fromkeys(texts, pa.string())
        ),
    )


def trimmed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Take blanks from around texts, and missing values from among them; other columns stay as they are.

    Texts stored by number, as pandas stores categories, become plain ones.
    """
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        return column
    column = column.cast(pa.string())
    plain = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(plain, value_set=pa.array(sorted(MISSING_TEXTS)))
    return pc.if_else(missing, pa.scalar(None, pa.string()), plain)
