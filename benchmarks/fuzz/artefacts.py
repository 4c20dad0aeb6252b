"""Models, checkpoints and folders of runs that somebody edited: the same answer as before, or none."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np

import dualfl
from benchmarks.fuzz.evil import damaged, edited
from benchmarks.fuzz.ground import Ground, command
from benchmarks.fuzz.judging import ACCEPTED, REFUSED, Verdict, half_written, of_call, of_command
from dualfl.algorithms import DualFL
from dualfl.engines import Problem

SOURCE = {"b": np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 1.0]])}


def attack(ground: Ground, folder: Path, rng: random.Random) -> tuple[Verdict, str]:
    folder.mkdir(parents=True)
    return rng.choice((model, model, checkpoint, checkpoint, report, deployment))(ground, folder, rng)


def model(ground: Ground, folder: Path, rng: random.Random) -> tuple[Verdict, str]:
    """model.json, edited: predictions that are not those of the model that was fitted are wrong."""
    place = folder / "m"
    place.mkdir()
    text = ground["model"].joinpath("model.json").read_text()
    if rng.random() < 0.8:
        changed = json.dumps(edited(json.loads(text), rng))
        (place / "model.json").write_text(changed)
    else:
        (place / "model.json").write_bytes(damaged(text.encode(), rng))
    out = folder / "p.csv"
    verb = rng.choice(["predict", "predict", "evaluate"])
    verdict = of_command(command(verb, place, ground["a.csv"], "--out", out))
    if verdict.kind == ACCEPTED and verb == "predict" and out.read_bytes() != ground["predictions.csv"].read_bytes():
        verdict = Verdict("wrong", "an edited model predicts something else")
    return verdict, f"dualfl {verb} with an edited model.json"


def problem() -> Problem:
    return Problem([dualfl.Quadratic(np.diag([1.0, 4.0, 9.0]), b) for b in SOURCE["b"]])


def checkpoint(ground: Ground, folder: Path, rng: random.Random) -> tuple[Verdict, str]:
    """A run that goes on from an edited checkpoint must give the bits of one that was never interrupted."""
    path = folder / "run.npz"
    dualfl.run(problem(), DualFL(), rounds=3, checkpoint=path)
    rows = folder / "run.npz.rows"
    kind = rng.choice(["bytes", "rows", "tree", "array", "array", "lost", "swap"])
    if kind == "bytes":
        path.write_bytes(damaged(path.read_bytes(), rng))
    elif kind == "rows":
        rows.write_bytes(damaged(rows.read_bytes(), rng))
    elif kind == "lost":
        rows.unlink()
    elif kind == "swap":
        dualfl.run(problem(), DualFL(), rounds=2, checkpoint=folder / "other.npz")
        shutil.move(folder / "other.npz.rows", rows)
    else:
        tamper(path, kind, rng)
    verdict, result = of_call(lambda: dualfl.run(problem(), DualFL(), rounds=6, checkpoint=path, resume=True))
    if verdict.kind == ACCEPTED:
        whole = dualfl.run(problem(), DualFL(), rounds=6)
        same = np.array_equal(whole.theta, result.theta) and whole.history.rows[-1].energy == result.history[-1].energy
        if not same or len(whole.history) != len(result.history):
            verdict = Verdict("wrong", f"a checkpoint whose {kind} was edited went on as another run")
    return verdict, f"resume from a checkpoint whose {kind} was edited"


def tamper(path: Path, kind: str, rng: random.Random) -> None:
    with np.load(path) as file:
        arrays = dict(file)
    if kind == "tree":
        tree = edited(json.loads(arrays["tree"].tobytes()), rng)
        arrays["tree"] = np.frombuffer(json.dumps(tree).encode(), dtype=np.uint8)
    else:
        name = rng.choice([name for name in arrays if name != "tree"])
        other: Any = rng.choice(
            [arrays[name] + 1, arrays[name][:-1], arrays[name].astype(np.float32), np.array("x"), None]
        )
        arrays |= {name: other}
        arrays = {key: value for key, value in arrays.items() if value is not None}
    with path.open("wb") as file:
        np.savez(file, **arrays)


def report(ground: Ground, folder: Path, rng: random.Random) -> tuple[Verdict, str]:
    """A page of a folder in which one file was edited."""
    kind = rng.choice(["run", "comparison", "model"])
    place = folder / kind
    shutil.copytree(ground[kind], place)
    path = rng.choice([each for each in sorted(place.iterdir()) if each.suffix in (".json", ".csv")])
    data = path.read_bytes()
    if path.suffix == ".json" and rng.random() < 0.7:
        path.write_text(json.dumps(edited(json.loads(data), rng)))
    else:
        path.write_bytes(damaged(data, rng))
    verdict = of_command(command("report", place, "--out", folder / "page.html"))
    if verdict.kind == REFUSED and (folder / "page.html").exists():
        verdict = Verdict("half-written", "a page was written although it was refused")
    return verdict, f"dualfl report with an edited {kind}/{path.name}"


COORDINATOR = (("admit", "card"), ("status",), ("watch", "--times", "1"), ("renew",), ("backup", "x"), ("add", "d"))
SILO = (
    *(("status",), ("watch", "--times", "1"), ("check",), ("audit",), ("rotate",), ("approve", "--all", "always")),
    *(("trust", "card"), ("renew", "--ca", "card"), ("backup", "x"), ("purge", "--yes")),
)


def deployment(ground: Ground, folder: Path, rng: random.Random) -> tuple[Verdict, str]:
    """A project or a silo of which one file was edited; nobody serves it."""
    kind, verbs = rng.choice((("project", COORDINATOR), ("silo", SILO)))
    place = folder / kind
    shutil.copytree(ground[kind], place)
    path = rng.choice([each for each in sorted(place.rglob("*")) if each.suffix in (".json", ".log", ".txt")])
    data = path.read_bytes()
    if path.suffix == ".json" and rng.random() < 0.7:
        path.write_text(json.dumps(edited(json.loads(data), rng)))
    else:
        path.write_bytes(damaged(data, rng))
    (folder / "card").write_text(rng.choice(["a ssh-ed25519 AAAA", "a", "", "a b c", "\x00"]))
    verb, *more = rng.choice(verbs)
    words = [folder / word if word in ("card", "x") else word for word in more]
    done = command("deploy", verb, place, *words)
    verdict, fault = of_command(done), half_written(folder)
    if verb == "approve" and "Noted: always" in done.output and path.parent.name == "waiting":
        waiting = json.loads(data)
        if not path.exists() and waiting["kind"] not in (place / "approvals" / "given.json").read_text():
            verdict = Verdict("wrong", "an edited plan was approved")
    what = f"dualfl deploy {verb} with an edited {path.relative_to(folder)}"
    return Verdict("half-written", fault) if fault else verdict, what
