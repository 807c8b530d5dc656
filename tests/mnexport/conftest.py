"""Networks that several tests of this folder export are traced once."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def _kept_exports(kept_exports: None) -> None:
    """See ``kept_exports``."""
