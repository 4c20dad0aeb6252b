"""What trust costs, and whether silos elsewhere follow: `python -m benchmarks.trust [replay] [cost] [flower]`.

`--save` writes results/trust.md.

replay    every algorithm that masks allow is run on three silos; then its conversation is followed by other processes
          with other BLAS kernels, instruction sets, threads and native kernels, each of which must ask the same.
cost      processor time of an exchange of a run, silo and coordinator, with masks, tags and replay over that of the
          same exchange without; and bytes up and down, by algorithm, d and N. Names of algorithms may follow, and
          sizes, as 10000x20x400: d, N and rows.
flower    seconds of an exchange over Flower on loopback, with TLS and keys, with masks over without: 3 silos.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "federation"))

ROUNDS, SILOS = 5, (40, 30, 35)
APART = "apart"
ELSEWHERE: dict[str, dict[str, str]] = {
    "as recorded": {},
    "Prescott, no AVX2": {"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3"},
    "Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "Zen": {"OPENBLAS_CORETYPE": "Zen"},
    "two threads": {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "DUALFL_THREADS": "2"},
    "kernels baseline": {"DUALFL_ISA": "baseline"},
    "kernels avx2": {"DUALFL_ISA": "avx2"},
    "kernels twin": {"DUALFL_KERNELS": "numpy"},
}
# Which problem shows an algorithm, where logistic regression with a ridge does not.
OTHERS = {"fedipm": {"loss": "hinge"}, "one-shot": {"loss": "squared"}}


# -- replay ------------------------------------------------------------------------------------------------


def record(folder: Path, name: str) -> int:
    """Run it on silos of its own; keep what was asked at one of them. The number of questions."""
    from far import far_run
    from loopback import Loopback, csv_homes, sign_up

    from dualfl.algorithms.registry import make
    from dualfl.federation.wire import decode

    homes = csv_homes(folder / name, SILOS)
    if OTHERS.get(name, {}).get("loss") == "squared":
        for home in homes:
            path = home / "data.csv"
            path.write_text(path.read_text().replace("yes", "1.5").replace("no\n", "0.5\n"))
    sign_up(homes)
    asked: list[bytes] = []

    def keep(transport: Any, node: int, request: bytes, answer: bytes) -> None:
        if node == 100 and decode(request)["kind"] != "open":
            asked.append(request)

    task = "regression" if OTHERS.get(name, {}).get("loss") == "squared" else "classification"
    transport = Loopback(homes, keep, resident=True)
    found = far_run(homes, make(name), rounds=ROUNDS, problem=OTHERS.get(name), transport=transport, task=task)
    if found.result.stopped == "contradiction":
        raise AssertionError(f"{name}: honest silos are said to contradict each other")
    (homes[0] / "asked").mkdir()
    for number, message in enumerate(asked):
        (homes[0] / "asked" / f"{number:06d}").write_bytes(message)
    return len(asked)


def follow(folder: Path) -> dict[str, str]:
    """What a silo here says of every recorded conversation: "" where it has followed to the end."""
    from dualfl.errors import DualflError
    from dualfl.federation.chain import Chain
    from dualfl.federation.experiment import Experiment
    from dualfl.federation.line import Standing, read_totals
    from dualfl.federation.replica import Replica
    from dualfl.federation.silo_folder import SiloFolder
    from dualfl.federation.wire import decode

    found, off = {}, 0.0
    for home in sorted(folder.glob("*/a")):
        try:
            experiment = Experiment(SiloFolder(home), "e")
            replica = Replica(experiment.plan, "e", decode((experiment.path / "met").read_bytes()))
            asked = sorted((home / "asked").iterdir())
            for number, path in enumerate(asked, 1):
                content = decode(path.read_bytes())
                off = max(off, apart(content["asks"], replica.check(content["asks"], content["ended"])[0]))
                if number < len(asked):
                    kept = decode((experiment.path / "opened" / f"{number:06d}").read_bytes())
                    replica.told(read_totals(kept["opened"], Standing(Chain(""), fields=tuple(kept["fields"]))))
            found[home.parent.name] = ""
        except DualflError as error:
            found[home.parent.name] = str(error)
    return found | {APART: f"{off:.1e}"}


def apart(given: Any, own: Any) -> float:
    """How far two questions are from each other, as a part of the largest number of a vector."""
    if isinstance(own, dict):
        return max((apart(given[name], own[name]) for name in own), default=0.0)
    if isinstance(own, list | tuple):
        return max((apart(a, b) for a, b in zip(given, own)), default=0.0)
    if not isinstance(own, np.ndarray) or own.dtype.kind != "f" or np.array_equal(given, own):
        return 0.0
    return float(np.abs(given - own).max() / np.abs(own).max())


def followed_elsewhere(folder: Path, variables: dict[str, str]) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.trust", "follow", str(folder)],
        env=os.environ | variables,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        return {"*": done.stderr.strip().splitlines()[-1]}
    found: dict[str, str] = json.loads(done.stdout)
    return found


def allowed() -> list[str]:
    """The algorithms of the library; those that ask some silos are refused when they do."""
    from dualfl.algorithms.registry import ALGORITHMS

    return [name for name in ALGORITHMS if name != "auto"]


def replay(names: list[str] | None = None, where: dict[str, dict[str, str]] = ELSEWHERE) -> Iterator[str]:
    from dualfl.errors import DualflError

    with tempfile.TemporaryDirectory() as temporary:
        folder, refused, questions = Path(temporary), {}, 0
        for name in names or allowed():
            try:
                questions += record(folder, name)
            except DualflError as error:
                refused[name] = str(error)
                for home in (folder / name).glob("*"):
                    home.rename(home.with_name("refused-" + home.name))
        for label, variables in where.items():
            found = followed_elsewhere(folder, variables)
            off = found.pop(APART, "?")
            bad = {name: why for name, why in found.items() if why}
            told = "; ".join(f"{name}: {why}" for name, why in bad.items())
            yield (
                f"{label}: {len(found) - len(bad)} of {len(found)} algorithms followed to the end, numbers within {off}"
                + (f"; MISSED {told}" if bad else "")
            )
        yield f"{questions} questions in all. Not allowed under masks: " + (
            "; ".join(f"{name} ({why.split(',')[0]})" for name, why in refused.items()) or "none"
        )


# -- cost --------------------------------------------------------------------------------------------------

SHOWN = ("gd", "lbfgs", "dualfl", "scaffnew", "giant", "feddr", "apcg-dual")
# d, silos, rows of the first. With d = 10,000 few rows and, as of a hospital, some thousand; with a million as many as
# memory takes.
SIZES = (
    (10_000, 3, 400),
    (10_000, 3, 4000),
    (10_000, 20, 400),
    (10_000, 20, 4000),
    (1_000_000, 3, 50),
    (1_000_000, 20, 50),
)
COST_ROUNDS = 12
QUIET = 0.25  # of exchanges: those that others on this machine disturbed least
SLACK = 4096  # bytes: names and signatures


def cost(names: tuple[str, ...] = SHOWN, sizes: tuple[tuple[int, int, int], ...] = SIZES) -> Iterator[str]:
    """An exchange of a run as it is: what one silo and the coordinator compute, one after the other.

    With trust it has masks, tags, the sum handed on, the silo's own replay and its disk; without, the same run with
    nothing masked. The lower quartile of all exchanges that carry a step; bytes are their medians, and those of all.
    """
    for d, N, rows in sizes:
        with tempfile.TemporaryDirectory() as temporary:
            homes = wide_homes(Path(temporary), d, N, rows)
            for name in names:
                yield one_cost(homes, name, d, N, rows)


def wide_homes(folder: Path, d: int, N: int, rows: int) -> list[Path]:
    """The first silo has all these rows, and is the one that is measured; the others have few, to fit into memory."""
    from loopback import sign_up

    rng, homes = np.random.default_rng(0), []
    for j in range(N):
        home = folder / f"s{j:02d}"
        home.mkdir()
        n = rows if j == 0 else max(2, 200_000 // d)
        np.savez(home / "data.npz", X=rng.normal(size=(n, d)), y=np.where(np.arange(n) % 2, 1.0, -1.0))
        silo = {"name": home.name, "data": "data.npz", "target": "y", "identity": home.name, "minimum": 2}
        (home / "silo.json").write_text(json.dumps(silo))
        homes.append(home)
    sign_up(homes)
    return homes


def one_cost(homes: list[Path], name: str, d: int, N: int, rows: int) -> str:
    from dualfl.errors import DualflError
    from dualfl.federation.fixed_point import BITS

    where = f"{name}, d = {d:,}, N = {N}, {rows} rows"
    try:
        plain, masked = (exchanges_of(homes, name, secure) for secure in (None, BITS))
    except DualflError as error:
        return f"{where}: not run ({error})"
    ratio, up = masked.seconds / plain.seconds, masked.up / plain.up
    down = masked.down / plain.down  # without masks, the ask alone
    return f"{where}: " + ", ".join(
        [
            f"time {ratio:.2f}x ({1e3 * plain.seconds:.0f} ms without; at most 1.3: {verdict(ratio <= 1.3)})",
            f"upload {up:.2f}x (at most 1.1: {verdict(up <= 1.1)}), {masked.all_up / plain.all_up:.2f}x of all rounds",
            f"download {down:.2f}x of the ask ({verdict(masked.down <= plain.down + masked.sum + SLACK)})",
        ]
    )


def verdict(kept: bool) -> str:
    return "kept" if kept else "MISSED"


class Exchanges(NamedTuple):
    """Of the exchanges of a run that carry a step: their time, the medians of bytes, and all that went up in them."""

    seconds: float
    up: float
    down: float
    all_up: float
    sum: float  # bytes of one opened sum: one word a number that a silo sends


def exchanges_of(homes: list[Path], name: str, secure: int | None) -> Exchanges:
    from far import far_run
    from loopback import Loopback

    from dualfl.algorithms.registry import make
    from dualfl.federation.courier import Came
    from dualfl.federation.wire import decode

    found: list[tuple[float, int, int]] = []

    class Timed(Loopback):
        left = 0.0  # when the coordinator was handed the last answers

        def push(self, messages: Any) -> dict[int, str]:
            before, ids = time.process_time() - self.left, {}
            for node, message in messages.items():
                self.count += 1
                ids[node] = str(self.count)
                began = time.process_time()
                answer = self.keeper(node).handle(message)
                took = time.process_time() - began
                self.box.append(Came(ids[node], answer))
                if node == 100 and any(one.get("step") for one in decode(message).get("asks", ())):
                    found.append((before + took, len(answer), len(message)))
            self.left = time.process_time()
            return ids

    transport = Timed(homes, resident=True)
    far_run(
        homes, make(name), COST_ROUNDS, secure, transport=transport, experiment=f"{name}{secure}", standardise=False
    )
    steps = found[-COST_ROUNDS:]
    seconds = float(np.quantile([one[0] for one in steps], QUIET))
    up, down = (float(np.median([one[i] for one in steps])) for i in (1, 2))
    return Exchanges(seconds, up, down, sum(one[1] for one in steps), up)


# -- the same over Flower ----------------------------------------------------------------------------------


def flower(names: tuple[str, ...] = ("gd", "lbfgs"), d: int = 10_000, silos: int = 3, rows: int = 400) -> Iterator[str]:
    """Exchanges as they are: processes, TLS, disks. The run with masks and the one without take turns, three times."""
    for name in names:
        seconds: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(3):
            for secure, found in seconds.items():
                found += over_flower(name, secure, d, silos, rows)
        plain, masked = (float(np.quantile(seconds[secure], QUIET)) for secure in (False, True))
        kept = verdict(masked <= 1.3 * plain)
        where = f"{name}, d = {d:,}, N = {silos}, {rows} rows"
        yield f"{where}: {masked / plain:.2f}x of {plain:.2f} s (at most 1.3: {kept})"


def over_flower(name: str, secure: bool, d: int, silos: int, rows: int) -> list[float]:
    from benchmarks.deploy import write_wide
    from dualfl.algorithms.registry import make
    from dualfl.deploy.trial import Deployment
    from dualfl.engines.request import Limits

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        called = [f"silo-{j}" for j in range(silos)]
        files = write_wide(folder / "data", silos, d, rows)
        plainly = {"secure": secure, "standardise": False, "intercept": "penalised"}
        deployment = Deployment(folder, files, "y", called, **plainly)
        with deployment.running():
            done = deployment.run(make(name), Limits(COST_ROUNDS), name="round", progress=False).result
    found: list[float] = np.diff(done.history.column("seconds"))[1:].tolist()
    return found


PARTS: dict[str, Any] = {"replay": replay, "cost": cost, "flower": flower}


def main() -> None:
    if sys.argv[1:2] == ["follow"]:
        print(json.dumps(follow(Path(sys.argv[2]))))
        return
    wanted = [word for word in sys.argv[1:] if word in PARTS] or list(PARTS)
    lines = [f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} before the start"]
    print(lines[0], flush=True)
    for name in wanted:
        chosen = [word for word in sys.argv[1:] if word in allowed()]
        given: dict[str, Any] = {"names": chosen} if chosen else {}
        sizes = tuple(one for one in SIZES if "x".join(map(str, one)) in sys.argv)
        for line in PARTS[name](**given | ({"sizes": sizes} if sizes and name == "cost" else {})):
            print(line, flush=True)
            lines.append(f"{name}: {line}")
    if "--save" in sys.argv:
        by = f"By `python -m benchmarks.trust {' '.join(wanted)} --save`."
        text = f"# What trust costs, and whether silos elsewhere follow\n\n{by}\n\n"
        (ROOT / "results" / "trust.md").write_text(text + "\n".join(f"- {line}" for line in lines) + "\n")


if __name__ == "__main__":
    main()
