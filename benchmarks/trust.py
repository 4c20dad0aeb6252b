"""What trust costs, and whether silos on other processors follow: `python -m benchmarks.trust [replay] [cost]`.

`--save` writes results/trust.md.

replay    every algorithm that masks allow is run on three silos; then its conversation is followed by other processes
          with other BLAS kernels, instruction sets, threads and native kernels, each of which must ask the same.
cost      processor time of one exchange of a silo with masks and tags over that of the same exchange without, and
          bytes up and down, by d and N; the server's own computations, which a silo repeats, are not in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "federation"))

ROUNDS, SILOS = 5, (40, 30, 35)
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

    found = {}
    for home in sorted(folder.glob("*/a")):
        try:
            experiment = Experiment(SiloFolder(home), "e")
            replica = Replica(experiment.plan, "e", decode((experiment.path / "met").read_bytes()))
            asked = sorted((home / "asked").iterdir())
            for number, path in enumerate(asked, 1):
                content = decode(path.read_bytes())
                replica.check(content["asks"], content["ended"])
                if number < len(asked):
                    kept = decode((experiment.path / "opened" / f"{number:06d}").read_bytes())
                    replica.told(read_totals(kept["opened"], Standing(Chain(""), fields=tuple(kept["fields"]))))
            found[home.parent.name] = ""
        except DualflError as error:
            found[home.parent.name] = str(error)
    return found


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
            bad = {name: why for name, why in found.items() if why}
            told = "; ".join(f"{name}: {why}" for name, why in bad.items())
            yield f"{label}: {len(found) - len(bad)} of {len(found)} algorithms followed to the end" + (
                f"; MISSED {told}" if bad else ""
            )
        yield f"{questions} questions in all. Not allowed under masks: " + (
            "; ".join(f"{name} ({why.split(',')[0]})" for name, why in refused.items()) or "none"
        )


# -- cost --------------------------------------------------------------------------------------------------


def cost() -> Iterator[str]:
    """One exchange of a silo: read the question, compute, write the answer; with masks also tags, masks, the sum."""
    for d, rows in ((10_000, 400), (10_000, 2_000), (1_000_000, 50)):
        for N in (3, 20):
            yield one_cost(d, N, rows)


def one_cost(d: int, N: int, rows: int) -> str:
    from dualfl.errors import InputError
    from dualfl.federation import fixed_point
    from dualfl.federation.masks import Masks, new_secret, public_part
    from dualfl.federation.sealing import SUMS, Seal, Total
    from dualfl.federation.wire import decode, encode

    rng = np.random.default_rng(0)
    X, x = rng.normal(size=(rows, d)), rng.normal(size=d)
    names = [f"s{j:02d}" for j in range(N)]
    secrets = {name: new_secret() for name in names}
    keys = {name: public_part(secret) for name, secret in secrets.items()}
    masks = {name: Masks(name, secrets[name], keys, "e") for name in names[:1]}
    group = bytes(32)

    def exchange(masked: bool) -> tuple[float, int, int]:
        ask = encode({"x": x} | ({"opened": np.zeros(2 * d + 1, dtype=np.uint64)} if masked else {}))
        began = time.process_time()
        theta = decode(ask)["x"]
        for _ in range(2):  # a gradient and a value, as the cheapest client step has them
            g = X.T @ np.tanh(X @ theta) / rows
        if not masked:
            answer = encode({"g": g})
        else:
            released = fixed_point.FixedPoint(1 / N).encode({"g": g}, {}, None)[0]["g"]
            parts = fixed_point.limbs("g", released / N, N, fixed_point.VECTOR)
            sealed = Seal(masks[names[0]], group, "label", names).sums(parts)
            answer = encode(sealed)
            words = decode(ask)["opened"]
            with contextlib.suppress(InputError):  # a sum of zeros is not true, and finding that out takes as long
                Total(sealed["fields"], words).checked(group, "label", SUMS)
        return time.process_time() - began, len(answer), len(ask)

    plain, masked = (min(exchange(kind) for _ in range(3)) for kind in (False, True))
    time_ratio, up, down = masked[0] / plain[0], masked[1] / plain[1], masked[2]
    verdicts = [
        f"time {time_ratio:.2f}x (at most 1.3: {'kept' if time_ratio <= 1.3 else 'MISSED'})",
        f"upload {up:.2f}x (at most 1.1: {'kept' if up <= 1.1 else 'MISSED: a number takes two words'})",
        f"download {down / (8 * d):.2f} vectors: the ask, and one opened sum of two words a number",
    ]
    return f"d = {d:,}, N = {N}, {rows} rows: " + ", ".join(verdicts)


PARTS = {"replay": replay, "cost": cost}


def main() -> None:
    if sys.argv[1:2] == ["follow"]:
        print(json.dumps(follow(Path(sys.argv[2]))))
        return
    wanted = [word for word in sys.argv[1:] if word in PARTS] or list(PARTS)
    lines = [f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} before the start"]
    print(lines[0], flush=True)
    for name in wanted:
        for line in PARTS[name]():
            print(line, flush=True)
            lines.append(f"{name}: {line}")
    if "--save" in sys.argv:
        by = f"By `python -m benchmarks.trust {' '.join(wanted)} --save`."
        text = f"# What trust costs, and whether silos elsewhere follow\n\n{by}\n\n"
        (ROOT / "results" / "trust.md").write_text(text + "\n".join(f"- {line}" for line in lines) + "\n")


if __name__ == "__main__":
    main()
