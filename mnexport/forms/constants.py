"""Constants of a static form: named tuples of tensors that follow a module to another device or precision."""

from typing import Generic, TypeVar

from torch import Tensor, nn

Fields = TypeVar("Fields", bound=tuple[Tensor | None, ...])


class Constants(nn.Module, Generic[Fields]):
    """Module that holds a named tuple of tensors as buffers.

    Args:
        values: the named tuple; its tensors are copied.
    """

    def __init__(self, values: Fields) -> None:
        super().__init__()
        self._kind = type(values)
        self._names: tuple[str, ...] = values._fields  # type: ignore[attr-defined]
        for name, value in zip(self._names, values, strict=True):
            self.register_buffer(name, None if value is None else value.detach().clone())

    def forward(self) -> Fields:
        """Return the named tuple."""
        return self._kind(*(getattr(self, name) for name in self._names))
