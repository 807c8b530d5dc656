"""Push and pull: an artifact or a model repository to the hub or a folder, and back."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mntrain.atomic_files import temporary_folder
from mntrain.errors import ArtifactError, ConfigError
from mntrain.hub.card import pushed_card
from mntrain.hub.checking import check_contents
from mntrain.hub.contents import CARD, NOUNS, Contents, read_contents
from mntrain.hub.place import HubRepository, read_place
from mntrain.hub.placing import check_free, put_in_place


@dataclass(frozen=True, kw_only=True)
class PushOptions:
    """What is pushed, and where to.

    Args:
        folder: an artifact, a model of a repository, or a repository.
        target: OWNER/NAME on the hub, or a folder.
        revision: branch of the hub; None for main.
        message: of the commit; None for one that says what is pushed.
        private: make a new repository of the hub private.
        license: the hub's word for a license, which the card gets.
        quiet: no progress.
    """

    folder: Path
    target: str
    revision: str | None = None
    message: str | None = None
    private: bool = False
    license: str | None = None
    quiet: bool = False


@dataclass(frozen=True, kw_only=True)
class PullOptions:
    """What is pulled, and where to.

    Args:
        source: OWNER/NAME on the hub, or a folder.
        folder: to be made.
        revision: branch, tag or commit of the hub; None for main.
        overwrite: replace an artifact, a model or models that lie there.
        quiet: no progress.
    """

    source: str
    folder: Path
    revision: str | None = None
    overwrite: bool = False
    quiet: bool = False


@dataclass(frozen=True, kw_only=True)
class TransferReport:
    """What was transferred.

    Args:
        kind: artifact, model or repository.
        files: paths below the folder.
        size: bytes.
        place: address of the commit, or the folder, that holds it now.
        left_out: entries of the pushed folder that do not belong to it.
        commit: of the hub that was pulled; None elsewhere.
    """

    kind: str
    files: tuple[str, ...]
    size: int
    place: str
    left_out: tuple[str, ...] = ()
    commit: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def push(options: PushOptions) -> TransferReport:
    """Check an artifact or models, and send the files that belong to them, with their model card.

    Raises:
        ArtifactError: the folder does not hold what it should.
        ConfigError: the target holds something else, or an option does not fit it.
        HubError: the hub cannot be reached, or refuses.
    """
    place = read_place(options.target, options.revision)
    if isinstance(place, Path) and (options.private or options.message is not None):
        given = "--private" if options.private else "--message"
        raise ConfigError(f"{options.target} is a folder; {given} is for repositories of the hub, so leave it out.")
    contents = read_contents(options.folder)
    check_contents(contents)
    card = pushed_card(contents, options.license)
    texts = {} if card is None else {CARD: card}
    if isinstance(place, Path):
        put_in_place(contents, place, texts, overwrite=True)
        where = str(place)
    else:
        from mntrain.hub.remote import hide_progress, send

        if options.quiet:
            hide_progress()
        message = options.message or f"Push {NOUNS[contents.kind]}"
        where = send(contents, texts, place, message, private=options.private)
    files = tuple(sorted({*contents.files, *texts}))
    return TransferReport(kind=contents.kind, files=files, size=contents.size, place=where, left_out=contents.others)


def pull(options: PullOptions) -> TransferReport:
    """Fetch an artifact or models, check them, and put them in place; after a failure nothing has changed.

    Raises:
        ArtifactError: what was fetched cannot be loaded, or a file has another digest.
        ConfigError: the folder may not be written.
        HubError: the hub cannot be reached, or refuses.
    """
    place = read_place(options.source, options.revision)
    check_free(options.folder, overwrite=options.overwrite)
    if isinstance(place, Path):
        return _placed(read_contents(place), options, None)
    return _pulled(place, options)


def _pulled(place: HubRepository, options: PullOptions) -> TransferReport:
    from mntrain.hub.remote import fetch, hide_progress

    if options.quiet:
        hide_progress()
    target = options.folder.absolute()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(target.parent) as around:
            fetched = around / "fetched"
            fetched.mkdir()
            commit = fetch(place, fetched)
            return _placed(read_contents(fetched), options, commit)
    except OSError as error:
        raise ArtifactError(f"{target} cannot be written: {error.strerror or error}.") from error


def _placed(contents: Contents, options: PullOptions, commit: str | None) -> TransferReport:
    put_in_place(contents, options.folder, overwrite=options.overwrite)
    return TransferReport(
        kind=contents.kind, files=contents.files, size=contents.size, place=str(options.folder), commit=commit
    )
