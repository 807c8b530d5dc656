"""Repository of the hub: files sent in one commit, and files fetched into a folder."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mntrain.errors import ArtifactError, ConfigError, HubError
from mntrain.hub.contents import NOUNS, Contents, kind_of, may_belong
from mntrain.hub.failures import hub_errors
from mntrain.hub.place import HubRepository
from mntrain.hugging_face_hub import (
    CommitOperationAdd,
    CommitOperationDelete,
    HfApi,
    constants,
    disable_progress_bars,
    get_token,
    snapshot_download,
)

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_PUBLIC_HUB: Final = "https://huggingface.co"


def send(
    contents: Contents, texts: Mapping[str, bytes], repository: HubRepository, message: str, *, private: bool
) -> str:
    """Send files in one commit; the repository and its branch are made where there are none.

    Files of an earlier push that are gone now are removed in the same commit. Models of other names, and files that
    are not of this package, stay.

    Args:
        contents: what is sent.
        texts: files that are sent in place of those of ``contents``, or beside them.
        repository: where to.
        message: of the commit.
        private: make a new repository private.

    Returns:
        Address of the commit.

    Raises:
        HubError: the hub cannot be reached, or refuses.
        ConfigError: the repository holds something else.
    """
    api = HfApi()
    if get_token() is None and api.endpoint == _PUBLIC_HUB:
        raise HubError("Nothing can be pushed without a token; log in with `hf auth login`, or set HF_TOKEN.")
    branch = repository.revision
    with hub_errors(api, repository):
        # The hub's own name of it has the owner, where the user left that out.
        name = api.create_repo(repository.name, private=private or None, exist_ok=True).repo_id
        if branch is not None and branch != constants.DEFAULT_REVISION:
            api.create_branch(name, branch=branch, exist_ok=True)
        present = api.list_repo_files(name, revision=branch)
        kind = kind_of(present)
        if kind not in (None, contents.kind):
            raise ConfigError(
                f"{name} holds {NOUNS[kind]}, and {contents.folder} is {NOUNS[contents.kind]}; push to another "
                "repository."
            )
        names = sorted({*contents.files, *texts})
        added = [CommitOperationAdd(path, texts.get(path, contents.folder / path)) for path in names]
        removed = [CommitOperationDelete(path) for path in _outdated(contents, present) if path not in names]
        commit = api.create_commit(name, [*added, *removed], commit_message=message, revision=branch)
    return str(commit.commit_url)


def fetch(repository: HubRepository, folder: Path) -> str:
    """Fetch the files of an artifact or of models into a folder; nothing else of the repository is asked for.

    Args:
        repository: where from.
        folder: gets the files, and caches of the library in hidden folders.

    Returns:
        The commit that the files are of.

    Raises:
        HubError: the hub cannot be reached, or refuses.
        ArtifactError: the repository holds neither an artifact nor models.
    """
    api = HfApi()
    with hub_errors(api, repository):
        commit = api.model_info(repository.name, revision=repository.revision).sha or ""
        if not _COMMIT.fullmatch(commit):
            raise HubError(f"{api.endpoint} named no commit of {repository.name}; check HF_ENDPOINT.")
        present = api.list_repo_files(repository.name, revision=commit)
        kind = kind_of(present)
        if kind is None:
            raise ArtifactError(
                f"{repository.name} holds no artifact (config.json and model.safetensors) and no model (config.pbtxt) "
                "of this package; `mntrain push` makes such repositories."
            )
        wanted = [name for name in present if may_belong(kind, name)]
        snapshot_download(
            repository.name,
            revision=commit,
            local_dir=folder,
            cache_dir=folder / ".cache",
            allow_patterns=wanted,
            endpoint=api.endpoint,
        )
    return commit


def hide_progress() -> None:
    """Leave out progress bars of transfers from now on."""
    disable_progress_bars()


def _outdated(contents: Contents, present: list[str]) -> list[str]:
    """List files of an earlier push of the same artifact or models."""
    if contents.kind != "repository":
        return [name for name in present if may_belong(contents.kind, name)]
    models = contents.models
    return [name for name in present if "/" in name and name.split("/")[0] in models and may_belong("repository", name)]
