"""Contents put into a folder, whole or not at all; nothing that is not theirs is ever replaced."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from mntrain.atomic_files import folder_atomically
from mntrain.errors import ArtifactError, ConfigError
from mntrain.hub.checking import check_contents, model_folders, model_name
from mntrain.hub.contents import CONFIG, NOUNS, Contents, Kind, read_contents


def check_free(target: Path, *, overwrite: bool) -> None:
    """Refuse a target that is taken, or that lies in an artifact or a model; nothing is changed.

    Args:
        target: folder to be made.
        overwrite: an artifact or models there may be replaced; :func:`put_in_place` sees whether they are all there is.

    Raises:
        ConfigError: it may not be written.
    """
    above = Path(os.path.realpath(target)).parent
    for folder in (above, *above.parents):
        if (folder / CONFIG).is_file() or all(
            (folder / name).is_file() for name in ("config.json", "model.safetensors")
        ):
            raise ConfigError(f"{target} lies in {folder}, which is an artifact or a model; choose a folder elsewhere.")
    if os.path.lexists(target) and not target.is_dir():
        raise ConfigError(f"{target} is a file or a broken link; choose another folder.")
    if target.is_dir() and any(target.iterdir()) and not overwrite:
        raise ConfigError(
            f"{target} is not empty; choose another folder, or give --overwrite to replace what is there."
        )


def put_in_place(
    contents: Contents, target: Path, texts: Mapping[str, bytes] = MappingProxyType({}), *, overwrite: bool
) -> None:
    """Copy contents into a folder, check the copy, and let it appear in one step.

    A repository that exists keeps models of other names; each of its models appears in one step.

    Args:
        contents: what is copied.
        target: the folder.
        texts: files that are written in place of those of ``contents``, or beside them.
        overwrite: replace contents of the same kind.

    Raises:
        ConfigError: the target may not be written; nothing was changed.
        ArtifactError: the copy is not what it should be, or cannot be written.
    """
    check_free(target, overwrite=overwrite)
    _check_name(contents, target)
    try:
        if contents.kind == "repository" and target.is_dir() and any(target.iterdir()):
            _add_models(contents, target, texts)
            return
        if target.is_dir():
            _check_replaced(target, contents.kind)
        with folder_atomically(target) as folder:
            _copy(contents, folder, texts)
            check_contents(read_contents(folder))
    except OSError as error:
        raise ArtifactError(f"{target} cannot be written: {error.strerror or error}.") from error


def _add_models(contents: Contents, target: Path, texts: Mapping[str, bytes]) -> None:
    if (target / CONFIG).exists() or (target / "config.json").exists():
        raise ConfigError(f"{target} is no model repository; choose another folder.")
    models = [read_contents(folder) for folder in model_folders(contents)]
    for model in models:
        if (existing := target / model.folder.name).exists():
            _check_replaced(existing, "model")
    for model in models:
        put_in_place(model, target / model.folder.name, overwrite=True)


def _check_name(contents: Contents, target: Path) -> None:
    """Refuse a folder whose name is not that of the model: no server would take it."""
    if contents.kind == "artifact":
        return
    for folder in model_folders(contents):
        name, place = model_name(folder), target.name if contents.kind == "model" else folder.name
        if name not in (None, "", place):
            remedy = f"pull it into {target.parent / str(name)}" if contents.kind == "model" else "rename its folder"
            raise ConfigError(
                f"The model is named {name!r} in its config.pbtxt, and no server takes it from a folder {place!r}; "
                f"{remedy}."
            )


def _check_replaced(target: Path, kind: Kind) -> None:
    """Refuse to replace a folder that holds something else, or more.

    Raises:
        ConfigError: it does.
    """
    present = [item for item in target.rglob("*") if not item.is_dir() or item.is_symlink()]
    if not present:
        return
    try:
        existing = read_contents(target)
    except ArtifactError as error:
        raise ConfigError(f"{target} would be replaced, and is not {NOUNS[kind]} ({error})") from error
    if existing.kind != kind:
        raise ConfigError(f"{target} is {NOUNS[existing.kind]}, and not {NOUNS[kind]}; choose another folder.")
    foreign = [item for item in present if str(item.relative_to(target)) not in existing.files]
    if foreign:
        raise ConfigError(
            f"{target} would be replaced, and holds {foreign[0].relative_to(target)}, which does not belong to it; "
            "move it elsewhere first, or choose another folder."
        )


def _copy(contents: Contents, folder: Path, texts: Mapping[str, bytes]) -> None:
    for name in contents.files:
        if name not in texts:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(contents.folder / name, folder / name, follow_symlinks=False)
    for name, text in texts.items():
        (folder / name).write_bytes(text)
