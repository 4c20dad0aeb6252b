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
from benchmarks.fuzz.judging import ACCEPTED, REFUSED, Verdict, half_written, of_call, of_command


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


CELLS = (
    *("", " ", "NA", "unknown", "?", "0", "1", "-1", "999", "01", "1.50", "1e400", "inf", "-0", "1_000", "5O"),
    *("1,5", ",5", "1.234,5", "1'000,5", "yes", "no", "YES", "true", "North", "nor th", "Zürich", "ZÃ¼rich"),
    *("2020-01-31", "31.1.2020", "1/2/2020", "2020-13-41", "x" * 300, "a b", "(missing)", "=1+1", "9007199254740993"),
)
OPTIONS = (
    *(["--decimal", ","], ["--decimal", "dose=,"], ["--fold-case"], ["--dates", "as-days-since:2020-01-01"]),
    *(["--na", "999"], ["--na", "age=unknown"], ["--recode", "sick=yes:1,no:0"], ["--recode", "ward=north:n,1:one"]),
    *(
        ["--id", "age"],
        ["--drop", "ward"],
        ["--columns", "age,dose"],
        ["--categorical", "dose"],
        ["--encoding", "cp1252"],
    ),
)


def check_and_fit(ground: Ground, folder: Path, rng: random.Random) -> tuple[Verdict, str]:
    """A table with odd cells: `check` ends with 0 exactly if `fit` can do it."""
    lines = [line.split(",") for line in ground["a.csv"].read_text().splitlines()]
    for _ in range(rng.choice([1, 1, 2, 3])):
        column, cell = rng.randrange(len(lines[0])), rng.choice(CELLS)
        rows = [0] if rng.random() < 0.1 else rng.choices(range(1, len(lines)), k=rng.choice([1, 3, 20, 200]))
        for row in rows:
            lines[row][column] = f'"{cell}"' if "," in cell else cell
    encoding = rng.choice(["utf-8", "utf-8", "cp1252"])
    (folder / "a.csv").write_text("\n".join(map(",".join, lines)) + "\n", encoding=encoding)
    words = [folder / "a.csv", ground["b.csv"], "--target", "sick", "--model", "logistic"]
    words += [word for words in rng.sample(OPTIONS, rng.choice([0, 0, 1, 2])) for word in words]
    found = command("check", *words)
    fit = command("fit", *words, "--no-influence", "--no-report", "--out", folder / "out")
    verdict, what = of_command(fit), "dualfl check " + " ".join(map(str, words[5:]))
    if of_command(found).kind not in (ACCEPTED, REFUSED):
        return of_command(found), what
    if (found.exit_code == 0) != (fit.exit_code == 0):
        return Verdict("wrong", f"check ended with {found.exit_code}, and fit said: {fit.stderr.strip()[-200:]}"), what
    return verdict, what


def through_commands(ground: Ground, folder: Path, rng: random.Random) -> tuple[Verdict, str]:
    if rng.random() < 0.4:
        return check_and_fit(ground, folder, rng)
    (folder / "a.csv").write_bytes(damaged(ground["a.csv"].read_bytes(), rng))
    if rng.random() < 0.5:
        words = ["fit", folder / "a.csv", ground["b.csv"], "--target", "sick", "--model", "logistic"]
        words += ["--no-influence", "--no-report", "--out", folder / "out"]
    else:
        words = ["predict", ground["model"], folder / "a.csv", "--out", folder / "p.csv"]
    verdict = of_command(command(*words))
    fault = half_written(folder)
    return Verdict("half-written", fault) if fault else verdict, f"dualfl {words[0]} with a damaged a.csv"
