"""Faults of stores as sentences: no access, nothing there, no answer. Every library has its own errors for these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from mnserve.errors import StoreError, StoreUnreachableError
from mnserve.object_store.url import StoreUrl

_CREDENTIALS: Final = {
    "s3": "give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE or a role, with the right to list and read it",
    "gs": "give GOOGLE_APPLICATION_CREDENTIALS or a service account, with the right to list and read it",
    "hf": "give HF_TOKEN, or log in with `hf auth login`",
    "abfs": "give AZURE_STORAGE_ACCOUNT_NAME and its key or identity",
}
_WEB_CREDENTIALS: Final = "give https://NAME:PASSWORD@HOST/…, or headers in FSSPEC_HTTP"
_REFUSED: Final = ("NoCredentials", "CredentialsError", "Forbidden", "Unauthorized", "TokenRetrieval", "GatedRepo")
"""Parts of the names of errors that are about credentials."""
_UNREACHABLE: Final = ("Connect", "Timeout", "Connection", "Disconnected", "PayloadError", "DNS")
_TRANSIENT: Final = (408, 425, 429)
_NO_RANGES: Final = (400, 405, 416, 500, 501)
"""Answers of servers that do not know ranges to a request for one."""
_Result = TypeVar("_Result")


class NoRangesError(StoreUnreachableError):
    """The store cannot begin within a file."""


def within_file(offset: int, call: Callable[[], _Result]) -> _Result:
    """Calls what begins to read at an offset.

    Raises:
        NoRangesError: The store does not give parts of files; the whole file it may give.
    """
    try:
        return call()
    except Exception as error:
        if offset and (isinstance(error, ValueError) or _status(error) in _NO_RANGES):
            raise NoRangesError(f"the object store does not begin a file after {offset} bytes of it") from error
        raise


def describe(error: BaseException, url: StoreUrl, what: str) -> StoreError:
    """Makes the error that tells what has failed, without credentials.

    Args:
        error: Error of a library.
        url: URL of the repository.
        what: The part of the repository that was asked for.
    """
    chain = list(_chain(error))
    status = next((code for item in chain if (code := _status(item)) is not None), None)
    where = f"the object store of {url.shown}"
    answer = f" (HTTP {status})" if status else ""
    reason = url.redactor.error(next((item for item in chain if _status(item) is not None), chain[-1]))
    if status in (401, 403) or any(_is_refusal(item) for item in chain):
        remedy = _CREDENTIALS.get(url.scheme, _WEB_CREDENTIALS if url.is_web else "let this user read it")
        return StoreError(f"{where} refuses to give {what}{answer}; {remedy}")
    if isinstance(error, TimeoutError) and not str(error):
        return StoreUnreachableError(
            f"{where} has not sent {what} in time (--store-timeout); check the network, or raise the limit"
        )
    lost = any(part in type(item).__name__ for item in chain for part in _UNREACHABLE)
    if status is not None and (status >= 500 or status in _TRANSIENT):
        return StoreUnreachableError(f"{where} cannot give {what} now{answer}: {reason}; try again later")
    # fsspec takes any failed look at a file on a web server for a missing one.
    garbled = url.is_web and not isinstance(chain[-1], FileNotFoundError)
    is_missing = any(isinstance(item, FileNotFoundError) for item in chain) and not garbled
    if not lost and (status in (404, 410) or is_missing):
        hidden = "; or, if it is private, give HF_TOKEN" if url.scheme == "hf" else ""
        return StoreError(
            f"{where} does not have {what}; give the URL of the folder that holds the model folders{hidden}"
        )
    return StoreUnreachableError(
        f"{where} does not answer for {what}{answer}: {reason}; check the address, the network and the store"
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Goes from an error to what has caused it."""
    current: BaseException | None = error
    for _ in range(10):
        if current is None:
            return
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def _is_refusal(error: BaseException) -> bool:
    name = type(error).__name__
    return isinstance(error, PermissionError) or any(part in name for part in _REFUSED)


def _status(error: BaseException) -> int | None:
    """Finds the HTTP status in an error of aiohttp, httpx, requests, botocore or gcsfs."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        response = response.get("ResponseMetadata", {})
        found = response.get("HTTPStatusCode") if isinstance(response, dict) else None
    else:
        found = getattr(response, "status_code", None)
    for value in (found, getattr(error, "status", None), vars(error).get("code")):
        if isinstance(value, int) and 400 <= value < 600:
            return value
    return None
