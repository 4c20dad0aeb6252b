import pytest

from dualfl.kernels.backends import isas


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without the C extension there is nothing to compare the twin with."""
    if not isas():
        skip = pytest.mark.skip(reason="the native kernels were not built")
        for item in items:
            if "tests/kernels" in item.nodeid and "twin_alone" not in item.nodeid:
                item.add_marker(skip)
