"""The gate must let exact methods pass, stop drifting ones, and notice a wrong one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dualfl.algorithms import DualFL
from dualfl.algorithms.few_exchanges import FedIPM
from dualfl.algorithms.local_steps import FedAvg
from dualfl.algorithms.server import GradientDescent
from dualfl.experiments.optimum_check import PROBLEMS, check
from dualfl.experiments.table1 import TABLE1, table1


def test_exact_methods_pass() -> None:
    for problem in PROBLEMS:
        verdict = check(FedIPM() if problem == "hinge" else GradientDescent(), problem)
        assert verdict.holds and verdict.error <= 1e-9 and verdict.exchanges == verdict.rounds


def test_drifting_methods_do_not() -> None:
    verdict = check(FedAvg(), "quadratic")
    assert verdict.holds and verdict.error > 1e-6


@dataclass(frozen=True)
class Wrong(GradientDescent):
    """Gradient descent that deploys something else than what it has found."""

    def model(self, s):  # type: ignore[no-untyped-def]
        return 1.01 * s.x


def test_a_wrong_method_fails() -> None:
    assert not check(Wrong(), "logistic", most=300).holds


def test_what_does_not_apply_is_no_verdict() -> None:
    verdict = check(DualFL(nu=1e9), "quadratic")
    assert not verdict.applies and verdict.holds and "nu" in verdict.reason and np.isnan(verdict.error)


def test_table_one_fits_a_terminal() -> None:
    assert [row.algorithm for row in TABLE1] == ["scaffnew", "apda-inexact", "5gcs", "randprox", "dualfl"]
    assert all(len(line) <= 80 for line in table1().splitlines())
