"""File systems of fsspec for object stores. Each store's library is imported when its URL is opened.

The library of the Hugging Face hub reports usage unless a variable is set before its import.
"""

from __future__ import annotations

import os
from typing import Any, Final

from mnserve.errors import SettingsError
from mnserve.missing_packages import missing_extra
from mnserve.object_store.url import StoreUrl

_EXTRAS: Final = {"s3": "storage-s3", "gs": "storage-gs", "hf": "storage-hf", "abfs": "storage-az"}
"""Scheme -> extra of its library; the others need `storage` alone."""
_TELEMETRY: Final = "HF_HUB_DISABLE_TELEMETRY"


def open_filesystem(url: StoreUrl, timeout: float) -> Any:
    """Opens the file system of a URL. Nothing is asked for yet, except that some libraries look up credentials.

    Args:
        url: URL of the repository.
        timeout: Seconds for a connection, and for the next bytes of an answer.

    Raises:
        SettingsError: The package of the store is not installed.
    """
    try:
        return _open(url, timeout)
    except ImportError as error:  # fsspec raises it anew, with the first one as its cause
        cause = error if isinstance(error, ModuleNotFoundError) else error.__cause__
        extra = _EXTRAS.get(url.scheme, "storage")
        sentence = None
        if isinstance(cause, ModuleNotFoundError):
            sentence = missing_extra(cause, f"the repository {url.shown}", extra)
        if sentence is None:
            raise
        raise SettingsError(sentence) from error


def _open(url: StoreUrl, timeout: float) -> Any:
    if url.scheme == "hf":
        return _open_hub()
    import fsspec

    options = _options(url, timeout)
    configured = fsspec.config.conf.get(url.scheme, {})  # by variables FSSPEC_… and files; fsspec would replace them
    for name, value in options.items():
        if isinstance(value, dict) and isinstance(configured.get(name), dict):
            options[name] = {**value, **configured[name]}
    return fsspec.filesystem(url.scheme, skip_instance_cache=True, use_listings_cache=False, **options)


def _open_hub() -> Any:
    # A user who wants the reports sets 0.
    if not os.environ.get(_TELEMETRY):
        os.environ[_TELEMETRY] = "1"
    from huggingface_hub import HfFileSystem, constants

    if os.environ[_TELEMETRY].lower() in ("1", "on", "yes", "true"):
        constants.HF_HUB_DISABLE_TELEMETRY = True  # where another package has imported the library before
    return HfFileSystem(skip_instance_cache=True, use_listings_cache=False)


def _options(url: StoreUrl, timeout: float) -> dict[str, Any]:
    if url.scheme == "s3":
        return {"config_kwargs": {"connect_timeout": timeout, "read_timeout": timeout}}
    if not url.is_web:
        return {}
    from mnserve.object_store.web_client import web_options

    return web_options(url, timeout)
