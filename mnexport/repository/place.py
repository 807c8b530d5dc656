"""Place of a target on disk: a folder of models, and no folder that belongs to a model, a version or an artifact."""

import os
from pathlib import Path

from mnexport.errors import PublishError, UsageError
from mnexport.repository.layout import CONFIG_NAME, RECORD_NAME
from mnexport.repository.target import Target

_OF_ARTIFACT = ("config.json", "model.safetensors")


def check_place(target: Target) -> None:
    """Refuse a target that would mix a model with something else; nothing is changed.

    Raises:
        UsageError: the repository lies in a model's folder or in an artifact, or the model's folder is a repository
            or a run.
        PublishError: the version to be replaced holds a folder, which mnexport did not write.
    """
    folder = Path(os.path.realpath(target.folder))
    for above in (folder, *folder.parents):
        if _is_artifact(above):
            raise UsageError(
                f"{target.folder} lies in an artifact ({_shown(above)}), which holds no models for servers; publish "
                "elsewhere: mnexport ARTIFACT repository/NAME."
            )
    if _is_artifact(folder / "artifact") and not _is_model(folder):
        raise UsageError(
            f"{target.folder} is the folder of a run (it holds an artifact), and no model; publish elsewhere: mnexport "
            f"ARTIFACT repository/{target.name}."
        )
    if _is_model(folder.parent):
        raise UsageError(_inside(target, folder.parent))
    for version in folder.parents:
        if _is_version(version) or (version.parent / CONFIG_NAME).is_file():
            raise UsageError(_inside(target, version.parent))
    if not _is_model(folder) and (models := _models(folder)):
        raise UsageError(
            f"{target.folder} is a model repository (it holds the model {models[0]}), and no model; name the model in "
            f"it: mnexport ARTIFACT {target.folder / 'NAME'}."
        )
    if target.overwrite:
        _check_replaced(target.folder / str(target.version))


def _inside(target: Target, model: Path) -> str:
    shown = _shown(model)
    number = target.name if target.name.isdecimal() and target.version is None else target.version
    replaced = f"; to replace a version: mnexport ARTIFACT {shown} --version {number or 1} --overwrite"
    return (
        f"{shown} is a model, not a repository, so {target.folder} would be a model inside it, which the replacement "
        f"of a version deletes; for its next version: mnexport ARTIFACT {shown}{replaced}."
    )


def _is_artifact(folder: Path) -> bool:
    return all((folder / name).is_file() for name in _OF_ARTIFACT)


def _is_model(folder: Path) -> bool:
    """Tell a model's folder by its configuration, or by a version with files of a model."""
    return (folder / CONFIG_NAME).is_file() or any(_is_version(item) for item in _folders(folder))


def _is_version(folder: Path) -> bool:
    try:
        return folder.name.isdecimal() and ((folder / RECORD_NAME).is_file() or any(folder.glob("model.*")))
    except OSError:  # it may not be read, or is gone
        return False


def _models(folder: Path) -> list[str]:
    return sorted(item.name for item in _folders(folder) if not item.name.startswith(".") and _is_model(item))


def _folders(folder: Path) -> list[Path]:
    try:
        return [item for item in folder.iterdir() if item.is_dir()]
    except OSError:  # it does not exist yet, or may not be read
        return []


def _check_replaced(version: Path) -> None:
    if inner := _folders(version):
        raise PublishError(
            f"{version} holds the folder {inner[0].name}, which mnexport did not write and --overwrite would delete; "
            "move it elsewhere first."
        )


def _shown(folder: Path) -> Path:
    relative = os.path.relpath(folder)
    return folder if relative.startswith(os.curdir) else Path(relative)
