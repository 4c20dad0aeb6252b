"""What some tests need. On a newcomer's machine they are skipped, and say what to install; in CI that is a failure."""

from __future__ import annotations

import importlib.util
import os

import pytest


def need(module: str, extra: str) -> None:
    """Skip the tests of a file without this module; in CI, which installs the extras, fail."""
    if importlib.util.find_spec(module) is not None:
        return
    why = f"needs {module}: pip install 'dualfl[{extra}]'"
    if os.environ.get("CI") == "true":
        raise RuntimeError(f"CI must run these tests, and cannot: {why}")
    pytest.skip(why, allow_module_level=True)


def needs(module: str, extra: str) -> pytest.MarkDecorator:
    """The same for one test."""
    missing = importlib.util.find_spec(module) is None and os.environ.get("CI") != "true"
    return pytest.mark.skipif(missing, reason=f"needs {module}: pip install 'dualfl[{extra}]'")
