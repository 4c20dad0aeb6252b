"""Draws exchanges.png: how many exchanges each method needs until its model is proven to be within 1e-4 of the best.

    python docs/images/exchanges.py          # runs every method, some minutes, and keeps results/exchanges.csv
    python docs/images/exchanges.py --draw   # only draws

Logistic regression on scikit-learn's breast cancer set, cut among 8 silos that are not alike (Dirichlet 0.5), with a
ridge of 0.01, and defaults from theory. A method stops when its own certificate proves it, or after 500 exchanges.
"""

from __future__ import annotations

import csv
import sys
import textwrap
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import dualfl
from dualfl.algorithms.registry import ALGORITHMS
from dualfl.colours import style_of
from dualfl.errors import DualflError

TOL, MOST = 1e-4, 500
KEPT = Path(__file__).parents[2] / "results" / "exchanges.csv"
HEAD = ("algorithm", "proven", "reached", "drifts")
WORDS = {"auto": "auto (default)"}


def measure() -> list[dict[str, str]]:
    """For every method the exchanges until it is proven, and until it is true."""
    problem = dualfl.make_problem("breast_cancer", clients=8, partition="dirichlet:0.5", ridge=1e-2)
    minimum = dualfl.reference(problem)
    rows = []
    for name, kind in ALGORITHMS.own.items():
        try:
            result = dualfl.run(
                problem,
                kind(),
                rounds=MOST,
                reference=minimum,
                stop=lambda row, theta: is_proven(row) or row.exchanges >= MOST,
            )
        except DualflError as error:
            print(f"{name}: {error}", flush=True)
            continue
        proven = next((row.exchanges for row in result.history if is_proven(row)), "")
        reached = next((row.exchanges for row in result.history if row.relative_error <= TOL), "")
        rows.append(dict(zip(HEAD, (name, str(proven), str(reached), str(int(kind.drifts))))))
        print(rows[-1], flush=True)
    return rows


def is_proven(row: dualfl.engines.Row) -> bool:
    return row.certificate is not None and row.certificate <= TOL * abs(row.energy)


def draw(rows: list[dict[str, str]], path: Path) -> None:
    proven = sorted((int(row["proven"]), row["algorithm"]) for row in rows if row["proven"])
    only_true = sorted((int(row["reached"]), row["algorithm"]) for row in rows if row["reached"] and not row["proven"])
    never = sorted(row["algorithm"] for row in rows if not row["reached"] and not row["proven"])
    columns = ("Proven by the method itself", proven), ("Reached, but not proven", only_true)
    figure, axes = plt.subplots(1, 2, figsize=(7.6, 6.2), layout="constrained", sharex=True)
    for panel, (title, part) in zip(axes, columns):
        places = range(len(part))
        colours = [highlighted(name) if part is proven else "#c9c9c9" for _, name in part]
        panel.barh(places, [count for count, _ in part], color=colours, height=0.72)
        for place, (count, _) in zip(places, part):
            panel.text(count * 1.1, place, str(count), va="center", fontsize=10)
        panel.set(xscale="log", xlim=(1, 2000), ylim=(max(len(proven), len(only_true)) - 0.4, -0.6))
        panel.set_title(title, fontsize=11, loc="left")
        panel.set_yticks(places, [WORDS.get(name, name) for _, name in part], fontsize=10)
        panel.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1000"], fontsize=10)
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(length=0)
    figure.suptitle("Exchanges until the model is within 0.01 % of the best one", fontsize=13)
    words = textwrap.fill(f"Not reached within {MOST} exchanges: {', '.join(never)}.", 98)
    figure.supxlabel(words, fontsize=9.5, ha="left", x=0.01)
    figure.savefig(path, dpi=150)


def highlighted(name: str) -> str:
    return style_of(name).colour if name in ("auto", "dualfl") else "#8fb8d6"


def main(words: list[str]) -> None:
    if "--draw" not in words:
        rows = measure()
        with open(KEPT, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, HEAD, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    with open(KEPT, newline="", encoding="utf-8") as file:
        draw(list(csv.DictReader(file)), Path(__file__).with_name("exchanges.png"))


if __name__ == "__main__":
    main(sys.argv[1:])
