"""Errors of mnexport.

MnExportError
├── UsageError        wrong option or combination of options (exit code 2)
│   └── FormError     the model has no such static form, or none in this dtype
├── GraphError        the static form does not become a valid ONNX file
├── TensorRTError     no TensorRT engine can be built from it
├── ParityError       the export does not answer as the trained model does
├── ScratchError      no room is left for work in progress
└── PublishError      the model repository cannot take the export
"""


class MnExportError(Exception):
    """Root of all errors that a user can act on; nothing was published unless the message says so."""

    exit_code = 1


class UsageError(MnExportError):
    """Wrong option or combination of options."""

    exit_code = 2


class FormError(UsageError):
    """The model has no such static form, or none in this dtype."""


class GraphError(MnExportError):
    """The static form does not become a valid ONNX file."""


class TensorRTError(MnExportError):
    """No TensorRT engine can be built from the exported graph."""


class ParityError(MnExportError):
    """The export does not answer as the trained model does."""


class ScratchError(MnExportError):
    """No room is left for work in progress."""


class PublishError(MnExportError):
    """The model repository cannot take the export."""
