"""Names and folders of Hugging Face: what they mean, and what a wrong one may have meant."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

from mntrain.errors import ConfigError, DataError

_MISSING = ("RepositoryNotFoundError", "HFValidationError", "RevisionNotFoundError", "GatedRepoError")
_LISTED = 50
_SECONDS = 10.0


def local_folder(name: str) -> Path | None:
    """Return the folder that ``name`` means; None for a name on the hub.

    Raises:
        ConfigError: a path that does not exist, with the nearest one that does; or a folder without a network.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ConfigError(
                f"hf:{name} is a folder without config.json, so it holds no network of `transformers`; save one there "
                "with model.save_pretrained."
            )
        return path
    if path.exists():
        raise ConfigError(f"hf:{name} is a file; give the folder that holds config.json and the weights.")
    if name.startswith((".", "/", "~")) or (name.count("/") != 1 and "/" in name):
        near = nearest_sibling(path, folders=True)
        raise ConfigError(f"hf:{name} does not exist.{near}")
    return None


def nearest_sibling(path: Path, *, folders: bool, suffix: str = "") -> str:
    """Write which name beside ``path`` is nearest to its own; empty where none is near."""
    try:
        siblings = [item.name for item in path.parent.iterdir() if (item.is_dir() if folders else item.is_file())]
    except OSError:
        return f" There is no folder {path.parent} either."
    close = get_close_matches(path.name, [name for name in siblings if name.endswith(suffix)], n=1)
    return f" Did you mean {str(path.with_name(close[0]))!r}?" if close else ""


def hub_error(name: str, error: Exception) -> ConfigError | DataError:
    """Make the error of a name on the hub that could not be opened.

    Args:
        name: on the hub.
        error: of `transformers` or the hub.
    """
    kinds = _kinds(error)
    near = get_close_matches(name, cached_names(), n=1)
    hint = f" Of those kept on this machine {near[0]!r} is nearest." if near else ""
    if any(kind in kinds for kind in _MISSING):
        listed = get_close_matches(name, _search(name), n=1, cutoff=0.4)
        meant = f" Did you mean {listed[0]!r}?" if listed else hint
        return ConfigError(f"There is no public network {name!r} on the Hugging Face hub, and no such folder.{meant}")
    if any(kind in kinds for kind in ("ConnectError", "LocalEntryNotFoundError", "OfflineModeIsEnabled")) or any(
        word in str(error) for word in ("connect to", "offline", "cached")
    ):
        return DataError(
            f"The weights of {name!r} are not on this machine, and the Hugging Face hub cannot be reached; connect to "
            f"it once, or copy the folder of the network here and give hf:FOLDER.{hint}"
        )
    reason = " ".join(str(error).split())[:300]
    return DataError(f"hf:{name} cannot be opened ({type(error).__name__}: {reason}).")


def answers(name: str) -> bool:
    """Ask the hub once whether it has a network, and tell whether it answers at all.

    A library that loads a network asks for every file, six times each, over half a minute where no network is.

    Raises:
        HfHubHTTPError: the hub has no such network, or does not show it.
        HFValidationError: ``name`` can be no name.
    """
    from mntrain.hugging_face_hub import TRANSPORT_ERRORS, HfApi, HfHubHTTPError

    try:
        HfApi().model_info(name, timeout=_SECONDS)
    except HfHubHTTPError:
        raise
    except TRANSPORT_ERRORS:
        return False
    return True


def cached_names() -> list[str]:
    """List the networks in the cache of the hub on this machine."""
    from mntrain.hugging_face_hub import CacheNotFound, scan_cache_dir

    try:
        return sorted(repository.repo_id for repository in scan_cache_dir().repos if repository.repo_type == "model")
    except (CacheNotFound, OSError, ValueError):
        return []


def _search(name: str) -> list[str]:
    """Ask the hub for names like ``name``; empty where it does not answer."""
    from mntrain.hugging_face_hub import HfApi

    word = name.rpartition("/")[2].split("-")[0]
    try:
        found: list[Any] = list(HfApi().list_models(search=word, limit=_LISTED))
    except Exception:  # noqa: BLE001 - a hint is no reason to fail in another way
        return []
    return [str(model.id) for model in found]


def _kinds(error: BaseException) -> set[str]:
    """Class names of an error and of those that led to it."""
    kinds: set[str] = set()
    cause: BaseException | None = error
    while cause is not None:
        kinds |= {kind.__name__ for kind in type(cause).__mro__}
        cause = cause.__cause__ or cause.__context__
    return kinds
