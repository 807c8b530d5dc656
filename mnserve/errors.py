"""Error tree of mnserve: every error that is raised on purpose.

::

    MnServeError                      one sentence for the user, no traceback
    ├── SettingsError                 an option has a value that cannot work
    ├── OutputError                   standard output or a result file cannot be written to
    ├── StartError                    the server cannot start (port in use, nothing to serve)
    ├── CredentialsError              a file of certificates, keys or tokens cannot be used
    ├── RepositoryError               the model repository cannot be served
    │   ├── RepositoryNotFoundError   no such folder
    │   ├── ModelNotFoundError        no such model in the repository
    │   ├── VersionNotFoundError      the model has no such version
    │   ├── ModelConfigError          config.pbtxt is malformed, unsupported, or does not fit the model file
    │   ├── CorruptModelError         files are missing, unreadable, or not the ones that were published
    │   ├── ModelCacheError           copies of models of an object store have no room, or cannot be written
    │   └── StoreError                an object store refuses, or lacks what was asked for
    │       └── StoreUnreachableError an object store does not answer, and could later
    ├── EngineError                   the engine failed
    │   ├── EngineLoadError           the engine could not load the model
    │   ├── EngineRunError            the engine could not run this batch
    │   │   └── EngineInputError      the engine can never take a value of the batch
    │   └── EngineProcessError        the process of the engine has a fault, which its log describes
    ├── ClientError                   a server gave no usable answer
    │   ├── ServerUnreachableError    nothing answers at that address
    │   ├── RequestRefusedError       the server refused this request
    │   └── AnswerTimeoutError        no answer in time
    ├── ImageError                    an image file cannot be used
    ├── ImageModelError               the model does not turn one image into class scores
    ├── RowFileError                  a table cannot be read, or lacks columns of the model
    ├── RowError                      a row has no values that the model takes
    ├── RowModelError                 the model does not answer rows as it says
    ├── TrainingImagesError           a file of training images is damaged, or is of another model
    ├── BenchError                    a measurement cannot be made as asked
    ├── TuningError                   no configuration keeps the bound, or the chosen one cannot be put in place
    └── RequestError                  a request gets an error status (mnserve.status has the table)
        ├── InvalidRequestError       the request is wrong: INVALID_ARGUMENT
        ├── UnauthenticatedError      no token, or an unknown one: UNAUTHENTICATED
        ├── PermissionDeniedError     the token is not good for this call: PERMISSION_DENIED
        ├── UnknownModelError         no such model or version: NOT_FOUND
        ├── UnknownRegionError        no such region of shared memory: NOT_FOUND
        ├── RegionExistsError         a region has this name already: ALREADY_EXISTS
        ├── LoadFailedError           a model that was to be loaded cannot be: INVALID_ARGUMENT
        ├── UnsupportedError          a feature that is switched off or not built: UNIMPLEMENTED
        ├── UnavailableError          the request could succeed later: UNAVAILABLE
        │   ├── ModelNotReadyError    the model failed to load, or its batcher died
        │   ├── QueueFullError        too many requests, rows or bytes are waiting
        │   ├── QueueTimeoutError     the request waited in the queue for longer than its policy allows
        │   ├── TooManyCallsError     too many calls are in progress, or this one keeps others waiting
        │   ├── StoppingError         the server is shutting down
        │   ├── StaleEndpointError    the version was replaced while the request was on its way to it
        │   └── EngineLostError       the process of the engine has ended, and another one is started
        ├── DeadlineExceededError     the caller's time is up: DEADLINE_EXCEEDED
        ├── RateLimitedError          the caller sends too many requests: RESOURCE_EXHAUSTED
        ├── MessageTooLargeError      the message is over the limit of its call: RESOURCE_EXHAUSTED
        └── AnswerTooLargeError       the answer is over the message limit: RESOURCE_EXHAUSTED
"""

from __future__ import annotations

from typing import ClassVar


class MnServeError(Exception):
    """Root of the error tree. The message is one sentence that names the value, the limit and the remedy."""

    exit_code: ClassVar[int] = 1
    """Exit code of a command that ends with this error."""


class SettingsError(MnServeError):
    """An option has a value that cannot work."""

    exit_code = 2


class OutputError(MnServeError):
    """Standard output, or a file that was asked for, cannot be written to."""


class StartError(MnServeError):
    """The server cannot start."""


class CredentialsError(MnServeError):
    """A file of certificates, keys or tokens cannot be used; the message has nothing secret."""


class RepositoryError(MnServeError):
    """The model repository cannot be served."""


class RepositoryNotFoundError(RepositoryError):
    """The repository folder does not exist."""


class ModelNotFoundError(RepositoryError):
    """The repository has no such model."""


class VersionNotFoundError(RepositoryError):
    """The model has no such version."""


class ModelConfigError(RepositoryError):
    """``config.pbtxt`` is malformed, asks for something unsupported, or does not fit the model file."""


class CorruptModelError(RepositoryError):
    """Files of the model are missing, unreadable, or not the ones that were published."""


class ModelCacheError(RepositoryError):
    """The folder for copies of models has no room, or cannot be written to."""


class StoreError(RepositoryError):
    """An object store refuses, or has not what was asked for; the message has no credentials."""


class StoreUnreachableError(StoreError):
    """An object store does not answer; it could later."""


class EngineError(MnServeError):
    """The engine failed."""


class EngineLoadError(EngineError):
    """The engine could not load the model."""


class EngineRunError(EngineError):
    """The engine could not run this batch."""


class EngineInputError(EngineRunError):
    """The engine can never take a value of the batch; the request is at fault."""


class EngineProcessError(EngineError):
    """The process of the engine has a fault; the message names the id under which its log has the traceback."""


class ClientError(MnServeError):
    """A server gave no usable answer."""


class ServerUnreachableError(ClientError):
    """No server answers at the address."""


class RequestRefusedError(ClientError):
    """The server refused this request; the message is the server's own, with a remedy for the user."""


class AnswerTimeoutError(ClientError):
    """The server did not answer in time."""


class ImageError(MnServeError):
    """An image file is missing, damaged, or not what the model takes."""


class ImageModelError(MnServeError):
    """The model does not turn one image into class scores."""


class RowFileError(MnServeError):
    """A table is missing or damaged, or lacks columns of the model."""


class RowError(MnServeError):
    """A row has no values that the model takes."""


class RowModelError(MnServeError):
    """The model does not answer rows as its configuration says."""


class TrainingImagesError(MnServeError):
    """A file of training images is missing or damaged, or belongs to another model than the one that answers."""


class BenchError(MnServeError):
    """A measurement cannot be made as asked."""


class TuningError(MnServeError):
    """No configuration keeps the bound, or the chosen one cannot be put in place."""


class RequestError(MnServeError):
    """A request is answered with an error status."""


class InvalidRequestError(RequestError):
    """The request itself is wrong."""


class UnauthenticatedError(RequestError):
    """The call has no token, or an unknown one."""


class PermissionDeniedError(RequestError):
    """The token is known, but lacks the right to make this call."""


class UnknownModelError(RequestError):
    """The server has no such model, or not in this version."""


class UnknownRegionError(RequestError):
    """There is no such region of shared memory."""


class RegionExistsError(RequestError):
    """A region of shared memory has this name already."""


class LoadFailedError(RequestError):
    """A requested model cannot be loaded; its earlier versions stay in service."""


class UnsupportedError(RequestError):
    """The request asks for a feature that is switched off or not built."""


class UnavailableError(RequestError):
    """The request could succeed later, or elsewhere."""


class ModelNotReadyError(UnavailableError):
    """The model failed to load, or can no longer run."""


class QueueFullError(UnavailableError):
    """Too many requests, rows or bytes are waiting already."""


class QueueTimeoutError(UnavailableError):
    """The request waited in the queue for longer than the model's queue policy allows, and was not run."""


class TooManyCallsError(UnavailableError):
    """As many calls as the server takes are in progress, or the message of this one was too slow to come."""


class StoppingError(UnavailableError):
    """The server is shutting down and admits nothing new."""


class StaleEndpointError(UnavailableError):
    """The version of the model was replaced or unloaded while the request was on its way to the engine process."""


class EngineLostError(UnavailableError):
    """The process of the engine has ended with the request; another one is started in its place."""


class DeadlineExceededError(RequestError):
    """The deadline of the call has passed; its work was dropped."""


class RateLimitedError(RequestError):
    """The caller sends more requests than its limit allows.

    Args:
        message: One sentence.
        retry_ms: Milliseconds until the next request is admitted.
    """

    def __init__(self, message: str, retry_ms: int) -> None:
        super().__init__(message)
        self.retry_ms = retry_ms


class MessageTooLargeError(RequestError):
    """The message is larger than a call of its kind takes."""


class AnswerTooLargeError(RequestError):
    """The answer was computed, but is larger than a message may be."""
