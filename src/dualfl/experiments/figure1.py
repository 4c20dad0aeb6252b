"""Figure 1 of the paper: which cells it is made of, and what its claims come to.

For each data set four panels; the letters are those of the paper, whose first row is MNIST and second CIFAR-10:

    benchmarks   (a, d)  DualFL and seven benchmarks, N = 8, our tuned values, pixels in [0, 1]
    paper        (a, d)  the same with the values of the paper's Table 2, on raw pixels: the paper does not say how it
                         scales them, and its values are those of no other scale that we could find
    clients      (b, e)  DualFL for N = 2, 4, ..., 1024
    rho          (c, f)  DualFL for momentum parameters from 0 to 0.1

Rounds are counted by what is exchanged: a method that needs an exchange before its first round, as FedDR does, has
had one round then. Softmax with ridge 1e-2, rows evenly split in file order. Local problems are solved to 1e-12: by the
paper's AOGM for `benchmarks` on MNIST, and for the first round of DualFL on CIFAR-10, where it takes thousands of
gradients; by our solver elsewhere, which gives the same curves. FedAvg, FedCM and FedSAM, which the paper ran and did
not draw, are run for the claim about them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from dualfl.algorithms.registry import algorithm_class
from dualfl.errors import InputError
from dualfl.experiments import claims
from dualfl.experiments.cells import Cell, Outcome, check_minutes
from dualfl.experiments.claims import Verdict
from dualfl.experiments.store import Store
from dualfl.experiments.table2 import PAPER
from dualfl.names import nearest
from dualfl.typing import Array

BENCHMARKS = ("dualfl", "fedpd", "feddr", "feddualavg", "feddyn", "scaffnew", "apda-inexact", "5gcs")
PRIMAL = ("fedavg", "fedcm", "fedsam")
RANDOM = ("scaffnew",)  # the only one here whose curve depends on the seed
CLIENTS = tuple(2**k for k in range(1, 11))
RHOS = (0.0, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
N = 8
LETTERS = {"mnist": "abc", "cifar10": "def", "digits": "abc"}
PANELS = ("benchmarks", "paper", "clients", "rho")
QUICK_ROWS = 4_000
CUT = "cut at round"
CHECK, CHECKED = "dualfl, the paper's AOGM", 1  # DualFL once more with the paper's solver, for so many rounds


def setting(dataset: str) -> dict[str, Any]:
    """The problem of `benchmarks`, for which hyperparameters are tuned."""
    basis = Cell(dataset, "", clients=N)
    names = ("dataset", "clients", "partition", "scale", "ridge", "l1")
    return {name: getattr(basis, name) for name in names}


@dataclass(frozen=True)
class Plan:
    """What to run for one data set. `tuned` are the hyperparameters of `benchmarks`; what it lacks theory gives."""

    dataset: str
    rounds: int = 50
    seeds: int = 5
    quick: bool = False
    minutes: float | None = None
    panels: tuple[str, ...] = PANELS
    tuned: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    check: bool = True  # DualFL with the paper's solver too, where it is not everybody's

    def __post_init__(self) -> None:
        if self.dataset not in LETTERS:
            raise InputError(nearest("data set of Figure 1", self.dataset, LETTERS))
        for panel in self.panels:
            if panel not in PANELS:
                raise InputError(nearest("panel", panel, PANELS))
        if self.rounds < 1:
            raise InputError(f"rounds must be at least 1, but it is {self.rounds}.")
        check_minutes(self.minutes)
        if self.seeds < 1:
            raise InputError(f"seeds must be at least 1, but it is {self.seeds}.")

    def lines(self, panel: str) -> dict[str, tuple[Cell, ...]]:
        """The curves of a panel by their labels; a curve is one cell, or one a seed."""
        return {
            "benchmarks": self._benchmarks,
            "paper": self._paper,
            "clients": self._clients,
            "rho": self._rho,
        }[panel]()

    @property
    def cells(self) -> list[Cell]:
        """All cells, those that take longest first, so that no processor waits for the last one."""
        found = [cell for panel in self.panels for cells in self.lines(panel).values() for cell in cells]
        return sorted(dict.fromkeys(found), key=lambda cell: -cell.clients)

    def _cell(self, algorithm: str, **settings: Any) -> Cell:
        big = self.dataset != "digits"
        basis: dict[str, Any] = {
            "dataset": self.dataset,
            "algorithm": algorithm,
            "clients": N,
            "solver": "exact",
            "rounds": self.rounds,
            "minutes": self.minutes,
            "rows": QUICK_ROWS if self.quick and big else None,
        }
        return Cell(**(basis | settings))

    @property
    def _solver(self) -> str:
        return "paper" if self.dataset == "mnist" and not self.quick else "exact"

    def _benchmarks(self) -> dict[str, tuple[Cell, ...]]:
        found = {
            name: tuple(
                self._cell(name, hyperparameters=self.values(name), solver=self._solver, seed=seed)
                for seed in range(self.seeds if name in RANDOM else 1)
            )
            for name in (*BENCHMARKS, *PRIMAL)
        }
        if self.dataset == "cifar10" and self.check and not self.quick:
            (ours,) = found["dualfl"]
            found[CHECK] = (replace(ours, solver="paper", rounds=min(CHECKED, self.rounds)),)
        return found

    def _paper(self) -> dict[str, tuple[Cell, ...]]:
        """Steps that the theory of [0, 1] pixels would refuse are taken; one seed, as the paper has it."""
        column = "cifar10" if self.dataset == "cifar10" else "mnist"
        return {
            name: (self._cell(name, hyperparameters=PAPER[name][column], scale="raw", solver="raw", free=True),)
            for name in BENCHMARKS
        }

    def _clients(self) -> dict[str, tuple[Cell, ...]]:
        return {
            f"N = {clients}": (self._cell("dualfl", hyperparameters=self.values("dualfl"), clients=clients),)
            for clients in (CLIENTS[::2] if self.quick else CLIENTS)
        }

    def _rho(self) -> dict[str, tuple[Cell, ...]]:
        chosen = self.values("dualfl")
        return {f"rho = {rho:g}": (self._cell("dualfl", hyperparameters={**chosen, "rho": rho}),) for rho in RHOS}

    def values(self, name: str) -> dict[str, Any]:
        """The hyperparameters of an algorithm on pixels in [0, 1]."""
        given = dict(self.tuned.get(name, {}))
        if name == "5gcs":
            given.setdefault("solve", "exact")  # as the paper does: with the same solver as everybody else
        if name == "dualfl":
            given.setdefault("certificate", "none")  # nobody asks for it here
        return given

    @property
    def notes(self) -> list[str]:
        """What a reader should know."""
        without = [name for name in (*BENCHMARKS, *PRIMAL) if name not in self.tuned]
        found = []
        if "benchmarks" in self.panels and without:
            found.append(f"No tuned values for {', '.join(without)}: they run with the defaults of theory.")
        if "paper" in self.panels and self.dataset == "digits":
            found.append("The paper has no values for digits: those for MNIST are taken.")
        if self.quick and self.dataset != "digits":
            found.append(f"Quick: {QUICK_ROWS:,} rows only.")
        return found


# -- from finished cells to curves ------------------------------------------------------------------------


class Line(NamedTuple):
    """A curve to draw: the median over seeds, and the band between the lowest and the highest."""

    label: str
    errors: Array
    low: Array
    high: Array
    status: str = "ok"

    @property
    def whole(self) -> bool:
        """Whether its time has not cut it."""
        return not self.status.startswith(CUT)


class Panel(NamedTuple):
    """What one set of axes shows; `faint` is drawn without emphasis."""

    dataset: str
    name: str
    letter: str
    title: str
    lines: tuple[Line, ...]
    faint: tuple[Line, ...] = ()
    check: tuple[Line, ...] = ()  # what should coincide with one of the lines

    @property
    def curves(self) -> dict[str, Array]:
        """What claims are judged by: a benchmark that its time cut short is none."""
        return {line.label: line.errors for line in self.lines if line.label == claims.OURS or line.whole}

    @property
    def absent(self) -> list[str]:
        """The labels of lines that claims cannot be judged by."""
        return [line.label for line in self.lines if not (line.whole and len(line.errors))]


TITLES = {
    "benchmarks": "DualFL and the benchmarks, pixels in [0, 1]",
    "paper": "benchmarks, the paper's values, raw pixels",
    "clients": "DualFL, number of clients N",
    "rho": "DualFL, momentum parameter rho",
}


def letter(dataset: str, panel: str) -> str:
    a, b, c = tuple(LETTERS[dataset])
    return {"benchmarks": a, "paper": a + "'", "clients": b, "rho": c}[panel]


def panels(plan: Plan, store: Store) -> list[Panel]:
    """The panels of a plan whose cells are all in the store."""
    found = []
    for name in plan.panels:
        curves = {label: [store[cell] for cell in cells] for label, cells in plan.lines(name).items()}
        start = _start(curves)
        lines = [_line(label, outcomes, start) for label, outcomes in curves.items()]
        found.append(
            Panel(
                plan.dataset,
                name,
                letter(plan.dataset, name),
                TITLES[name] + (", tuned" if name == "benchmarks" and plan.tuned else ""),
                tuple(line for line in lines if line.label not in (*PRIMAL, CHECK)),
                tuple(line for line in lines if line.label in PRIMAL),
                tuple(line for line in lines if line.label == CHECK),
            )
        )
    return found


def _start(curves: Mapping[str, Sequence[Outcome]]) -> float:
    """The error before anything was exchanged, which is that of theta = 0 for all curves of a panel."""
    firsts = (outcome for outcomes in curves.values() for outcome in outcomes if len(outcome.errors))
    return next((float(o.errors[0]) for o in firsts if o.columns["exchanges"][0] == 0), np.nan)


def by_exchanges(outcome: Outcome, start: float) -> Array:
    """The errors after 0, 1, 2, ... exchanges: what a method exchanges before its first round counts too."""
    if not len(outcome.errors):
        return outcome.errors
    before = int(outcome.columns["exchanges"][0])
    return np.concatenate([np.full(before, start), outcome.errors])[: outcome.cell.rounds + 1]


def _line(label: str, outcomes: Sequence[Outcome], start: float) -> Line:
    curves = [by_exchanges(outcome, start) for outcome in outcomes]
    length = min(len(curve) for curve in curves)
    errors = np.stack([curve[:length] for curve in curves])
    status = next((outcome.status for outcome in outcomes if outcome.status != "ok"), "ok")
    if not length:
        return Line(label, np.zeros(0), np.zeros(0), np.zeros(0), status)
    if status == "ok" and length <= outcomes[0].cell.rounds:
        status = f"{CUT} {length - 1}, its time was up"
    return Line(label, np.median(errors, axis=0), errors.min(axis=0), errors.max(axis=0), status)


def verdicts(found: Sequence[Panel]) -> list[Verdict]:
    """Every claim of the paper about these panels."""
    result: list[Verdict] = []
    for panel in found:
        where = f"{panel.dataset} ({panel.letter})"
        if panel.name in ("benchmarks", "paper"):
            faint = {line.label: line.errors for line in panel.faint if line.whole}
            result += claims.against_benchmarks(panel.curves, faint, where, panel.absent)
        elif panel.name == "clients":
            absent = [int(k[4:]) for k in panel.absent]
            result.append(claims.many_clients({int(k[4:]): v for k, v in panel.curves.items()}, where, absent))
        else:
            rhos = [float(k[6:]) for k in panel.absent]
            result.append(claims.robust_to_rho({float(k[6:]): v for k, v in panel.curves.items()}, where, rhos))
    return result


def csv_rows(found: Sequence[Panel]) -> list[list[Any]]:
    """All curves, one row a round."""
    rows: list[list[Any]] = [["dataset", "panel", "curve", "round", "relative_error", "lowest", "highest", "status"]]
    for panel in found:
        for line in (*panel.lines, *panel.faint, *panel.check):
            where = [panel.dataset, panel.letter, line.label]
            for n, (e, low, high) in enumerate(zip(line.errors, line.low, line.high)):
                rows.append([*where, n, *(f"{x:.6g}" for x in (e, low, high)), line.status])
            if not len(line.errors):
                rows.append([*where, "", "", "", "", line.status])
    return rows


def title_of(name: str) -> str:
    """An algorithm's name as its authors write it."""
    return algorithm_class(name).card.title
