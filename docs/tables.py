"""Writes the tables of the documents anew, each by one command: `make refresh`.

    python docs/tables.py            # all tables that take less than a minute
    python docs/tables.py NAME ...   # these
    python docs/tables.py --check    # changes nothing; exit code 1 if a document is not what its commands print

A table stands in a document between two comments, `<!-- table NAME -->` and `<!-- end NAME -->`. What needs longer than
a minute is measured by the command that the document names, into a file of results/, and the table is made of that.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
BLOCK = r"(<!-- table {name} -->\n)(.*?)(<!-- end {name} -->)"
# In the order in which a reader meets them, and what is to be said of some members.
GROUPS = {
    "dual": "",
    "few_exchanges": "; see [auto](auto.md)",
    "splitting": "",
    "proxskip": "",
    "primal_dual": "",
    "local_steps": ": they drift by design",
    "gradient_shift": "",
    "similarity": "",
    "second_order": "",
    "server": ": the clients only send gradients",
}


def groups() -> str:
    """The packages of `algorithms`, and who is in them."""
    from dualfl.algorithms.registry import ALGORITHMS

    members: dict[str, list[str]] = {}
    for name, algorithm in ALGORITHMS.own.items():
        members.setdefault(algorithm.__module__.split(".")[2], []).append(name)
    if set(members) != set(GROUPS):
        raise SystemExit(f"docs/tables.py: GROUPS has {sorted(GROUPS)}, and there are {sorted(members)}.")
    lines = [f"| `{group}` | {', '.join(members[group])}{note} |" for group, note in GROUPS.items()]
    return "\n".join(["| group | members |", "|---|---|", *lines]) + "\n"


def papers() -> str:
    """Every algorithm with the paper that it is from, as its card has it."""
    from dualfl.algorithms.registry import ALGORITHMS

    lines = ["| algorithm | name in its paper | authors | year | paper |", "|---|---|---|---|---|"]
    for name, algorithm in ALGORITHMS.own.items():
        card = algorithm.card
        shown = card.paper if card.paper.startswith(("arXiv:", "doi:")) else "page"
        link = f"[{shown}]({card.link})" if card.link else ""
        lines.append(f"| `{name}` | {card.title} | {card.reference} | {card.year} | {link} |")
    return "\n".join(lines) + "\n"


def verdicts() -> str:
    """results/algorithms-check.txt as one line an algorithm."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in (RESULTS / "algorithms-check.txt").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if len(words) > 4 and words[1] in ("quadratic", "logistic", "hinge"):
            found.setdefault(words[0], {})[words[1]] = words[2:]
    heads = ["algorithm", "quadratic: rounds", "exchanges", "logistic: rounds", "exchanges", "verdict"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for name, by_problem in found.items():
        cells = [cell for problem in ("quadratic", "logistic") for cell in counts(by_problem.get(problem, []))]
        ends = {" ".join(words[3:]) for words in by_problem.values() if words[0] != "does"}
        lines.append(f"| {name} | {' | '.join(cells)} | {', '.join(sorted(ends)) or 'not on smooth costs'} |")
    return "\n".join(lines) + "\n"


def counts(words: list[str]) -> list[str]:
    """Rounds and exchanges to 1e-8, or what there is instead."""
    if not words or words[0] == "does":
        return ["does not apply", ""]
    rounds, exchanges, smallest, *_ = words
    return [f"stays above {smallest}", ""] if rounds == "-" else [rounds, exchanges]


def measures() -> str:
    """What is counted, as the page and `compare` call it."""
    from dualfl.report.sections import WORDS

    return "\n".join(["| measure | counts |", "|---|---|", *(f"| {a} | {b} |" for a, b in WORDS.values())]) + "\n"


def network() -> str:
    """results/network/log.txt, what the command says of each run, as medians over the seeds; lowest energy first."""
    found: dict[str, list[list[float]]] = {}
    for line in (RESULTS / "network" / "log.txt").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if "energy" in words:
            after = {name: words[words.index(name) + 1] for name in ("times", "energy", "|E'|", "accuracy")}
            found.setdefault(words[0], []).append([float(word.rstrip("%")) for word in after.values()])
    middle = {name: [median(column) for column in zip(*rows)] for name, rows in found.items()}
    heads = ["algorithm", "energy", "gradient", "accuracy", "factor of L"]
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    for name, (factor, energy, length, accuracy) in sorted(middle.items(), key=lambda item: item[1][1]):
        lines.append(f"| {name} | {energy:.4f} | {length:.1e} | {accuracy:.1f}% | {factor:g} |")
    return "\n".join(lines) + "\n"


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "groups": ("docs/algorithms.md", groups),
    "papers": ("docs/algorithms.md", papers),
    "verdicts": ("docs/algorithms.md", verdicts),
    "measures": ("docs/algorithms.md", measures),
    "network": ("docs/experiments.md", network),
}


def refreshed(text: str, name: str, table: str) -> str:
    """The document with this table in it."""
    block = re.compile(BLOCK.format(name=name), re.DOTALL)
    if not block.search(text):
        raise SystemExit(f"docs/tables.py: there is no table {name} in {TABLES[name][0]}.")
    return block.sub(lambda found: found[1] + table + found[3], text)


def main(words: list[str]) -> int:
    only_check = "--check" in words
    names = [word for word in words if word != "--check"] or list(TABLES)
    for name in names:
        if name not in TABLES:
            raise SystemExit(f"docs/tables.py: there is no table {name}; there are {', '.join(TABLES)}.")
    stale = 0
    for name in names:
        path = ROOT / TABLES[name][0]
        before = path.read_text(encoding="utf-8")
        after = refreshed(before, name, TABLES[name][1]())
        stale += after != before
        if not only_check:
            path.write_text(after, encoding="utf-8")
        state = "as it was" if after == before else "is stale" if only_check else "written anew"
        print(f"{TABLES[name][0]}: {name} {state}")
    return 1 if only_check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
