"""Failures of the hub as sentences with a remedy; a token never stands in one."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from mntrain.errors import ConfigError, HubError
from mntrain.fields.suggestion import nearest
from mntrain.hub.place import HubRepository
from mntrain.hugging_face_hub import (
    REQUEST_ERRORS,
    TRANSPORT_ERRORS,
    GatedRepoError,
    HfApi,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
    get_token,
)
from mntrain.terminal_text import printable

_LOG_IN: Final = "log in with `hf auth login`, or set HF_TOKEN"
_MOST_LISTED: Final = 200
_LONGEST: Final = 300


@contextmanager
def hub_errors(api: HfApi, repository: HubRepository) -> Iterator[None]:
    """Turn errors of the library in the block into those of this package.

    Raises:
        HubError: no network, no such repository or revision, no permission, or an answer that is not a hub's.
        ConfigError: a name that the hub does not take.
    """
    try:
        yield
    except HFValidationError as error:
        raise ConfigError(f"The hub does not take the name {repository.name!r}: {safe_text(error)}") from error
    except REQUEST_ERRORS as error:
        raise HubError(_sentence(_root(error), api, repository)) from error


def safe_text(error: object) -> str:
    """Return a message from outside in one line: shortened, without control characters, without the token."""
    text = " ".join(str(error).split())
    token = get_token()
    if token:
        text = text.replace(token, "…")
    return printable(text[:_LONGEST])


def _root(error: BaseException) -> BaseException:
    """Return the answer of the hub, where the library has wrapped it in an error about its cache or an upload."""
    cause = error.__cause__
    wraps = isinstance(error, FileNotFoundError | RuntimeError) and not isinstance(error, HfHubHTTPError)
    if wraps and cause is not None and isinstance(cause, TRANSPORT_ERRORS):
        return _root(cause)
    return error


def _sentence(error: BaseException, api: HfApi, repository: HubRepository) -> str:
    name, endpoint = repository.name, api.endpoint
    if isinstance(error, OfflineModeIsEnabled):
        return f"{name} was not asked for, since HF_HUB_OFFLINE is set; unset it to reach {endpoint}."
    if isinstance(error, GatedRepoError):
        return f"{name} is gated: ask for access at {endpoint}/{name}, then {_LOG_IN}."
    if isinstance(error, RevisionNotFoundError):
        near = _near(repository.revision, lambda: _revisions(api, name))
        return f"{name} has no revision {repository.revision!r}{near}."
    if isinstance(error, RepositoryNotFoundError):
        near = _near(name, lambda: _siblings(api, name))
        return f"There is no repository {name} on {endpoint} that you may see{near}; if it is private, {_LOG_IN}."
    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code
        said = safe_text(error.server_message) if error.server_message else ""
        if status in (401, 403):
            return (
                f"{endpoint} does not allow this for {name}{f' ({said})' if said else ''}; {_LOG_IN}, with a token "
                "that may write where you push."
            )
        later = "; try again later" if status >= 500 or status == 429 else ""
        return f"{endpoint} answered {status} for {name}{f' ({said})' if said else ''}{later}."
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename} cannot be read or written: {error.strerror or error}."
    if isinstance(error, TRANSPORT_ERRORS):
        return f"{endpoint} cannot be reached ({safe_text(error)}); check the network, or HF_ENDPOINT."
    return f"{endpoint} did not answer as a hub does ({safe_text(error)}); check HF_ENDPOINT."


def _near(word: str | None, listed: Callable[[], Iterable[str]]) -> str:
    """Suggest the nearest of the listed names; nothing where they cannot be had."""
    if word is None:
        return ""
    try:
        found = nearest(word, list(listed()))
    except REQUEST_ERRORS:
        return ""
    return "" if found is None else f"; did you mean {printable(found)}?"


def _siblings(api: HfApi, name: str) -> Iterable[str]:
    owner, slash, _ = name.partition("/")
    if not slash:
        return
    for model in api.list_models(author=owner, limit=_MOST_LISTED):
        yield model.id


def _revisions(api: HfApi, name: str) -> Iterable[str]:
    refs = api.list_repo_refs(name)
    return [ref.name for ref in (*refs.branches, *refs.tags)]
