"""The map in CONTRIBUTING is the tree, the picture is the contract, and the walks of docs/architecture.md go where a
row and a message go."""

import functools
import importlib.util
import re
import sys
from pathlib import Path

import pytest

import dualfl
from dualfl import DualFL, make_problem, run

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "dualfl"
INSTALLED = Path(dualfl.__file__).parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
MODULE = re.compile(r"`([a-z_0-9]+(?:\.[a-z_0-9]+)+)`")
PROBLEM = {"loss": "auto", "ridge": 0.1, "l1": 0.0, "solver": None, "intercept": "penalised"}
REMEDY = "change it in CONTRIBUTING.md and in the contract of pyproject.toml, then `python docs/images/house.py`"


def load(name, path):
    sys.path.insert(0, str(path.parent))
    try:
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(path.parent))


house = load("house", ROOT / "docs" / "images" / "house.py")
loopback = load("loopback", ROOT / "tests" / "federation" / "loopback.py")


def test_the_map_is_the_tree():
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    rooms |= {path.stem for path in SOURCE.glob("*.py") if path.name != "__init__.py"}
    assert set(house.purposes()) == rooms, REMEDY
    for name, ending in re.findall(r"^ {6}(\w+)(/|\.py) ", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE):
        assert (SOURCE / f"{name}{ending}").exists(), f"{name} is a {'package' if ending == '.py' else 'module'}"


def test_the_map_is_in_the_order_of_imports():
    listed = [room for room in house.purposes() if room != "__main__"]
    for layer in house.layers():
        here, listed = listed[: len(layer)], listed[len(layer) :]
        assert sorted(here) == sorted(layer), REMEDY
    assert listed == []


def test_the_picture_is_of_this_house():
    assert (ROOT / "docs" / "images" / "house.svg").read_text(encoding="utf-8") == house.draw(), REMEDY


# -- the walks ---------------------------------------------------------------------------------------------


def walk(number):
    """The modules that a walk names."""
    section = PAGE.split(f"## Walk {number}")[1].split("\n## ")[0]
    return set(MODULE.findall(section))


def test_every_module_that_the_page_names_exists():
    named = set(MODULE.findall(PAGE)) - {"pyproject.toml", "north.csv"}
    assert len(named) > 30
    missing = [name for name in named if not (SOURCE / f"{name.replace('.', '/')}.py").exists()]
    # `engines.client.answer` is a function of a module.
    missing = [name for name in missing if not (SOURCE / f"{name.rpartition('.')[0].replace('.', '/')}.py").exists()]
    assert missing == []


@pytest.fixture
def passed(monkeypatch):
    """The modules of packages through which a message has passed when a client step begins."""
    seen, step = set(), DualFL.solve

    @functools.wraps(step)
    def watched(*given, **message):
        frame = sys._getframe(1)
        while frame is not None:
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(INSTALLED) and path.parent != INSTALLED:
                seen.add(".".join(path.relative_to(INSTALLED).with_suffix("").parts))
            frame = frame.f_back
        return step(*given, **message)

    monkeypatch.setattr(DualFL, "solve", watched)
    return seen


def test_a_message_in_one_process_takes_walk_two(passed):
    run(make_problem("iris", clients=3), DualFL(), rounds=2, threads=1)
    passed -= {"arguments"}  # whose check of the arguments of `run` may or may not be in between
    assert passed == {"engines.launch", "engines.session", "engines.exchanges", "engines.inprocess", "engines.client"}
    assert passed <= walk("two")


def test_a_message_to_a_silo_takes_walk_three(passed, tmp_path):
    terms = loopback.Terms("e", ("a", "b", "c"), DualFL(), PROBLEM)
    loopback.run_over(loopback.Loopback(loopback.csv_homes(tmp_path)), terms, None, rounds=2)
    assert {"federation.remote", "federation.courier", "federation.keeper", "engines.client"} <= passed <= walk("three")


def test_walk_three_crosses_at_most_five_packages():
    packages = {name.partition(".")[0] for name in walk("three")}
    assert packages == {"algorithms", "engines", "analysis", "federation", "deploy"}
    assert len(packages) <= 5
