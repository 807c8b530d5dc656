"""Made-up inputs, with which a model is tried when it is loaded.

Zeros would tell little: they divide, index and resize by nothing, and rows of zeros are all the same. There is no input
that every model takes, so several styles and sizes are tried, one after the other.

Shapes: one row, [1, *dims], or [*dims] for a model without a batch dimension.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import numpy as np

from mnserve.codec.datatypes import Datatype
from mnserve.codec.signature import RequestSignature, TensorRule

Array = np.ndarray[Any, Any]

_OPEN_SIZES: Final = (8, 64, 1, 2, 224)
"""Sizes of dimensions that are left open: a sequence, a small image, the smallest, and an image as many models want."""
_MAX_BYTES: Final = 2**26
"""Most bytes of the inputs of one row with open dimensions."""
_PERIOD: Final = 4093
"""Floats of a row that are drawn; larger rows repeat them. A prime, so that lines and channels differ."""
_INTEGERS: Final = {"normal": (1, 4), "wide": (0, 100), "small": (0, 2), "extreme": (-1024, 1024), "gaps": (-1, 2)}
_FACTORS: Final = {"wide": 200.0, "extreme": 1e6}
_BF16_INFINITY: Final = 0x7F80
_MOST_OF_HALF: Final = 4000.0
"""Factor with which half floats stay finite."""
_FORMS: Final = {"normal": "{}", "wide": "{}.5", "small": "word {}", "extreme": "-{}000000", "gaps": "{}"}
_SCALES: Final = (1.0, 3.0, 0.5, 2.0)
"""Scales of rows 0, 1, 2, 3, 0, …: a model that looks at the largest of all rows gives itself away."""


class Style(Enum):
    """Values of made-up inputs.

    Attributes:
        NORMAL: Floats around 0, integers from 1 to 3, digits.
        WIDE: Floats of some hundreds, integers up to 99, numbers with a fraction.
        SMALL: Floats from 0.1 to 1, integers 0 and 1, words.
        ZEROS: Zeros, and empty strings.
        EXTREME: Floats of some millions, infinite in half of the rows, integers below 0 and to 1,023, long numbers.
        GAPS: NaN among floats around 0, -1 among integers 0 and 1, empty strings among digits.
    """

    NORMAL = "normal"
    WIDE = "wide"
    SMALL = "small"
    ZEROS = "zeros"
    EXTREME = "extreme"
    GAPS = "gaps"


_TRIED: Final = (Style.NORMAL, Style.WIDE, Style.SMALL, Style.ZEROS)
RARE: Final = (Style.EXTREME, Style.GAPS)
"""Values that many models refuse, or answer with NaN; with others, rows influence each other for these alone."""


@dataclass(frozen=True, kw_only=True)
class MadeUpInputs:
    """Rows of one style and one size of open dimensions.

    Attributes:
        rules: Rules for requests.
        style: Style of the values.
        open_size: Size of dimensions that may have any.
    """

    rules: RequestSignature
    style: Style
    open_size: int

    def row(self, number: int) -> Mapping[str, Array]:
        """Makes the inputs of a row; rows of different numbers differ, except for zeros."""
        return {rule.name: np.asarray(self._values(rule, self._shape(rule), number)) for rule in self.rules.inputs}

    def _values(self, rule: TensorRule, shape: list[int], number: int) -> Array:
        nan_passes = self.rules.allow_non_finite or self.rules.allow_nan
        if self.style is Style.GAPS and rule.datatype.floating and not nan_passes:
            return _values(rule, shape, Style.NORMAL, number)  # requests with NaN are refused
        values = _values(rule, shape, self.style, number)
        if (
            self.style is Style.EXTREME
            and rule.datatype.floating
            and self.rules.allow_non_finite
            and number % 4 in (1, 2)
        ):
            values.reshape(-1)[::3] = _BF16_INFINITY if rule.datatype.name == "BF16" else np.inf
        return values

    @property
    def nbytes(self) -> int:
        """Bytes of one row."""
        return sum(math.prod(self._shape(rule)) * rule.datatype.dtype.itemsize for rule in self.rules.inputs)

    def _shape(self, rule: TensorRule) -> list[int]:
        dims = [self.open_size if size == -1 else size for size in rule.dims]
        return [1, *dims] if self.rules.max_batch_size > 0 else dims


def made_up_inputs(rules: RequestSignature) -> Iterator[MadeUpInputs]:
    """Yields inputs to try, the likeliest first."""
    is_open = any(-1 in rule.dims for rule in rules.inputs)
    for size in _OPEN_SIZES if is_open else (1,):
        for style in _TRIED:
            inputs = MadeUpInputs(rules=rules, style=style, open_size=size)
            if not is_open or inputs.nbytes <= _MAX_BYTES:
                yield inputs


def _values(rule: TensorRule, shape: list[int], style: Style, number: int) -> Array:
    datatype = rule.datatype
    if style is Style.ZEROS:
        return datatype.zeros(shape)
    generator = np.random.default_rng([number, zlib.crc32(rule.name.encode()), list(Style).index(style)])
    if datatype.is_bytes:
        return _texts(generator, shape, style)
    if datatype.floating:
        return _floats(generator, datatype, shape, style, _SCALES[number % len(_SCALES)])
    if datatype.name == "BOOL":
        return generator.random(shape) < 0.5
    low, high = _INTEGERS[style.value]
    limits = np.iinfo(datatype.dtype)
    return generator.integers(max(low, limits.min), min(high, int(limits.max) + 1), shape).astype(datatype.dtype)


def _floats(generator: np.random.Generator, datatype: Datatype, shape: list[int], style: Style, scale: float) -> Array:
    count = min(math.prod(shape), _PERIOD)
    if style is Style.SMALL:
        values = generator.random(count, dtype=np.float32) * np.float32(0.9) + np.float32(0.1)
    else:
        factor = scale * min(_FACTORS.get(style.value, 1.0), _MOST_OF_HALF if datatype.name == "FP16" else math.inf)
        values = generator.standard_normal(count, dtype=np.float32) * np.float32(factor)
        if style is Style.GAPS:
            values[generator.random(count) < 0.3] = np.nan
    values = np.resize(values, shape)
    if datatype.name == "BF16":  # the upper half of a float32
        return (np.ascontiguousarray(values).view(np.uint32) >> 16).astype(np.uint16).reshape(shape)
    return values.astype(datatype.dtype, copy=False)


def _texts(generator: np.random.Generator, shape: list[int], style: Style) -> Array:
    form = _FORMS[style.value]
    array = np.empty(shape, dtype=object)
    numbers = generator.integers(1, 10, shape)
    array.ravel()[:] = [form.format(number).encode() for number in np.ravel(numbers)]
    if style is Style.GAPS:
        array[numbers < 4] = b""
    return array
