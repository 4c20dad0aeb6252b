"""The oldest versions that are declared are those that `make test-oldest` tests."""

import os
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
LINTERS = {"ruff", "mypy", "scipy-stubs", "import-linter", "check-jsonschema"}  # no test runs them


def declared(*extras: str) -> dict[str, Requirement]:
    """What pyproject.toml asks for by name: the dependencies, and those of these extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    return {canonicalize_name(Requirement(line).name): Requirement(line) for line in lines}


def listed() -> dict[str, Version]:
    lines = (line.partition("#")[0].strip() for line in (ROOT / "constraints-oldest.txt").read_text().splitlines())
    pairs = [line.split("==") for line in lines if line]
    return {canonicalize_name(name): Version(number) for name, number in pairs}


def test_the_constraints_are_the_minima_of_pyproject():
    minima = {
        name: Version(spec.version)
        for name, wanted in declared("data", "dev", "flower").items()
        for spec in wanted.specifier
        if spec.operator == ">="
    }
    assert {name: minima.get(name) for name in listed()} == listed()


def test_all_that_the_tests_need_is_constrained():
    assert set(declared("data", "dev")) - LINTERS <= set(listed())


@pytest.mark.skipif("DUALFL_OLDEST" not in os.environ, reason="`make test-oldest` sets it")
def test_the_oldest_versions_are_installed():
    assert {name: Version(version(name)) for name in listed()} == listed()
