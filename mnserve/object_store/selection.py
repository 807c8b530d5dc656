"""Choice of the files of a model that a server needs: all but the versions that its policy leaves out."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from mnserve.errors import ModelConfigError, ModelNotFoundError
from mnserve.object_store.entries import StoredFile
from mnserve.object_store.store import Store
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.listing import CONFIG_NAME, is_version
from mnserve.repository.reader import read_config, served_versions
from mnserve.text.text_files import MAX_BYTES


def config_file(files: Sequence[StoredFile]) -> StoredFile | None:
    """Finds the configuration among the files of a model."""
    return next((file for file in files if file.path == CONFIG_NAME), None)


def read_stored_config(store: Store, name: str, file: StoredFile | None) -> ModelConfig:
    """Reads the config.pbtxt of a model from its store; without one the defaults.

    Raises:
        StoreError: The store does not answer.
        ModelConfigError: The file is too large or malformed.
    """
    if file is None:
        return ModelConfig(name=name)
    content = b""
    for piece in store.read(file):
        content += piece
        if len(content) > MAX_BYTES:
            raise ModelConfigError(
                f"model '{name}': {CONFIG_NAME} in the store has more than {MAX_BYTES} bytes; is it the right file?"
            )
    with tempfile.TemporaryDirectory(prefix="mnserve-config-") as root:
        folder = Path(root) / name
        folder.mkdir()
        (folder / CONFIG_NAME).write_bytes(content)
        return read_config(Path(root), name)


def needed_files(config: ModelConfig, files: Sequence[StoredFile]) -> list[StoredFile]:
    """Leaves out the versions that the policy of the configuration does not select.

    Raises:
        ModelNotFoundError: It is another folder, of whatever size, and no model.
        ModelConfigError: The policy names a version that is not in the store.
    """
    versions = sorted({int(folder) for file in files if is_version(folder := _folder(file))})
    if not versions and config_file(files) is None:
        raise ModelNotFoundError(
            f"the folder '{config.name}' of the repository has neither a version folder, such as {config.name}/1, "
            "nor a config.pbtxt, and is no model"
        )
    served = {str(version) for version in served_versions(config, versions)} if versions else set()
    return [file for file in files if not is_version(folder := _folder(file)) or folder in served]


def _folder(file: StoredFile) -> str:
    """Returns the first folder of a path; empty for a file beside the versions."""
    first, slash, _ = file.path.partition("/")
    return first if slash else ""
