"""What all tests share."""

import os
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

# Data files that lie beside the checkout are found, so that the same `make test` uses them wherever they are.
BESIDE = Path(__file__).parents[2] / "shared" / "data"
if BESIDE.is_dir():
    os.environ.setdefault("DUALFL_DATA", str(BESIDE))


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Tests neither read nor fill the user's cache, and nothing is downloaded unless a test has a server for it."""
    monkeypatch.setenv("DUALFL_OFFLINE", "1")
    monkeypatch.setenv("DUALFL_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(autouse=True, scope="session")
def one_blas_thread():
    """Tests run side by side; BLAS threads on top of them would only fight for the processors."""
    with threadpool_limits(1, user_api="blas"):
        yield
