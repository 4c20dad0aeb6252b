"""The house stays in order: imports go down and bring little along, and types are not waved through."""

import ast
import json
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "dualfl"
FILES = sorted(SOURCE.rglob("*.py"))
REASONED = re.compile(r"#\s*type:\s*ignore\[[a-z-]+(, [a-z-]+)*\]  # \S+ \S+.*")
MOST_IGNORED = 14  # `type: ignore`s in all of the source


# -- types -----------------------------------------------------------------------------------------


def comments(path: Path) -> Iterator[tuple[int, str]]:
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def test_few_types_are_ignored_and_each_says_why():
    ignored = [
        f"{path.relative_to(SOURCE)}:{line}: {comment}"
        for path in FILES
        for line, comment in comments(path)
        if re.search(r"type:\s*ignore", comment)
    ]
    assert [found for found in ignored if not REASONED.fullmatch(found.split(": ", 1)[1])] == []
    assert len(ignored) <= MOST_IGNORED, "\n".join(ignored)


def test_a_client_step_says_what_it_asks_of_f():
    """Every parameter called f in the algorithms' room has a type, and none is Any."""
    bad = []
    for path in sorted((SOURCE / "algorithms").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                    said = None if argument.annotation is None else ast.unparse(argument.annotation)
                    if argument.arg == "f" and said in (None, "Any", "object"):
                        bad.append(f"{path.relative_to(SOURCE)}:{node.lineno}: {node.name}(f: {said})")
    assert bad == []


# -- rooms -----------------------------------------------------------------------------------------


def modules() -> dict[str, Path]:
    """All modules of dualfl by their dotted names."""
    found = {}
    for path in FILES:
        parts = ("dualfl", *path.relative_to(SOURCE).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name: str, path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The modules of dualfl that a module imports, wherever it does: also inside functions and for types alone."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "dualfl")
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
                base = ".".join([*package[: len(package) - node.level + 1], *([base] if base else [])])
            if base.split(".")[0] == "dualfl":
                for alias in node.names:
                    deeper = f"{base}.{alias.name}"
                    yield deeper if deeper in known else base


def rooms() -> dict[str, set[str]]:
    """Which room imports which. A room is a package or a module right below dualfl; dualfl itself is the front door."""
    known = modules()
    graph: dict[str, set[str]] = {}
    for name, path in known.items():
        if name in ("dualfl", "dualfl.__main__"):
            continue
        mine = graph.setdefault(name.split(".")[1], set())
        for other in imported(name, path, known):
            room = other.split(".")[1] if "." in other else "the front door"
            if room != name.split(".")[1]:
                mine.add(room)
    return graph


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Rooms that import each other in a ring, or nothing."""
    done: set[str] = set()

    def walk(room: str, way: list[str]) -> list[str]:
        if room in way:
            return [*way[way.index(room) :], room]
        if room in done:
            return []
        for other in sorted(graph.get(room, ())):
            if found := walk(other, [*way, room]):
                return found
        done.add(room)
        return []

    return next((found for room in sorted(graph) if (found := walk(room, []))), [])


def test_a_ring_is_found():
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_rooms_import_each_other_in_no_ring():
    graph = rooms()
    assert "kernels" in graph["objectives"] and "algorithms" in graph["engines"]  # the walk sees something
    assert cycle(graph) == []


def test_imports_go_down():
    """What `lint-imports` checks by the list of layers in pyproject.toml, for whoever has not installed it."""
    layers = tomllib.loads((SOURCE.parent.parent / "pyproject.toml").read_text())["tool"]["importlinter"]
    floors = [floor.split(" | ") for floor in layers["contracts"][0]["layers"]]
    floor = {room: number for number, rooms in enumerate(floors) for room in rooms}
    graph = rooms()
    assert set(graph) == set(floor)
    up = [f"{room} -> {other}" for room in graph for other in graph[room] if floor.get(other, -1) <= floor[room]]
    assert up == []


# -- what an import brings along ---------------------------------------------------------------------


def loaded(module: str) -> list[str]:
    """The modules that importing one brings into a process of its own."""
    code = f"import json, sys; old = set(sys.modules); import {module}; print(json.dumps([*set(sys.modules) - old]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_import_dualfl_is_light():
    found = {name.split(".")[0] for name in loaded("dualfl")}
    assert "dualfl" in found
    assert not found & {"numpy", "scipy", "sklearn", "pandas", "matplotlib", "plotly", "rich", "click", "threadpoolctl"}


def test_reading_a_table_needs_few_modules_of_ours():
    ours = sorted(name for name in loaded("dualfl.tables.reading") if name.split(".")[0] == "dualfl")
    assert "dualfl.tables.reading" in ours
    assert len(ours) <= 40, "\n".join(ours)
    assert not [name for name in ours if name.split(".")[1:2] in (["algorithms"], ["engines"], ["solvers"])]
