"""State of a repository in a few characters, so that replicas load their models again once it is another one."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from mnserve.repository.listing import list_models


def revision_of(repository: Path) -> str:
    """Sums up names, sizes and times of the files of a repository.

    Args:
        repository: Folder with the folders of models.

    Raises:
        RepositoryNotFoundError: It is no folder.
    """
    digest = hashlib.sha256()
    for model in list_models(repository):
        for folder, folders, files in os.walk(repository / model, followlinks=True):
            folders.sort()
            for name in sorted(files):
                path = Path(folder, name)
                try:
                    status = path.stat()
                except OSError:
                    continue  # taken away meanwhile, or a link to nothing
                digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:16]
