"""What all tests share."""

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Tests neither read nor fill the user's cache."""
    monkeypatch.setenv("DUALFL_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
