"""Known traps, each seen once to fool the library in silence, hang it or crash it. One line of the table each.

A trap is a function of the ground and an empty folder. It returns "" if what is expected happens, and what happens
instead if not.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dualfl
from benchmarks.fuzz.ground import Ground, command
from benchmarks.fuzz.judging import Keepsakes, half_written
from dualfl.errors import DualflError
from dualfl.estimators import RidgeCV
from dualfl.experiments.tune import read_best

Act = Callable[[Ground, Path], str]
FIT = ("--model", "logistic", "--no-influence", "--no-report")


class Trap(NamedTuple):
    name: str
    expected: str
    act: Act


# -- how traps are sprung ---------------------------------------------------------------------------------


def refused(*words: Any, says: str = "") -> str:
    """A command that must end with one sentence."""
    done = command(*words)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return f"traceback: {done.exception!r:.120}"
    if done.exit_code == 0:
        return "it was accepted"
    return "" if says in done.stderr else f"it said: {done.stderr.strip()[-160:]}"


def untouched(folder: Path, *words: Any, says: str = "") -> str:
    """The same, and nothing below the folder has changed."""
    kept, before = Keepsakes(folder), sorted(folder.rglob("*"))
    return (
        refused(*words, says=says)
        or kept.lost()
        or ("" if sorted(folder.rglob("*")) == before else "it wrote something")
    )


def raises(call: Callable[[], Any]) -> str:
    try:
        call()
    except DualflError:
        return ""
    except Exception as error:
        return f"traceback: {error!r:.120}"
    return "it was accepted"


def tables(folder: Path, *texts: str) -> list[Path]:
    paths = [folder / f"{name}.csv" for name in "abcd"[: len(texts)]]
    for path, text in zip(paths, texts):
        path.write_text(text, encoding="utf-8")
    return paths


def rows(n: int, cells: Callable[[int], str], head: str) -> str:
    return head + "\n" + "".join(cells(i) + "\n" for i in range(n))


def sick(i: int) -> str:
    return "yes" if (i * 7) % 11 < 5 else "no"


def fitted(folder: Path, paths: list[Path], *more: Any, target: str = "sick") -> tuple[str, dict[str, Any]]:
    """What is wrong, or "", and the model."""
    done = command("fit", *paths, "--target", target, *FIT, *more, "--out", folder / "m")
    if done.exit_code:
        return f"refused: {done.stderr.strip()[-160:]}", {}
    return "", json.loads((folder / "m" / "model.json").read_text())


def refused_or_numbers(folder: Path, cell: str) -> str:
    """A column of numbers with one odd entry is refused by it, or stays a column of numbers."""
    text = rows(60, lambda i: f"{cell if i == 17 else 20 + i},{i % 5},{sick(i)}", "age,dose,sick")
    fault, model = fitted(folder, tables(folder, text))
    if fault:
        return "" if repr(cell) in fault or "'age'" in fault else f"refused for another reason: {fault}"
    names = model["columns"]
    return "" if len(names) == 2 else f"one entry {cell!r} made {len(names)} columns of two"


# -- B: tables --------------------------------------------------------------------------------------------


def stray_quote(ground: Ground, folder: Path) -> str:
    lines = [f"{i},{sick(i)},{chr(34) if i in (30, 70) else ''}w{i % 3}" for i in range(120)]
    path = folder / "a.csv"
    path.write_text("x,sick,ward\n" + "\n".join(lines) + "\n")
    fault, model = fitted(folder, [path])
    if fault:
        return "" if fault.startswith("refused") else fault
    found = sum(model["rows"].values())
    return "" if found == 120 else f"{120 - found} of 120 rows vanished"


def odd_number(cell: str) -> Act:
    return lambda ground, folder: refused_or_numbers(folder, cell)


def decimal_commas(ground: Ground, folder: Path) -> str:
    text = rows(60, lambda i: f"{i // 7},{i % 7};{i % 5};{sick(i)}", "age;dose;sick")
    fault, model = fitted(folder, tables(folder, text))
    if fault:
        return "" if fault.startswith("refused") else fault
    return "" if len(model["columns"]) == 2 else f"decimal commas made {len(model['columns'])} columns of two"


def numbers_with_a_unit(unit: str) -> Act:
    def act(ground: Ground, folder: Path) -> str:
        text = rows(60, lambda i: f"{i % 17}{unit},{i % 5},{sick(i)}", "dose,age,sick")
        fault, model = fitted(folder, tables(folder, text))
        if fault:
            return "" if fault.startswith("refused") else fault
        return "" if len(model["columns"]) == 2 else f"numbers with a unit made {len(model['columns'])} columns of two"

    return act


def curves_tell_of_gaps(ground: Ground, folder: Path) -> str:
    path = folder / "s.csv"
    path.write_text(ground["s.csv"].read_text() + ",1,old\n7,,new\n")
    done = command("km", path, "--time", "days", "--event", "died")
    return "" if "2 rows without an entry" in done.output else "rows with gaps were left out without a word"


def codes_in_two_files(ground: Ground, folder: Path) -> str:
    first = rows(40, lambda i: f"0{1 + i % 3},{i % 7},{sick(i)}", "ward,x,sick")
    second = rows(40, lambda i: f"{1 + i % 3},{i % 7},{sick(i + 3)}", "ward,x,sick")
    fault, model = fitted(folder, tables(folder, first, second), "--categorical", "ward")
    if fault:
        return "" if fault.startswith("refused") else fault
    levels = {name for name in model["columns"] if name.startswith("ward")}
    return "" if len(levels) <= 2 else f"01 and 1 became two levels: {sorted(levels)}"


def same_text(one: str, other: str) -> Act:
    """Two ways to write one level."""

    def act(ground: Ground, folder: Path) -> str:
        first = rows(40, lambda i: f"{one if i % 2 else 'b'},{i % 7},{sick(i)}", "ward,x,sick")
        second = rows(40, lambda i: f"{other if i % 2 else 'b'},{i % 7},{sick(i + 3)}", "ward,x,sick")
        fault, model = fitted(folder, tables(folder, first, second))
        if fault:
            return "" if fault.startswith("refused") else fault
        levels = {name for name in model["columns"] if name.startswith("ward")}
        return "" if len(levels) == 1 else f"one level became {len(levels) + 1 - 1}"

    return act


def copied_file(ground: Ground, folder: Path) -> str:
    text = ground["a.csv"].read_text()
    return refused("fit", *tables(folder, text, text), "--target", "sick", *FIT, "--out", folder / "m")


def long_integers(ground: Ground, folder: Path) -> str:
    base = 2**53
    text = rows(60, lambda i: f"{base + i % 2},{i % 5},{sick(i)}", "code,x,sick")
    fault, model = fitted(folder, tables(folder, text), "--categorical", "code")
    if fault:
        return "" if fault.startswith("refused") else fault
    return "" if any(name.startswith("code") for name in model["columns"]) else "two codes above 2^53 became one"


def names_that_collide(head: str) -> Act:
    def act(ground: Ground, folder: Path) -> str:
        text = rows(60, lambda i: f"{i % 7},{'ab'[i % 2]},{(i * 3) % 5},{sick(i)}", head)
        fault, model = fitted(folder, tables(folder, text))
        if fault:
            return "" if fault.startswith("refused") else fault
        names = [*model["columns"], "(intercept)"]
        return "" if len(set(names)) == len(names) else f"two columns are called {names}"

    return act


def filled_gaps_are_told(ground: Ground, folder: Path) -> str:
    text = ground["a.csv"].read_text().splitlines()
    text[1] = ",".join(["", *text[1].split(",")[1:]])
    (path,) = tables(folder, "\n".join(text) + "\n")
    done = command("predict", ground["model"], path, "--out", folder / "p.csv")
    return (
        "" if done.exit_code or "1 " in done.output.replace("36 rows", "") else f"it said only: {done.output.strip()}"
    )


def bytes_are_numbers(ground: Ground, folder: Path) -> str:
    X = np.random.default_rng(0).integers(0, 90, (40, 3))
    np.savez(folder / "a.npz", X=X.astype(np.uint8), y=np.arange(40) % 2)
    found = dualfl.load(folder / "a.npz")
    return "" if abs(float(found.X.std()) - 1) < 0.1 and found.scale == 1.0 else f"scale {found.scale}"


def cut_libsvm(ground: Ground, folder: Path) -> str:
    (folder / "a.libsvm").write_bytes(ground["data.libsvm"].read_bytes()[:-3])
    return raises(lambda: dualfl.load(folder / "a.libsvm"))


def edited_model(change: Callable[[dict[str, Any]], Any]) -> Act:
    def act(ground: Ground, folder: Path) -> str:
        content = json.loads(ground["model"].joinpath("model.json").read_text())
        change(content)
        (folder / "model.json").write_text(json.dumps(content))
        return refused("predict", folder, ground["a.csv"], says="fit the model again")

    return act


def formulas(ground: Ground, folder: Path) -> str:
    names = ["=1+1", "@SUM(1)", "+cmd", "-2"]
    text = rows(80, lambda i: f'{i},"{names[i % 4]}"', "x,y")
    done = command(
        *("fit", *tables(folder, text), "--target", "y", "--model", "multinomial", "--alpha", 1, "--no-influence"),
        *("--no-report", "--out", folder / "m"),
    )
    done = done if done.exit_code else command("predict", folder / "m", folder / "a.csv", "--out", folder / "p.csv")
    if done.exit_code:
        return f"refused: {done.stderr.strip()[-160:]}"
    with open(folder / "p.csv", newline="") as file:
        cells = [cell for line in csv.reader(file) for cell in line if cell.startswith(("=", "+", "-", "@"))]
    odd = [
        cell for cell in cells if not cell.lstrip("+-").replace(".", "").replace("e", "").isalnum() or cell == "+cmd"
    ]
    return f"a cell is {odd[0]!r}" if odd else ""


# -- C: commands and processes ----------------------------------------------------------------------------


def one_lock(ground: Ground, folder: Path) -> str:
    from dualfl.outputs import alone

    with alone(folder / "out"):
        words = ("run", "--dataset", "iris", "--clients", 3, "--rounds", 2, "--force", "--out", folder / "out")
        return refused(*words, says="Another process is writing")


def fork_beside_a_fit(ground: Ground, folder: Path) -> str:
    """Children that fit, made while a thread of their parent does: it may hold a lock that they inherit."""
    if not hasattr(os, "fork"):
        return ""
    over, rng = threading.Event(), np.random.default_rng(0)

    def least_squares(n: int, d: int) -> Any:
        return dualfl.LinearModel(rng.normal(size=(n, d)), np.ones(n), dualfl.Squared(), 0.1)

    def fit_on() -> None:
        while not over.is_set():
            dualfl.minimise(least_squares(300, 200))

    small = least_squares(20, 3)
    busy = threading.Thread(target=fit_on)
    busy.start()
    try:
        ends = [_child(lambda: dualfl.minimise(small)) for _ in range(4) if not over.wait(0.05)]
    finally:
        over.set()
        busy.join()
    return "" if ends == [0] * 4 else f"{sum(end != 0 for end in ends)} of 4 children hung"


def _child(work: Callable[[], Any]) -> int:
    """How a child ended that did this work."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks beside threads; that is the case
        child = os.fork()
    if child == 0:
        signal.alarm(20)  # a deadlock ends the child, and its parent sees it
        work()
        os._exit(0)
    return os.waitpid(child, 0)[1]


def small_run(**options: Any) -> Callable[[], Any]:
    problem = dualfl.Problem([dualfl.Quadratic(np.eye(2), b) for b in np.eye(2)])
    return lambda: dualfl.run(problem, dualfl.DualFL(), **options)


def too_many_folds(ground: Ground, folder: Path) -> str:
    X = np.random.default_rng(0).normal(size=(20, 2))
    return raises(lambda: RidgeCV(alphas=[0.1, 1.0], cv=10**9).fit(X, X[:, 0]))


def folder_named_as_a_page(ground: Ground, folder: Path) -> str:
    shutil.copytree(ground["model"], folder / "m")
    (folder / "m" / "report.html").mkdir()
    (folder / "m" / "report.html" / "mine").write_text("mine")
    words = ("fit", ground["a.csv"], ground["b.csv"], "--target", "sick", *FIT, "--force", "--out", folder / "m")
    return untouched(folder, *words)


def no_place(*words: Any) -> Act:
    """A command whose --out is no place; it must say so before it computes, and write nothing."""
    return lambda ground, folder: untouched(folder, *words)


def run_refused(*words: Any) -> Act:
    small = ("run", "--dataset", "iris", "--clients", 3, "--rounds", 2, "--no-reference", "--no-report")
    return lambda ground, folder: untouched(folder, *small, *words, "--out", folder / "out")


def whole_or_refused(*words: Any) -> Act:
    def act(ground: Ground, folder: Path) -> str:
        done = command(*words, "--out", folder / "out")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            return f"traceback: {done.exception!r:.120}"
        return half_written(folder)

    return act


def loop_of_links(ground: Ground, folder: Path) -> str:
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    words = ("fit", ground["a.csv"], "--target", "sick", *FIT, "--out", folder / "a")
    small = ("run", "--dataset", "iris", "--rounds", 1, "--out", folder / "a" / "x")
    read = refused("fit", folder / "a", ground["b.csv"], "--target", "sick", *FIT, "--out", folder / "m")
    return read or refused(*words) or refused(*small) or refused("report", folder / "a")


def large_index(ground: Ground, folder: Path) -> str:
    (folder / "a.libsvm").write_text("1 1:1 2147483647:1\n-1 2:1\n")
    return raises(lambda: dualfl.load(folder / "a.libsvm"))


def leaves_its_folder(ground: Ground, folder: Path) -> str:
    from dualfl.deploy.runs import checked_name

    return raises(lambda: checked_name("../../x"))


def contradiction(*words: Any) -> Act:
    def act(ground: Ground, folder: Path) -> str:
        places = {"DATA": ground["a.csv"], "OUT": folder / "out"}
        return untouched(folder, *(places.get(str(word), word) for word in words))

    return act


JOIN = ("deploy", "join", "OUT", "--name", "a", "--data", "DATA", "--target", "sick", "--insecure")
INIT = ("deploy", "init", "OUT", "--silos", "a,b,c", "--host", "h")

TRAPS = (
    Trap("stray quote", "refused by file and row, or all rows kept", stray_quote),
    *(
        Trap(f"one entry {cell!r} in a column of numbers", "refused, or a number", odd_number(cell))
        for cell in ("5O", "<40", "12 mg", "1 234", "?", ".", "unknown", "#N/A", "Total")
    ),
    Trap("decimal commas", "refused, or numbers", decimal_commas),
    Trap("01 in one file, 1 in another", "one code, or refused", codes_in_two_files),
    Trap("composed and decomposed letters", "one level", same_text("é", "e\u0301")),
    Trap("zero-width character", "one level", same_text("ward", "wa\u200brd")),
    Trap("blanks around a text", "one level", same_text("ward", " ward ")),
    Trap("true and TRUE", "one level", same_text("true", "TRUE")),
    Trap("a file and its copy", "refused", copied_file),
    Trap("codes above 2^53", "two levels, or refused", long_integers),
    Trap("a column called (intercept)", "no two columns of one name", names_that_collide("(intercept),g,y,sick")),
    Trap("a column called g=b", "no two columns of one name", names_that_collide("g=b,g,y,sick")),
    Trap("gaps that predict fills", "their number is told", filled_gaps_are_told),
    Trap("bytes in an .npz table", "numbers, not pixels", bytes_are_numbers),
    Trap("LIBSVM cut inside a number", "refused", cut_libsvm),
    Trap("null coefficient", "refused", edited_model(lambda m: m["coefficients"][0].__setitem__(0, None))),
    Trap("reordered features", "refused", edited_model(lambda m: m["schema"]["features"].reverse())),
    Trap("reordered coefficients", "refused", edited_model(lambda m: m["coefficients"][0].reverse())),
    Trap("digest removed", "refused", edited_model(lambda m: m.pop("digest"))),
    Trap("classes that are formulas", "no cell is one", formulas),
    Trap("two processes on one folder", "the second is refused", one_lock),
    Trap("fork beside a fit", "the child goes on", fork_beside_a_fit),
    Trap("rounds = nan", "refused", lambda ground, folder: raises(small_run(rounds=float("nan")))),
    Trap("rounds = inf", "refused", lambda ground, folder: raises(small_run(rounds=float("inf")))),
    Trap("cv = 10**9", "refused", too_many_folds),
    Trap("--cv of twenty digits", "refused", contradiction("fit", "DATA", "--target", "sick", *FIT, "--cv", "9" * 20)),
    Trap("--bins 100000000", "refused", lambda g, f: refused("evaluate", g["model"], g["a.csv"], "--bins", 10**8)),
    Trap("report --out on a device", "refused", lambda g, f: refused("report", g["run"], "--out", "/dev/zero")),
    Trap("a device as a data file", "refused", lambda g, f: refused("evaluate", g["model"], g["a.csv"], "/dev/zero")),
    Trap("a device as a data set", "refused", lambda g, f: raises(lambda: dualfl.load("/dev/zero"))),
    Trap("a device as a card", "refused", lambda g, f: refused("deploy", "admit", g["project"], "/dev/zero")),
    Trap("a device as a roster", "refused", lambda g, f: refused("deploy", "trust", g["silo"], "/dev/zero")),
    Trap("a device as tuned values", "refused", lambda g, f: raises(lambda: read_best(Path("/dev/zero")))),
    Trap("run --out /", "refused", no_place("run", "--dataset", "iris", "--rounds", 1, "--out", "/")),
    Trap("compare into /proc", "refused first", no_place("compare", "--rounds", 10**7, "--out", "/proc/x")),
    Trap("deploy run --name ../../x", "refused", leaves_its_folder),
    Trap("fit --force over a folder named report.html", "refused", folder_named_as_a_page),
    Trap("--set name=x", "refused", run_refused("--set", "name=x")),
    Trap("--set rho=[1]", "refused", run_refused("--set", "rho=[1]")),
    Trap("--codec top:²", "refused", run_refused("--codec", "top:²")),
    Trap("links that point at each other", "refused", loop_of_links),
    Trap("LIBSVM index 2147483647", "refused", large_index),
    Trap(
        "compare --rounds 0", "whole", whole_or_refused("compare", "--dataset", "iris", "--clients", 3, "--rounds", 0)
    ),
    Trap("run --nu 1e-308", "whole", whole_or_refused("run", "--dataset", "iris", "--nu", "1e-308", "--rounds", 3)),
    Trap("join, port 99999", "refused", contradiction(*JOIN, "--coordinator", "h:99999")),
    Trap("join, insecure and secure-only", "refused", contradiction(*JOIN, "--coordinator", "h:1", "--secure-only")),
    Trap("init, logistic regression", "refused", contradiction(*INIT, "--loss", "logistic", "--task", "regression")),
    Trap(
        "fit, drop and categorical",
        "refused",
        contradiction(
            *("fit", "DATA", "--target", "sick", *FIT, "--drop", "age", "--categorical", "age", "--out", "OUT"),
        ),
    ),
    *(Trap(f"numbers with {unit!r} in every row", "refused", numbers_with_a_unit(unit)) for unit in (" mg", "%", "€")),
    Trap("partition of NaN", "refused", lambda g, f: raises(lambda: dualfl.data.partition("even", float("nan"), 2))),
    Trap("stop = int", "refused", lambda g, f: raises(small_run(stop=int))),
    Trap("km, rows with gaps", "their number is told", curves_tell_of_gaps),
)
