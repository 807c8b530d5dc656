"""Push to and pull from a stand-in for the hub: what is sent, and what is told where it fails."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from hub_server import TOKEN, HubServer, Repository

from mntrain.commands.cli import main
from mntrain.errors import ArtifactError, ConfigError, HubError, MnTrainError
from mntrain.hub.session import PullOptions, PushOptions, pull, push

# The library's own upload of large files.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def sent(hub: HubServer, name: str, branch: str = "main") -> dict[str, bytes]:
    return {path: content for path, content in hub.repositories[name].branches[branch].items() if path[0] != "."}


def test_an_artifact_goes_to_the_hub_and_back(hub: HubServer, artifact: Path, tmp_path: Path) -> None:
    before = files_of(artifact)
    (artifact / ".hidden").write_text("secret")
    (artifact / "notes.txt").write_text("mine")
    report = push(PushOptions(folder=artifact, target="me/digits", private=True, quiet=True))
    assert report.left_out == ("notes.txt",)
    assert sent(hub, "me/digits").keys() == {*before, "README.md"}, "a card is made where there is none"
    assert hub.repositories["me/digits"].private
    back = pull(PullOptions(source="me/digits", folder=tmp_path / "back", quiet=True))
    assert files_of(tmp_path / "back") == sent(hub, "me/digits")
    assert {name: content for name, content in files_of(tmp_path / "back").items() if name != "README.md"} == before
    assert back.commit == hub.repositories["me/digits"].commit("main")
    assert [item.name for item in tmp_path.iterdir() if item.name.startswith(".")] == []
    assert not (tmp_path / "cache").exists(), "nothing is left in the caches of the user"


def test_a_second_push_removes_what_is_gone_and_leaves_what_is_not_ours(hub: HubServer, artifact: Path) -> None:
    (artifact / "composition.json").write_text("{}")
    push(PushOptions(folder=artifact, target="me/digits", quiet=True))
    hub.repositories["me/digits"].branches["main"]["LICENSE"] = b"theirs"
    (artifact / "composition.json").unlink()
    push(PushOptions(folder=artifact, target="me/digits", quiet=True))
    assert "composition.json" not in sent(hub, "me/digits")
    assert sent(hub, "me/digits")["LICENSE"] == b"theirs"


def test_a_model_and_a_repository_go_to_the_hub_and_back(hub: HubServer, models: Path, tmp_path: Path) -> None:
    (models / ".digits-mn.lock").touch()
    push(PushOptions(folder=models / "digits-mn", target="me/mn", quiet=True))
    push(PushOptions(folder=models, target="me/all", revision="next", quiet=True))
    with pytest.raises(ConfigError, match=r"named 'digits-mn'.*pull it into .*/digits-mn"):
        pull(PullOptions(source="me/mn", folder=tmp_path / "other", quiet=True))
    pull(PullOptions(source="me/mn", folder=tmp_path / "digits-mn", quiet=True))
    assert files_of(tmp_path / "digits-mn") == sent(hub, "me/mn")
    report = pull(PullOptions(source="me/all", folder=tmp_path / "all", revision="next", quiet=True))
    assert files_of(tmp_path / "all") == sent(hub, "me/all", "next")
    assert report.kind == "repository"
    assert "digits-plain" in (tmp_path / "all" / "README.md").read_text()
    assert sent(hub, "me/all") == {}, "the main branch has nothing of it"


def test_a_repository_takes_no_contents_of_another_kind(hub: HubServer, artifact: Path, models: Path) -> None:
    push(PushOptions(folder=artifact, target="me/digits", quiet=True))
    with pytest.raises(ConfigError, match="me/digits holds an artifact"):
        push(PushOptions(folder=models, target="me/digits", quiet=True))


def test_a_license_stands_in_the_card_that_is_sent(hub: HubServer, artifact: Path) -> None:
    push(PushOptions(folder=artifact, target="me/digits", license="apache-2.0", quiet=True))
    assert b"license: apache-2.0" in sent(hub, "me/digits")["README.md"]


def test_names_that_are_not_there_are_told_with_the_nearest(hub: HubServer, artifact: Path, tmp_path: Path) -> None:
    push(PushOptions(folder=artifact, target="me/digits", revision="candidates", quiet=True))
    with pytest.raises(HubError, match=r"no repository me/digit on .* did you mean me/digits\?"):
        pull(PullOptions(source="me/digit", folder=tmp_path / "a", quiet=True))
    with pytest.raises(HubError, match=r"no revision 'candidate'; did you mean candidates\?"):
        pull(PullOptions(source="me/digits", folder=tmp_path / "a", revision="candidate", quiet=True))
    hub.repositories["me/empty"] = Repository()
    with pytest.raises(ArtifactError, match="me/empty holds no artifact"):
        pull(PullOptions(source="me/empty", folder=tmp_path / "a", quiet=True))
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("status", "headers", "message"),
    [
        (401, {"X-Error-Message": f"Invalid credentials in Authorization header: {TOKEN}"}, "does not allow this"),
        (403, {"X-Error-Code": "GatedRepo"}, "me/digits is gated: ask for access at http"),
        (403, {}, "does not allow this for me/digits.*hf auth login"),
        (500, {}, "answered 500 for me/digits.*; try again later"),
        (404, {"X-Error-Code": "RepoNotFound"}, "There is no repository me/digits"),
        (200, {}, "did not answer as a hub does|named no commit"),
    ],
)
def test_refusals_are_sentences_without_the_token(
    hub: HubServer, tmp_path: Path, status: int, headers: dict[str, str], message: str
) -> None:
    hub.failure = (status, headers)
    with pytest.raises(HubError, match=message) as caught:
        pull(PullOptions(source="me/digits", folder=tmp_path / "a", quiet=True))
    assert TOKEN not in str(caught.value)
    assert not (tmp_path / "a").exists()


def test_a_push_that_may_not_write_is_told(
    hub: HubServer, artifact: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_ofSomebodyElse")
    assert main(["push", str(artifact), "me/digits"]) == 1
    output = "".join(capsys.readouterr())
    assert "does not allow this for me/digits" in output
    assert "hf_of" not in output
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(artifact / "none"))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "https://huggingface.co")
    with pytest.raises(HubError, match="without a token; log in with `hf auth login`"):
        push(PushOptions(folder=artifact, target="me/digits", quiet=True))


def test_a_hub_that_is_not_there_is_told(
    hub: HubServer, artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    with pytest.raises(HubError, match=f"{address} cannot be reached"):
        pull(PullOptions(source="me/digits", folder=tmp_path / "a", quiet=True))
    with pytest.raises(HubError, match="cannot be reached"):
        push(PushOptions(folder=artifact, target="me/digits", quiet=True))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(HubError, match="HF_HUB_OFFLINE"):
        pull(PullOptions(source="me/digits", folder=tmp_path / "a", quiet=True))


def test_files_that_lead_out_of_the_folder_or_hide_are_not_fetched(
    hub: HubServer, artifact: Path, tmp_path: Path
) -> None:
    push(PushOptions(folder=artifact, target="me/digits", quiet=True))
    hostile = dict.fromkeys(("../outside", "/etc/outside", "a/../../outside", ".ssh/key", "config.json/x"), b"x")
    hub.repositories["me/digits"].branches["main"] |= hostile
    pull(PullOptions(source="me/digits", folder=tmp_path / "in" / "back", quiet=True))
    asked = [path for _, path, _ in hub.requests if "/resolve/" in path]
    assert {path.split("/resolve/")[1].partition("/")[2] for path in asked} == {
        *("config.json", "model.safetensors", "samples.safetensors", "README.md")
    }
    assert not list(tmp_path.rglob("outside"))


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_an_artifact_that_does_not_load_is_not_put_in_place(
    hub: HubServer, artifact: Path, tmp_path: Path, name: str
) -> None:
    push(PushOptions(folder=artifact, target="me/digits", quiet=True))
    hub.repositories["me/digits"].branches["main"][name] = b"{}"
    (tmp_path / "back").mkdir()
    with pytest.raises(MnTrainError, match=name):
        pull(PullOptions(source="me/digits", folder=tmp_path / "back", quiet=True))
    assert list((tmp_path / "back").iterdir()) == []


def test_a_model_with_another_digest_is_not_put_in_place(hub: HubServer, models: Path, tmp_path: Path) -> None:
    push(PushOptions(folder=models / "digits-mn", target="me/mn", quiet=True))
    hub.repositories["me/mn"].branches["main"]["1/model.onnx"] += b"x"
    with pytest.raises(ArtifactError, match=r"model\.onnx is not the file that was exported"):
        pull(PullOptions(source="me/mn", folder=tmp_path / "digits-mn", quiet=True))
    assert not (tmp_path / "digits-mn").exists()


def test_the_commands_tell_what_went_where(
    hub: HubServer, artifact: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["push", str(artifact), "digits", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["place"] == f"{hub.url}/me/digits/commit/x"
    assert main(["pull", "me/digits", str(tmp_path / "back")]) == 0
    assert "artifact of 4 files" in capsys.readouterr().out
    agents = {headers.get("user-agent", headers.get("User-Agent", "")) for _, _, headers in hub.requests}
    assert agents
    assert not [agent for agent in agents if "torch" in agent], "telemetry is off"
