"""Silos in this process, reached by the same bytes as silos elsewhere; every fault can be played."""

from __future__ import annotations

import json
import pickle
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from dualfl.engines import Problem
from dualfl.engines.decision import decide
from dualfl.engines.request import Limits, Recording
from dualfl.engines.session import Session
from dualfl.federation.courier import Came, Courier
from dualfl.federation.keeper import Keeper
from dualfl.federation.remote import Federation, Remote, Terms
from dualfl.federation.silos_afar import SilosAfar

Fault = Callable[["Loopback", int, bytes, bytes], "list[Came] | None"]


class Loopback:
    """A transport. `fault` sees (transport, node, request, answer) and may put something else in its place."""

    def __init__(
        self, homes: Sequence[Path], fault: Fault | None = None, order: Callable = sorted, resident: bool = False
    ) -> None:
        self.resident: dict[int, Keeper] | None = {} if resident else None  # one for all messages, as in a deployment
        self.homes, self.fault, self.order = {100 + i: home for i, home in enumerate(homes)}, fault, order
        self.box: list[Came] = []
        self.count = 0

    def nodes(self):
        return self.order(self.homes)

    def push(self, messages: Mapping[int, bytes]) -> dict[int, str]:
        ids = {}
        for node, message in messages.items():
            self.count += 1
            ids[node] = str(self.count)
            answer = self.keeper(node).handle(message)
            played = None if self.fault is None else self.fault(self, node, message, answer)
            self.box += [Came(ids[node], answer)] if played is None else [c._replace(sent=ids[node]) for c in played]
        return ids

    def keeper(self, node: int) -> Keeper:
        """A new one a message, as a process would be; or one that has the data in memory."""
        if self.resident is None:
            return Keeper(self.homes[node])
        return self.resident.setdefault(node, Keeper(self.homes[node]))

    def pull(self, ids: Sequence[str], seconds: float) -> list[Came]:
        came, self.box = [c for c in self.box if c.sent in ids], [c for c in self.box if c.sent not in ids]
        return came


def pickled_homes(folder: Path, problem: Problem) -> list[Path]:
    homes = []
    for j, (f, solver, size) in enumerate(zip(problem.clients, problem.solvers, problem.sizes)):
        home = folder / f"silo-{j:03d}"
        home.mkdir(parents=True)
        (home / "silo.json").write_text(json.dumps({"name": home.name, "pickle": "client.pkl", "identity": str(j)}))
        (home / "client.pkl").write_bytes(pickle.dumps((f, solver, size, problem.penalty)))
        homes.append(home)
    return homes


@cache
def key_pair(number: int) -> tuple[str, str]:
    """Made once for all tests of a process: it takes longer than most of them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", path], check=True)
        return path.read_text(), (Path(folder) / "key.pub").read_text()


def sign_up(homes: Sequence[Path]) -> None:
    """Keys and a roster for everybody."""
    roster = {}
    for number, home in enumerate(homes):
        private, public = key_pair(number)
        (home / "key").write_text(private)
        (home / "key").chmod(0o600)
        (home / "key.pub").write_text(public)
        roster[home.name] = public
    for home in homes:
        (home / "roster.json").write_text(json.dumps(roster))


def csv_homes(folder: Path, rows: Sequence[int] = (40, 25, 35), seed: int = 0) -> list[Path]:
    """Silos with CSV files of a number or two, a category and a class."""
    rng = np.random.default_rng(seed)
    homes = []
    for name, n in zip("abcdefgh", rows):
        home = folder / name
        home.mkdir(parents=True)
        age, income = rng.normal(50, 10, n), rng.normal(3e4, 1e4, n)
        town = rng.choice(["north", "south", "west"], n)
        sick = (age - 50) / 10 + (town == "south") + rng.normal(0, 1, n) > 0
        lines = [
            f"{a!r},{i!r},{t},{'yes' if s else 'no'}" for a, i, t, s in zip(age.tolist(), income.tolist(), town, sick)
        ]
        (home / "data.csv").write_text("age,income,town,sick\n" + "\n".join(lines) + "\n")
        settings = {"name": name, "data": "data.csv", "target": "sick", "identity": f"id-{name}", "minimum": 2}
        (home / "silo.json").write_text(json.dumps(settings))
        homes.append(home)
    return homes


def run_over(
    transport,
    terms: Terms,
    template,
    penalty=None,
    *,
    rounds=5,
    tol=None,
    path=None,
    resume=False,
    seconds=None,
    **post,
):
    """A run by a remote engine; returns (result, engine)."""
    federation = Federation(Courier(transport, poll=0.0, patience=post.pop("patience", 5.0), **post), terms)
    setup = federation.meet()
    if template is None:
        from dualfl.federation.model import template as empty

        template, penalty = empty(setup.schema, terms.problem)
    algorithm, choice = decide(terms.algorithm, SilosAfar(federation, setup, template, penalty))
    engine = Remote(federation, setup, template, penalty, algorithm)
    session = Session(engine, Recording(checkpoint=path))
    return replace(session.run(Limits(rounds, tol, seconds), resume), choice=choice), engine
