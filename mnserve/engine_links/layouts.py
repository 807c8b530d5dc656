"""Layouts of requests and answers that the two ends of a link have told one another.

Numbers count from 0, and layout 0 starts anew: both ends forget the earlier ones then, so that their number is bounded.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

import numpy as np

from mnserve.channel.records import DamagedRecordsError
from mnserve.codec.packed_tensors import Buffer, PackedTensors, datatype_name
from mnserve.text.json_text import parse_json

Array: TypeAlias = np.ndarray[Any, Any]
_Layout = TypeVar("_Layout")

MAX_LAYOUTS: Final = 4096
"""Layouts that one end of a link tells before it starts anew."""


class SubmitLayout:
    """What many requests have in common.

    Args:
        inputs: Name, type and shape of each input.
        outputs: Names of the outputs wanted.
        rows: Rows of the batch, or 1.
        alone: The request shares no batch.

    Attributes:
        names: Names of the inputs.
        tensors: Places of the inputs.

    Raises:
        ValueError: A value makes no sense.
    """

    __slots__ = ("alone", "names", "outputs", "rows", "tensors")

    def __init__(
        self,
        inputs: Sequence[tuple[str, str, Sequence[int]]],
        outputs: Sequence[str],
        rows: int,
        alone: bool,
    ) -> None:
        if not isinstance(rows, int) or rows < 1:
            raise ValueError(f"{rows!r} rows make no sense")
        self.names = tuple(str(name) for name, _, _ in inputs)
        self.tensors = PackedTensors([(datatype, shape) for _, datatype, shape in inputs])
        self.outputs = tuple(map(str, outputs))
        self.rows = rows
        self.alone = bool(alone)

    def feeds(self, buffer: Buffer, offset: int) -> Mapping[str, Array]:
        """Finds inputs without strings at an offset of a buffer, which has all their bytes."""
        return dict(zip(self.names, self.tensors.view(buffer, offset), strict=True))


def submit_layout_json(feeds: Mapping[str, Array], outputs: Sequence[str], rows: int, alone: bool) -> bytes:
    """Describes the layout of a request.

    Raises:
        EngineRunError: An input has elements that the protocol has no name for.
    """
    inputs = [(name, datatype_name(array), array.shape) for name, array in feeds.items()]
    return json.dumps({"inputs": inputs, "outputs": outputs, "rows": rows, "alone": alone}).encode()


def parse_submit_layout(text: bytes) -> SubmitLayout:
    """Reads the layout of a request.

    Raises:
        DamagedRecordsError: It makes no sense.
    """
    try:
        fields = parse_json(text.decode())
        inputs = [(name, datatype, shape) for name, datatype, shape in fields["inputs"]]
        return SubmitLayout(inputs, fields["outputs"], fields["rows"], fields["alone"])
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedRecordsError(f"the layout of a request makes no sense ({error})") from None


def answer_layout_json(arrays: Sequence[Array]) -> bytes:
    """Describes the layout of an answer.

    Raises:
        EngineRunError: An output has elements that the protocol has no name for.
    """
    return json.dumps([(datatype_name(array), array.shape) for array in arrays]).encode()


def parse_answer_layout(text: bytes) -> PackedTensors:
    """Reads the layout of an answer.

    Raises:
        DamagedRecordsError: It makes no sense.
    """
    try:
        return PackedTensors([(datatype, shape) for datatype, shape in parse_json(text.decode())])
    except (ValueError, TypeError) as error:
        raise DamagedRecordsError(f"the layout of an answer makes no sense ({error})") from None


class ToldLayouts(Generic[_Layout]):
    """Layouts that this end has told, by what they depend on."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[int, _Layout]] = {}
        self.find = self._known.get
        """Returns the number and the layout of a key; None where it was not told."""

    def add(self, key: Hashable, layout: _Layout) -> int:
        """Notes a layout, and returns the number to tell it under."""
        if len(self._known) >= MAX_LAYOUTS:
            self._known.clear()
        number = len(self._known)
        self._known[key] = (number, layout)
        return number


class HeardLayouts(Generic[_Layout]):
    """Layouts that the other end has told, by number."""

    def __init__(self) -> None:
        self._known: list[_Layout] = []

    def add(self, number: int, layout: _Layout) -> None:
        """Notes a layout.

        Raises:
            DamagedRecordsError: Its number is not the next one.
        """
        if number == 0:
            self._known.clear()
        if number != len(self._known) or number >= MAX_LAYOUTS:
            raise DamagedRecordsError(f"layout {number} follows {len(self._known)} layouts")
        self._known.append(layout)

    def get(self, number: int) -> _Layout:
        """Finds a layout.

        Raises:
            DamagedRecordsError: There is none of this number.
        """
        try:
            return self._known[number]
        except IndexError:
            raise DamagedRecordsError(f"layout {number} was not told") from None
