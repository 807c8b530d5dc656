"""Settings of ``mnserve predict``."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from mnserve.client.settings import ConnectionSettings
from mnserve.errors import SettingsError
from mnserve.object_store.settings import StoreSettings


@dataclass(frozen=True, kw_only=True)
class PredictSettings:
    """Predicts the classes of image files, or classes or values of the rows of tables.

    Raises:
        SettingsError: A value cannot work; the message names the option, the value and the remedy.
    """

    model: str
    """Name of a model on a running server, or a folder REPOSITORY/NAME or its URL to run here without a server."""
    files: list[str]
    """Image files, and folders whose image files are meant; for a model of rows, tables such as rows.csv."""
    url: str = "127.0.0.1:8001"
    """Address of the server, HOST:PORT, or grpcs://HOST:PORT for TLS; not used for a folder."""
    top: int = 3
    """Classes to report for each image, or row with --json, the most probable first."""
    json: bool = False
    """Write a JSON list instead of text."""
    output: str | None = None
    """For a model of rows: file to write the answer to, packed where its name ends in .gz; otherwise it goes to
    standard output."""
    resize: bool = False
    """Scale images of another size to the one the model takes, without keeping the aspect ratio; a model that states
    how its training images were fitted needs no such option, and its own rule holds."""
    explain: bool = False
    """Tell for each image or row the learned neighbors that shaped the answer, and the answer without adaptation."""
    neighbors: str | None = None
    """With --explain: file neighbors.npz with the training images nearest to each neighbor. A folder has its own where
    they were published with the model."""
    html: str | None = None
    """With --explain: file to write a page to that shows every image, its answer and its neighbors."""
    timeout: float = 60.0
    """Seconds to wait for each answer of the server."""
    connection: ConnectionSettings = field(default_factory=ConnectionSettings)
    store: StoreSettings = field(default_factory=StoreSettings)

    def __post_init__(self) -> None:
        if not self.model:
            raise SettingsError("MODEL is empty; give the name of a model or a folder REPOSITORY/NAME")
        if not self.files:
            raise SettingsError("no files to predict; name image files, or folders that hold some")
        if self.output is not None and (not self.output or self.output == "-"):
            raise SettingsError("--output needs the name of a file; leave it out for standard output")
        if self.top < 1:
            raise SettingsError(f"--top is {self.top}; it must be at least 1")
        for option, value in (("--neighbors", self.neighbors), ("--html", self.html)):
            if value is not None and not self.explain:
                raise SettingsError(f"{option} is about explanations; add --explain, or leave {option} out")
        if self.html == "-":
            raise SettingsError("--html is -, but a page goes to a file of its own; give its name, such as page.html")
        if not (math.isfinite(self.timeout) and self.timeout > 0):
            raise SettingsError(f"--timeout is {self.timeout}; it must be a number of seconds above 0")
