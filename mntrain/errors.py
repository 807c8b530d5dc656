"""Errors that mntrain raises on purpose.

::

    MnTrainError             the work failed                                      exit code 1
    ├── ConfigError          wrong usage: unknown recipe, field, source or value  exit code 2
    ├── DataError            missing, corrupt or unusable images or labels        exit code 1
    ├── ArtifactError        an artifact is missing, damaged or of another version exit code 1
    ├── HubError             the hub cannot be reached, or refuses                exit code 1
    ├── CheckpointError      a checkpoint cannot be read or does not fit the run  exit code 1
    └── TrainingError        training itself went wrong (a loss that is not finite) exit code 1

A message is written for the person who reads it on a terminal: it names the value, what was expected, and the
remedy. The command line prints it without a traceback and exits with ``exit_code``; any other exception is a
bug of this package and keeps its traceback.
"""

from __future__ import annotations

from typing import ClassVar


class MnTrainError(Exception):
    """Base of all errors of this package."""

    exit_code: ClassVar[int] = 1
    """Exit status of the process when the error reaches the command line."""


class ConfigError(MnTrainError):
    """Wrong usage: an unknown name, an invalid value, values that contradict each other."""

    exit_code: ClassVar[int] = 2


class DataError(MnTrainError):
    """The data is missing, corrupt, or cannot be used for training as it is."""


class ArtifactError(MnTrainError):
    """An artifact is missing, damaged, or of a version that this package does not read."""


class HubError(MnTrainError):
    """The Hugging Face hub cannot be reached, refuses, or has no such repository or revision."""


class CheckpointError(MnTrainError):
    """A checkpoint cannot be read, or does not fit the run that wants to continue from it."""


class TrainingError(MnTrainError):
    """Training cannot go on, for instance because the loss is not finite."""
