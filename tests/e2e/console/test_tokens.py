"""The console of a server with tokens and TLS: nothing is shown without a token, and none is left behind."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
from chromium import Chromium
from console_page import ConsolePage
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

INFER, CONTROL, WRONG = "infer-infer-infer-infer", "control-control-control", "wrong-wrong-wrong-wrong"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for this machine and its key."""
    folder = tmp_path_factory.mktemp("certificates")
    issued = trustme.CA(key_type=trustme.KeyType.ECDSA).issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA)
    files = folder / "server.pem", folder / "server.key"
    files[1].touch(0o600)
    issued.cert_chain_pems[0].write_to_path(str(files[0]))
    files[1].write_bytes(issued.private_key_pem.bytes())
    return files


@pytest.fixture(scope="module")
def server(
    models: Path,
    start_console: Callable[..., Any],
    certificate: tuple[Path, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Any:
    """Serves one model with TLS, to those who have a token."""
    tokens = tmp_path_factory.mktemp("tokens") / "tokens"
    tokens.touch(0o600)
    tokens.write_text(f"{INFER}\n{CONTROL} control\n")
    files = ("--tls-certificate", str(certificate[0]), "--tls-key", str(certificate[1]), "--token-file", str(tokens))
    return start_console(models, "--model-control", "explicit", "--load-model", "double", *files)


@pytest.fixture(scope="module")
def browser_flags(certificate: tuple[Path, Path]) -> tuple[str, ...]:
    """Has the browser trust the one key of the server."""
    loaded = x509.load_pem_x509_certificate(certificate[0].read_bytes())
    key = loaded.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    digest = base64.b64encode(hashlib.sha256(key).digest()).decode()
    return (f"--ignore-certificate-errors-spki-list={digest}",)


def give(browser: Chromium, token: str) -> None:
    """Writes a token into the dialog, and sends it by the key Enter."""
    browser.wait_for("document.getElementById('token-dialog').open")
    browser.click("#token-input")
    browser.type(token)
    browser.press("Enter")


def test_a_wrong_token_is_told_and_a_good_one_opens_the_page(server: Any, browser: Chromium) -> None:
    assert server.http.startswith("https://")
    with ConsolePage(browser, server.http, "models", refusals=(401,)) as page:
        browser.wait_for("document.getElementById('token-dialog').open")
        assert page.text("#state") == "Token needed"
        assert browser.evaluate("document.querySelectorAll('tbody tr').length") == 0
        assert browser.evaluate("document.activeElement.id") == "token-input"
        give(browser, WRONG)
        browser.wait_for("!document.getElementById('token-fault').hidden")
        assert page.text("#token-fault") == "The token is not one of this server's; ask its operator for one."
        browser.evaluate("document.getElementById('token-input').value = ''")
        give(browser, INFER)
        browser.wait_for("document.querySelectorAll('tbody tr').length > 0")
        assert not browser.evaluate("document.getElementById('token-dialog').open")
        assert "good for control" in page.text("#models-note")
        assert browser.evaluate("document.querySelectorAll('[data-action=Unload]').length") == 0


def test_a_token_for_control_loads_and_none_is_left_behind(server: Any, browser: Chromium) -> None:
    with ConsolePage(browser, server.http, "models", refusals=(401,)) as page:
        give(browser, CONTROL)
        browser.click("tr[data-model=colors] [data-action=Load]")
        browser.wait_for("document.getElementById('announce').innerText === 'colors: loaded.'")
        browser.wait_for("document.querySelector('tr[data-model=colors] .chip').innerText === 'Ready'")
        kept = browser.evaluate("""JSON.stringify([
          location.href, document.cookie, {...localStorage}, {...sessionStorage}, window.name, history.state,
          document.documentElement.outerHTML, [...document.querySelectorAll('input')].map(one => one.value),
        ])""")
        assert CONTROL not in kept
        assert all(CONTROL not in url for url in page.requests())
        sent = [
            event["params"]["request"]["headers"].get("Authorization")
            for event in browser.events
            if event.get("method") == "Network.requestWillBeSent"
            and event["params"]["request"]["url"].endswith("/api/status")
        ]
        assert sent[-1] == f"Bearer {CONTROL}"
        browser.evaluate("location.reload()")
        browser.wait_for("document.getElementById('token-dialog')?.open")
    assert CONTROL not in server.log()
