"""Recordings are replaced knowingly, and the most alike one is compared with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import record
import recordings
from fingerprint import fingerprint, key_of


def test_a_recording_is_replaced_only_when_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, here = tmp_path / "recordings.json", fingerprint()
    monkeypatch.setattr(recordings, "FILE", file)
    monkeypatch.setattr(record, "TRAININGS", {})
    monkeypatch.setattr(record, "EXPORTS", {})
    recordings.write_recordings({"another": {}, key_of(here): {"kept": [1, 2]}})
    before = file.read_text(encoding="utf-8")
    assert "[1, 2]" in before
    assert record.main([]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert file.read_text(encoding="utf-8") == before
    assert record.main(["--overwrite"]) == 0
    assert json.loads(file.read_text(encoding="utf-8")) == {
        "another": {},
        key_of(here): {"fingerprint": here, "trainings": {}, "exports": {}},
    }


def test_without_a_recording_of_its_own_a_machine_takes_the_most_alike(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(recordings, "FILE", tmp_path / "recordings.json")
    here = fingerprint()
    others = {
        "older": here | {"versions": here["versions"] | {"torch": "1.0"}},
        "slower": here | {"capability": "none"},
        "oldest": here | {"versions": {}, "capability": "none"},
    }
    recordings.write_recordings(
        {name: {"fingerprint": item, "trainings": {"of": name}, "exports": {}} for name, item in others.items()}
    )
    chosen = recordings.recording_for_this_machine()
    assert chosen.trainings == {"of": "slower"}
    assert (chosen.same_machine, chosen.same_libraries, chosen.same_blocks) == (False, True, True)
