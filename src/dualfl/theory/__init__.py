"""The paper's statements, checked numerically: `run_all` measures each of them and tests whether it holds.

J. Park and J. Xu, "DualFL: A duality-based federated learning algorithm with communication acceleration in the
general convex regime", 2023. The numbers of the statements are the paper's; docs/theory.md lists its misprints.
"""

from __future__ import annotations

from dualfl.theory import convergence, convex, dual_problem, fista, local_duality, local_work
from dualfl.theory.check import Check, Measured, Progress, Statement, checks
from dualfl.theory.gap import conjugate, gradient_gap, paper_gap

STATEMENTS: dict[str, Statement] = {
    "Prop. 3.1  local gap": local_duality.proposition_3_1,
    "Thm. 3.2  nonsmooth rate": convergence.theorem_3_2,
    "Thm. 3.3  smooth rate": convergence.theorem_3_3,
    "Thm. 3.3  inexact": convergence.inexact,
    "Thm. 3.4  local work": local_work.theorem_3_4,
    "Thm. 3.5  local work": local_work.theorem_3_5,
    "Thm. 4.1  convex": convex.theorem_4_1,
    "Thm. 4.2  convex rate": convex.theorem_4_2,
    "Prop. 6.1  dual problem": dual_problem.proposition_6_1,
    "Prop. 6.2  FISTA, rho = 0": fista.proposition_6_2,
    "Prop. 6.3  FISTA, rho > 0": fista.proposition_6_3,
    "Lemma 6.4  block Jacobi": dual_problem.lemma_6_4,
    "Lemma 6.5  DualFL = FISTA": dual_problem.lemma_6_5,
    "Sec. 6.4  inequalities": dual_problem.inequalities,
    "Any local solver": convergence.any_local_solver,
    "Robust in rho": convergence.robust_in_rho,
    "Independent of N": convergence.independent_of_N,
}


def run_all(progress: Progress | None = None, only: str = "") -> list[Check]:
    """Measure every statement whose name contains `only`; about a minute for all.

    `progress` is called with the name of a statement, how many are done and how many there are.

    Parameters
    ----------
    progress : Progress, optional
        Called with each statement before it is measured.
    only : str, default ''
        A part of a statement's name, such as "Thm. 3.2"; "" for all.

    Returns
    -------
    list of Check
        The table.

    Examples
    --------
    >>> from dualfl.theory import run_all
    >>> all(check.holds for check in run_all(only="Lemma 6.4"))
    True
    """
    chosen = {name: statement for name, statement in STATEMENTS.items() if only.lower() in name.lower()}
    found: list[Check] = []
    for done, (name, statement) in enumerate(chosen.items()):
        if progress is not None:
            progress(name, done, len(chosen))
        found.extend(checks(name, statement))
    return found


__all__ = [
    "STATEMENTS",
    "Check",
    "Measured",
    "conjugate",
    "gradient_gap",
    "paper_gap",
    "run_all",
]
