"""What must go wrong does: the mistakes that papers, notes and public code invite, each made once on purpose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from instances import models, quad, tiny, unequal

from dualfl.algorithms import (
    TAMUNA,
    FedDR,
    FedDyn,
    FedPD,
    FedSplit,
    LoCoDL,
    Place,
    Scaffnew,
    Scaffold,
    ask,
    client_step,
)
from dualfl.algorithms.contract import Round, Upload
from dualfl.algorithms.splitting import feddr, feddyn, fedsplit
from dualfl.algorithms.splitting.fedsplit import Local
from dualfl.errors import InputError
from dualfl.typing import Array


def errors(algorithm: Any, rounds: int, which: Any = quad) -> Array:
    here = which()
    return np.array([here.error(theta) for theta in models(here.problem, algorithm, rounds)])


def test_fedpd_that_skips_exchanges_stalls() -> None:
    """A skipped round is a proximal point step on f_j alone."""
    late = errors(FedPD(p=0.5), 120, tiny)[40:]
    assert late.min() > 1e-5
    assert np.median(late[-40:]) > np.median(late[:40]) / 3


def test_feddr_whose_server_starts_elsewhere_than_its_clients() -> None:
    class WrongStart(FedDR):
        def start(self, at: Place) -> Round:
            yield ask(self.first)
            return feddr.Server(xt=np.zeros(at.d), x=np.zeros(at.d), eta=self.eta)

    late = errors(WrongStart(), 60, tiny)[40:]
    assert late.min() > 1e-2
    assert errors(FedDR(), 60, tiny)[-1] < 1e-12


def test_locodl_without_its_factor_in_the_dual_step() -> None:
    class Careless(LoCoDL):
        def q(self, at: Place) -> float:
            return super().q(at) * (1 + 2 * self.omega(at.d))

    assert errors(Careless(k=4), 80)[-1] > 1e3
    assert errors(LoCoDL(k=4), 80)[-1] < 0.5


def test_feddyn_whose_server_averages_over_the_cohort() -> None:
    """With equal weights h would still be a multiple of the mean gradient; with unequal ones it is not."""

    class Careless(FedDyn):
        def round(self, s: Any, at: Place) -> Round:
            m = yield ask(self.local, to=at.cohort(self.C), theta=s.theta)
            h = s.h - self.alpha * (m.x / m.mass - s.theta)
            return feddyn.Server(theta=m.x / m.mass - h / self.alpha, h=h)

    assert errors(Careless(C=4), 100, unequal)[-1] > 1e-2
    assert errors(FedDyn(C=4), 100, unequal)[-1] < 1e-6


def test_fedsplit_that_forgets_its_z() -> None:
    @dataclass(frozen=True)
    class Forgetful(FedSplit):
        @client_step
        def local(self, f: Any, c: Local, at: Place, x: Array) -> tuple[Upload, Local]:
            return super().local(f, fedsplit.Local(z=x, warm=c.warm, scale=c.scale), at, x)

    assert errors(Forgetful(), 40, tiny)[-1] > 1e-3
    assert errors(FedSplit(), 40, tiny)[-1] < 1e-12


def test_scaffold_whose_server_averages_over_the_cohort() -> None:
    """c must be the mean of ALL c_j; with the cohort's mean it is no multiple of it if clients are unequal."""

    class Careless(Scaffold):
        def round(self, s: Any, at: Place) -> Round:
            m = yield ask(self.local, to=at.cohort(self.C), x=s.x, shift=s.c)
            return type(s)(x=s.x + self.eta_g * m.dx / m.mass, c=s.c + m.dc / m.mass)

    assert errors(Careless(C=4), 100, unequal)[-1] > 1e-2
    assert errors(Scaffold(C=4), 100, unequal)[-1] < 2e-3


def test_tamuna_that_divides_by_its_cohort() -> None:
    class Careless(TAMUNA):
        def round(self, s: Any, at: Place) -> Round:
            server = yield from super().round(s, at)
            return type(server)(x=server.x * self.s / self.c)

    assert errors(Careless(s=2), 150, tiny)[-1] > 1e-2
    assert errors(TAMUNA(s=2), 150, tiny)[-1] < 1e-8


def test_scaffnew_beyond_its_step() -> None:
    class Unchecked(Scaffnew):
        def check(self, c: Any) -> None:
            pass

    assert errors(Unchecked(gamma=2.5 / tiny().L), 60, tiny)[-1] > 1e3
    with pytest.raises(InputError, match="gamma"):
        errors(Scaffnew(gamma=2.5 / tiny().L), 1, tiny)
