"""Artifacts and repositories to exchange, and a stand-in for the hub that the library talks to."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_server import TOKEN, HubServer

RECORDED = Path(__file__).parents[2] / "recorded" / "data"


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    """An artifact of before there were model cards."""
    return Path(shutil.copytree(RECORDED / "artifacts" / "vanilla", tmp_path / "own" / "artifact"))


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A repository with two models."""
    return Path(shutil.copytree(RECORDED / "repository", tmp_path / "own" / "models"))


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    """The hub, for the token of its user."""
    with HubServer() as server:
        constants = "huggingface_hub.constants"
        monkeypatch.setattr(f"{constants}.ENDPOINT", server.url)
        files = f"{server.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(f"{constants}.HUGGINGFACE_CO_URL_TEMPLATE", files)
        monkeypatch.setattr(f"{constants}.HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(f"{constants}.HF_HUB_OFFLINE", False)
        monkeypatch.setattr(f"{constants}.HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield server
