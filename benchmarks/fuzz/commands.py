"""Commands with words that nobody should give them."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import click

from benchmarks.fuzz.evil import DIGITS, WORDS
from benchmarks.fuzz.ground import Ground, command
from benchmarks.fuzz.judging import ACCEPTED, REFUSED, Keepsakes, Verdict, half_written, of_command

QUICK = ("--no-report",)
REPRODUCED = ("all", "figure1", "matrix", "network", "table1", "table2")
ENDLESS = ("--rounds", "--seconds", "--epsilon")  # options by which somebody may ask for very long runs
LEFT_OUT = ("show", "engine", "check", "times")  # opens a browser, starts a cluster, takes minutes, watches for ever
# whose words always have a place where nothing can be: they would run for minutes, serve, or ask a network
SERVICES = ("start", "serve", "measure", "deploy run")
ENDED = ("tune", "demo", "try", *SERVICES, *(f"reproduce {name}" for name in REPRODUCED))
SURVIVAL = ("--time", "days", "--event", "died")
PLACES = (
    "out",
    "mine.txt",
    "notes",
    "notes/report.html",
    "loop",
    "loop/x",
    "mine.txt/x",
    "/proc/x",
    "/",
    "/dev/zero",
    ".",
)


def templates(ground: Ground) -> dict[str, list[Any]]:
    """Words that are right, and quick."""
    small = ["--dataset", "iris", "--clients", "3", "--rounds", "3"]
    return {
        "run": ["run", *small, "--no-reference", *QUICK, "--out", "out"],
        "compare": ["compare", *small, "--algorithms", "dualfl,gd", *QUICK, "--out", "out"],
        "fit": [
            *("fit", ground["a.csv"], ground["b.csv"], "--target", "sick", "--model", "logistic", "--no-influence"),
            *(*QUICK, "--out", "out"),
        ],
        "check": ["check", ground["a.csv"], ground["b.csv"], "--target", "sick", "--model", "logistic"],
        "predict": ["predict", ground["model"], ground["a.csv"], "--out", "out"],
        "evaluate": ["evaluate", ground["model"], ground["a.csv"], "--out", "out"],
        "report": ["report", ground["run"], "--out", "out"],
        "algorithms": ["algorithms"],
        "datasets": ["datasets"],
        "theory": ["theory", "--only", "nothing has this name"],
        "tune": ["tune", "--dataset", "iris", "--out", "mine.txt/x"],  # only places that end it at once
        **{f"reproduce {name}": ["reproduce", name, "--out", "loop"] for name in REPRODUCED},
        "demo": ["demo", "--out", "mine.txt"],
        "init": ["deploy", "init", "out", "--silos", "a,b,c", "--host", "example.org"],
        "join": [
            *("deploy", "join", "out", "--name", "a", "--coordinator", "h:1", "--data", ground["a.csv"]),
            *("--target", "sick", "--insecure"),
        ],
        "describe": ["describe", ground["a.csv"], ground["b.csv"], "--by", "ward", "--out", "out"],
        "table": ["table", ground["model"], "--out", "out"],
        "km": ["km", ground["s.csv"], ground["t.csv"], *SURVIVAL, "--by", "arm", "--out", "out", "--plot", "plot"],
        "test": ["test", ground["model"]],
        "nested": ["test", ground["smaller"], ground["larger"]],
        "cox": ["fit", ground["s.csv"], ground["t.csv"], "--model", "cox", *SURVIVAL, *QUICK, "--out", "out"],
        "add": ["deploy", "add", "project", "d"],
        "remove": ["deploy", "remove", "project", "c"],
        "revoke": ["deploy", "revoke", "project", "c"],
        "purge": ["deploy", "purge", "project", "--yes"],
        "renew": ["deploy", "renew", "project"],
        "stop": ["deploy", "stop", "project"],
        "backup": ["deploy", "backup", "project", "out"],
        "restore": ["deploy", "restore", "mine.txt", "out"],
        "audit": ["deploy", "audit", "silo"],
        "trust": ["deploy", "trust", "silo", ground["a.csv"]],
        "admit": ["deploy", "admit", "project", ground["silo"] / "card.txt"],
        "status": ["deploy", "status", "project"],
        "silo's status": ["deploy", "status", "silo"],
        "watch": ["deploy", "watch", "silo", "--times", "2", "--every", "0.1"],
        "rotate": ["deploy", "rotate", "silo"],
        "approve": ["deploy", "approve", "silo", "--all", "once"],
        "deploy check": ["deploy", "check", "silo"],
        "deploy run": ["deploy", "run", "mine.txt", "--rounds", "2"],
        "measure": ["deploy", "measure", "mine.txt"],
        "start": ["deploy", "start", "mine.txt"],
        "serve": ["deploy", "serve", "mine.txt"],
        "try": ["deploy", "try", "--keep", "notes"],
    }


def sandbox(folder: Path) -> Keepsakes:
    """A folder with things of somebody else's in it."""
    folder.mkdir(parents=True)
    (folder / "mine.txt").write_text("mine\n")
    (folder / "notes" / "report.html").mkdir(parents=True)
    (folder / "notes" / "report.html" / "page").write_text("mine too\n")
    (folder / "notes" / "history.txt").write_text("and this\n")
    (folder / "loop").symlink_to("loop2")
    (folder / "loop2").symlink_to("loop")
    return Keepsakes(folder)


def parameters(words: list[Any]) -> list[click.Parameter]:
    """What the command of these words takes."""
    from dualfl.cli import main

    found: Any = main
    context = click.Context(main)
    for word in words:
        if not isinstance(found, click.Group):
            break
        found = found.get_command(context, str(word))
    return list(found.params)


def altered(name: str, words: list[Any], rng: random.Random) -> list[str]:
    """The words with a few options given, wrongly more often than not; or others in the place of files and names."""
    new = [str(word) for word in words]
    ends = name in ENDED
    left_out = (*LEFT_OUT, "out", "keep") if ends else LEFT_OUT
    known = [each for each in parameters(words) if isinstance(each, click.Option) and each.name not in left_out]
    for option in rng.sample(known, min(len(known), rng.choice([1, 1, 1, 2, 3]))):
        flag = rng.choice([*option.opts, *option.secondary_opts])
        if option.is_flag:
            new.append(flag)
            continue
        value = rng.choice(PLACES) if option.name == "out" else rng.choice(WORDS)
        if isinstance(option.type, click.types.IntParamType | click.types.FloatParamType) and rng.random() < 0.7:
            value = rng.choice(DIGITS)
        choices = getattr(option.type, "choices", ())
        if choices and rng.random() < 0.5:
            value = str(rng.choice(list(choices)))
        if flag in new and rng.random() < 0.8:
            new[new.index(flag) + 1] = value
        else:
            new += [flag, value]
        if flag in ENDLESS:  # who asks for a long run gets one; it must end when its time is over
            new += ["--seconds", "0.2"] if words[0] in ("run", "compare") else []
    if ends or not rng.random() < 0.35:
        return new
    kind, first = rng.randrange(4), 1 + (words[0] == "deploy")
    if kind == 0 and len(new) > first:
        del new[rng.randrange(first, len(new))]
    elif kind == 1:
        new.insert(rng.randrange(first, len(new) + 1), rng.choice(WORDS))
    elif kind == 2 and len(words) > first:
        new[rng.randrange(first, len(words))] = rng.choice((*WORDS, *PLACES))
    else:
        new[0] = rng.choice([new[0] + "x", new[0].upper(), ""])
    if "--times" in words and not ("--times" in new and new[new.index("--times") + 1 :][:1] == ["2"]):
        new += ["--times", "2"]  # who watches for ever hangs by design
    return new


def attack(ground: Ground, folder: Path, rng: random.Random) -> tuple[Verdict, str]:
    """One command, perhaps a second time over what it wrote."""
    kept = sandbox(folder)
    for name in ("project", "silo"):
        shutil.copytree(ground[name], folder / name)
    words = altered(*rng.choice(list(templates(ground).items())), rng)
    before = os.getcwd()
    os.chdir(folder)
    try:
        if rng.random() < 0.15 and words[0] in ("run", "compare"):  # something is there already
            shutil.copytree(ground["run" if words[0] == "run" else "comparison"], "out")
        verdict = of_command(command(*words))
    finally:
        os.chdir(before)
    if verdict.kind in (ACCEPTED, REFUSED):
        fault = half_written(folder) or ("" if "--force" in words and "mine.txt" in words else kept.lost())
        if fault:
            verdict = Verdict("half-written", fault)
    return verdict, "dualfl " + " ".join(word if len(word) < 60 else word[:57] + "..." for word in words)
