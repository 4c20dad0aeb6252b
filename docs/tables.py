"""Writes the tables of the documents anew, each by one command: `make refresh`.

    python docs/tables.py            # all tables that take less than a minute
    python docs/tables.py NAME ...   # these
    python docs/tables.py --check    # changes nothing; exit code 1 if a document is not what its commands print

A table stands in a document between two comments, `<!-- table NAME -->` and `<!-- end NAME -->`. What needs longer than
a minute is measured by the command that the document names, into a file of results/, and the table is made of that.
"""

from __future__ import annotations

import csv
import itertools
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

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


def printed(file: str, head: str) -> list[list[str]]:
    """The cells of a table of results/, found by how the line of its heads begins."""
    lines = (RESULTS / file).read_text(encoding="utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(head))
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[first + 2 :])
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def in_markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines).replace(" --- ", "---") + "\n"


# -- what `benchmarks.auto` and `benchmarks.auto_nonsmooth` have printed ----------------------------------

SMOOTH = {
    "digits": "softmax, digits",
    "a8a": "logistic, a8a",
    "mnist": "softmax, MNIST, 20,000 rows",
    "cifar10": "softmax, CIFAR-10, 50,000 rows",
}
SHORT = {"digits": "digits", "a8a": "a8a", "mnist": "MNIST", "cifar10": "CIFAR-10"}
SPLITS = {
    "even": "even",
    "dirichlet:0.5": "Dirichlet 0.5",
    "dirichlet:0.1": "Dirichlet 0.1",
    "label": "one label",
    "quantity:1000": "sizes 1000 : 1",
}


def auto_exchanges() -> str:
    """results/auto.md by data and mu: exchanges to 1e-6, and until that is certified."""
    found = {
        (data, mu, split): f"{true.split('/')[1]} / {proven.split('/')[1]}"
        for data, split, mu, _, true, proven, *_ in printed("auto.md", "| data | partition |")
    }
    rows = [
        [name, mu, *(found.get((data, mu, split), "not run") for split in SPLITS)]
        for data, name in SMOOTH.items()
        for mu in dict.fromkeys(mu for other, mu, _ in found if other == data)
    ]
    return in_markdown(["data", "mu", *SPLITS.values()], rows)


def auto_looseness() -> str:
    rows = [[SHORT[data], mu, ratio, lag] for data, mu, _, ratio, lag in printed("auto.md", "| data | mu | runs |")]
    return in_markdown(["data", "mu", "ratio: 10, 50, 90 %", "lag: median, most"], rows)


def nonsmooth_exchanges() -> str:
    """results/auto-nonsmooth.md by problem: exchanges to 1e-6, and in brackets until that is certified."""
    found: dict[tuple[str, str], dict[str, list[str]]] = {}
    for problem, ridge, _, method, to, proven, *_ in printed("auto-nonsmooth.md", "| problem | ridge |"):
        own = found.setdefault((problem, method), {})
        own.setdefault(ridge, []).append(f"{to.split('/')[-1]} ({proven})")
    rows = [
        [problem, method, *(everywhere(own[ridge]) for ridge in ("0.01", "0.0001"))]
        for (problem, method), own in found.items()
    ]
    return in_markdown(["problem", "method", "ridge 1e-2", "ridge 1e-4"], rows)


def everywhere(cells: list[str]) -> str:
    return f"{cells[0]} everywhere" if len(set(cells)) == 1 else ", ".join(cells)


def nonsmooth_looseness() -> str:
    rows = printed("auto-nonsmooth.md", "| certificate |")
    return in_markdown(["method, ridge", "ratio: 10/50/90 %", "lag: median, most"], rows)


# -- the paper's claims, as `dualfl reproduce figure1` judged them ----------------------------------------


def claims(dataset: str) -> str:
    with (RESULTS / f"figure1-{dataset}" / "verdicts.csv").open(encoding="utf-8", newline="") as file:
        rows = [[line["claim"], line["verdict"], line["finding"]] for line in csv.DictReader(file)]
    return in_markdown(["claim", "verdict", "measured"], rows)


# -- what `dualfl reproduce matrix` and `network` have written --------------------------------------------


def matrix(file: str, head: str, folder: str = "matrix-small") -> str:
    """A table of an experiment's own files, as it stands there."""
    lines = (RESULTS / folder / file).read_text(encoding="utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(head))
    return "\n".join(itertools.takewhile(lambda line: line.startswith("|"), lines[first:])) + "\n"


def unfinished() -> str:
    """The rows of the matrix that have not been run to their end, by task and mu."""
    text = (RESULTS / "matrix-small" / "unfinished.md").read_text(encoding="utf-8")
    open_rows = Counter((task, mu) for task, mu in re.findall(r"\(`([^/`]+)/[^`]*/([^/`]+)`\)", text))
    parts = [f"{task} with mu = {mu} ({count} row{'s'[: count - 1]})" for (task, mu), count in open_rows.items()]
    return f"Not finished: {', '.join(parts) or 'nothing'}.\n"


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "groups": ("docs/algorithms.md", groups),
    "papers": ("docs/algorithms.md", papers),
    "verdicts": ("docs/algorithms.md", verdicts),
    "measures": ("docs/algorithms.md", measures),
    "claims-mnist": ("docs/experiments.md", partial(claims, "mnist")),
    "claims-cifar10": ("docs/experiments.md", partial(claims, "cifar10")),
    "network": ("docs/experiments.md", partial(matrix, "network.md", "| clients | algorithm", "network")),
    "network-100": ("docs/experiments.md", partial(matrix, "network.md", "| clients | algorithm", "network-100")),
    "matrix-places": ("docs/experiments.md", partial(matrix, "matrix.md", "| problem | place of dualfl")),
    "matrix-auto": ("docs/experiments.md", partial(matrix, "auto.md", "| problem | auto")),
    "matrix-networks": ("docs/experiments.md", partial(matrix, "auto.md", "| network |")),
    "matrix-whole": (
        "docs/experiments.md",
        partial(matrix, "matrix.md", "| problem | place of dualfl", "matrix-whole"),
    ),
    "matrix-unfinished": ("docs/experiments.md", unfinished),
    "auto-exchanges": ("docs/auto.md", auto_exchanges),
    "auto-looseness": ("docs/auto.md", auto_looseness),
    "nonsmooth-exchanges": ("docs/auto-nonsmooth.md", nonsmooth_exchanges),
    "nonsmooth-looseness": ("docs/auto-nonsmooth.md", nonsmooth_looseness),
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
