"""Files that were damaged: read as they are, or refused by name."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import dualfl
from benchmarks.fuzz.evil import damaged
from benchmarks.fuzz.ground import Ground, command
from benchmarks.fuzz.judging import ACCEPTED, Verdict, half_written, of_call, of_command


def attack(ground: Ground, folder: Path, rng: random.Random) -> tuple[Verdict, str]:
    """One damaged file, through the API or through `fit` and `predict`."""
    folder.mkdir(parents=True)
    if rng.random() < 0.2:
        return through_commands(ground, folder, rng)
    name = rng.choice(sorted(ground.files))
    data = damaged(ground.files[name], rng)
    if rng.random() < 0.2:
        data = damaged(data, rng)
    suffix = name.removeprefix("data")
    if rng.random() < 0.1:
        suffix = rng.choice(["", ".txt", ".csv", ".npz", ".libsvm", ".parquet", ".bin", ".npy"])
    if rng.random() < 0.15:
        data, suffix = gzip.compress(data), suffix + ".gz"
        data = damaged(data, rng) if rng.random() < 0.5 else data
    path = folder / f"data{suffix}"
    path.write_bytes(data)
    if "images" in name and rng.random() < 0.8:
        (folder / "data.labels-idx1-ubyte").write_bytes(ground.files["data.labels-idx1-ubyte"])
    target = rng.choice([None, None, None, "target", "y", "0", "nothing"])
    scale = rng.choice(["default", "default", "raw", 0.5])
    verdict, found = of_call(lambda: dualfl.load(path, target=target, scale=scale))
    if verdict.kind == ACCEPTED:
        values = found.X.data if sp.issparse(found.X) else found.X
        if len(found.y) != found.n or not np.isfinite(np.asarray(values, dtype=float)).all():
            verdict = Verdict("wrong", "rows without targets, or numbers that are none, were accepted")
    return verdict, f"load({path.name!r}, target={target!r}, scale={scale!r}) of {name}, damaged"


def through_commands(ground: Ground, folder: Path, rng: random.Random) -> tuple[Verdict, str]:
    (folder / "a.csv").write_bytes(damaged(ground["a.csv"].read_bytes(), rng))
    if rng.random() < 0.5:
        words = ["fit", folder / "a.csv", ground["b.csv"], "--target", "sick", "--model", "logistic"]
        words += ["--no-influence", "--no-report", "--out", folder / "out"]
    else:
        words = ["predict", ground["model"], folder / "a.csv", "--out", folder / "p.csv"]
    verdict = of_command(command(*words))
    fault = half_written(folder)
    return Verdict("half-written", fault) if fault else verdict, f"dualfl {words[0]} with a damaged a.csv"
