"""Exports of this folder share one table of operators."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def _one_operator_table(one_operator_table: None) -> None:
    """See ``one_operator_table``."""
