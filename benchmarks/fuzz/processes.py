"""Real processes: killed at any time and started again, and two of them on one folder."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.fuzz.ground import Ground
from benchmarks.fuzz.judging import ACCEPTED, Verdict, half_written
from benchmarks.fuzz.patience import Patience


def start(*words: Any) -> subprocess.Popen[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "dualfl", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def attack(ground: Ground, folder: Path, rng: random.Random) -> tuple[Verdict, str]:
    folder.mkdir(parents=True)
    try:
        return rng.choice((killed, together))(ground, folder, rng)
    except TimeoutError as error:
        return Verdict("hang", str(error)), "a real process"


def run_words(out: Path, seed: int, *more: Any) -> list[Any]:
    return [
        *("run", "--dataset", "iris", "--clients", 3, "--rounds", 40, "--no-reference", "--no-report"),
        *("--seed", seed, "--checkpoint-every", 1, "--out", out, *more),
    ]


def killed(ground: Ground, folder: Path, rng: random.Random) -> tuple[Verdict, str]:
    """kill -9 at a random time; what is there can go on, and what comes of it is whole."""
    out = folder / "out"
    process = start(*run_words(out, 0))
    time.sleep(rng.uniform(0.5, 4.0))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    more = ["--resume"] if (out / "checkpoint.npz").exists() else ["--force"]
    _, said, code = ended(start(*run_words(out, 0, *more)))
    if "Traceback" in said:
        return Verdict("traceback", said[-300:]), "run after kill -9"
    if code != 0:
        return Verdict("wrong", f"a run that was killed could not go on: {said.strip()[-200:]}"), "run after kill -9"
    fault = half_written(folder) or incoherent(out)
    return Verdict("half-written", fault) if fault else Verdict(ACCEPTED), "run after kill -9"


def together(ground: Ground, folder: Path, rng: random.Random) -> tuple[Verdict, str]:
    """Two processes on one folder: the files are of one of them."""
    out = folder / "out"
    if rng.random() < 0.5:
        pair = [start(*run_words(out, seed, "--force")) for seed in (1, 2)]
    else:
        words = ["fit", ground["a.csv"], ground["b.csv"], "--target", "sick", "--model", "logistic", "--no-report"]
        pair = [start(*words, "--alpha", alpha, "--force", "--out", out) for alpha in (0.1, 1.0)]
    done = [ended(process) for process in pair]
    for _, said, _ in done:
        if "Traceback" in said:
            return Verdict("traceback", said[-300:]), "two processes on one folder"
    if 0 not in [code for _, _, code in done]:
        return Verdict("wrong", "neither of two processes came to an end"), "two processes on one folder"
    fault = half_written(folder) or incoherent(out)
    return Verdict("half-written", fault) if fault else Verdict(ACCEPTED), "two processes on one folder"


def ended(process: subprocess.Popen[str]) -> tuple[str, str, int]:
    patience = Patience(process.pid)
    while True:
        try:
            out, said = process.communicate(timeout=1.0)
            return out, said, process.returncode
        except subprocess.TimeoutExpired:
            if detail := patience.over():
                process.kill()
                process.communicate()
                raise TimeoutError(detail) from None


def incoherent(out: Path) -> str:
    """Whether the record and the history tell of different runs."""
    if (out / "run.json").exists():
        told = json.loads((out / "run.json").read_text())["results"]
        last = (out / "history.csv").read_text().strip().splitlines()[-1].split(",")
        if int(last[0]) != told["round"] or float(last[6]) != told["energy"]:
            return "history.csv is not of the run that run.json tells of"
    elif (out / "fit.json").exists():
        alphas = {
            json.loads((out / "fit.json").read_text())["settings"]["alpha"],
            json.loads((out / "model.json").read_text())["recipe"]["alpha"],
        }
        if len(alphas) > 1:
            return "model.json is not of the fit that fit.json tells of"
    return ""
