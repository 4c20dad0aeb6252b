"""What all tests share."""

import os
import signal
import zlib
from collections import defaultdict
from functools import partialmethod
from inspect import signature
from pathlib import Path

import pytest
from click.testing import CliRunner
from threadpoolctl import threadpool_limits

# Data files that lie beside the checkout are found, so that the same `make test` uses them wherever they are.
collect_ignore = ["fixtures"]  # what is stored there has been made by scripts that need more libraries

BESIDE = Path(__file__).parents[2] / "shared" / "data"
if BESIDE.is_dir():
    os.environ.setdefault("DUALFL_DATA", str(BESIDE))

# A shell lets jobs in the background ignore Ctrl-C, and so would the processes that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption("--of-each", metavar="N", type=int, help="at most N cases of every test, chosen by DUALFL_DAY")


def pytest_collection_modifyitems(config, items):
    """Of a test with many cases a few say whether libraries are too old for it; which ones changes from day to day."""
    most = config.getoption("--of-each")
    if most is None:
        return
    day, cases = os.environ.get("DUALFL_DAY", ""), defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    chosen = set()
    for same in cases.values():
        chosen.update(sorted(same, key=lambda item: zlib.crc32((day + item.nodeid).encode()))[:most])
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Tests neither read nor fill the user's cache, and nothing is downloaded unless a test has a server for it."""
    monkeypatch.setenv("DUALFL_OFFLINE", "1")
    monkeypatch.setenv("DUALFL_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(autouse=True, scope="session")
def standard_output_apart_from_errors():
    """As click keeps them since 8.2; before, it has to be told."""
    with pytest.MonkeyPatch.context() as patch:
        if "mix_stderr" in signature(CliRunner).parameters:
            patch.setattr(CliRunner, "__init__", partialmethod(CliRunner.__init__, mix_stderr=False))
        yield


@pytest.fixture(autouse=True, scope="session")
def one_blas_thread():
    """Tests run side by side; BLAS threads on top of them would only fight for the processors."""
    with threadpool_limits(1, user_api="blas"):
        yield
