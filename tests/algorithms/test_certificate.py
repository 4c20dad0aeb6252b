"""The certificate is a proven bound of E - E* in every round, on every family, and stops runs."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import problems
from dualfl.algorithms import DualFL, Quantise, RandK, TopK
from dualfl.algorithms.registry import make
from dualfl.engines import Problem, run
from dualfl.errors import InputError, NotSupported
from dualfl.objectives import (
    L1,
    Absolute,
    ElasticNetPenalty,
    EpsilonInsensitive,
    Hinge,
    Huber,
    LinearModel,
    Logistic,
    Poisson,
    Quadratic,
    Quantile,
    Softmax,
    Squared,
    SquaredHinge,
)
from dualfl.solvers import FISTA, LBFGS, SDCA, DampedNewton, FixedIterations, GradientNorm, PrimalDualGap, minimise

pytestmark = pytest.mark.long

RIDGE = 0.1
SIZES = (12, 40, 25, 18)


def family(name):
    """Four unequal clients; features have norm about 1, so that a few rounds show much of the way."""
    rng = np.random.default_rng(11)
    clients = []
    for n in SIZES:
        X = rng.standard_normal((n, 6)) + rng.standard_normal(6) / 2
        y = X @ np.arange(6) / 6 + rng.standard_normal(n)
        labels = np.where(y > 0, 1.0, -1.0)
        labels[:2] = 1.0, -1.0
        losses = {
            "softmax": (rng.integers(0, 3, n), Softmax(3)),
            "logistic": (labels, Logistic()),
            "squared": (y, Squared()),
            "huber": (y, Huber(0.5)),
            "poisson": (rng.poisson(np.exp(X[:, 0] / 2)), Poisson()),
            "squared hinge": (labels, SquaredHinge()),
            "hinge": (labels, Hinge()),
            "absolute": (y, Absolute()),
            "quantile": (y, Quantile(0.8)),
            "epsilon": (y, EpsilonInsensitive(0.3)),
            "l1": (y, Squared()),
            "elastic net": (labels, Logistic()),
        }
        if name == "quadratic":
            A = X.T @ X / n + RIDGE * np.eye(6)
            clients.append(Quadratic(A, X.T @ y / n, constant=1.0))
            continue
        target, loss = losses[name]
        f = LinearModel(X, target, loss, ridge=RIDGE)
        penalty = {"l1": L1(0.1), "elastic net": ElasticNetPenalty(0.05, 0.1)}.get(name)
        clients.append(f if penalty is None else f + penalty)
    return Problem(clients, sizes=SIZES)


FAMILIES = (
    "quadratic", "softmax", "logistic", "squared", "huber", "poisson", "squared hinge", "hinge", "absolute",
    "quantile", "epsilon", "l1", "elastic net",
)  # fmt: skip


@cache
def optimum(name):
    """E* from below and from above, by a solver on the pooled rows: the two agree to 1e-11."""
    problem = family(name)
    parts = problem.clients
    if name in ("hinge", "absolute", "quantile", "epsilon"):
        pooled = LinearModel(
            np.concatenate([f.design.X for f in parts]),
            np.concatenate([f.y for f in parts]),
            parts[0].loss,
            ridge=RIDGE,
        )
        found = minimise(pooled, solver=SDCA(), stop=PrimalDualGap(1e-13, cap=5000))
        return found.value - found.gap, found.value
    E = problem.pooled
    if not E.smooth:  # the mean of penalised clients is the penalised mean
        E = Problem([f.smooth_part for f in parts], sizes=SIZES, penalty=parts[0].penalty).pooled
        found = minimise(E, solver=FISTA(), stop=GradientNorm(1e-10, cap=20_000))
    else:
        found = minimise(E, solver=DampedNewton(), stop=GradientNorm(1e-12, cap=100))
    return found.value - found.gap, found.value


def check(name, result):
    """The certificate of every row bounds the error of the best model so far, and grows by no more than rounding."""
    low, high = optimum(name)
    assert high - low <= 1e-10 * max(1.0, abs(high))
    energies = result.history.column("energy")
    certificates = result.history.column("certificate")
    best = np.minimum.accumulate(energies)
    assert np.isnan(certificates[0]) and not np.isnan(certificates[1:]).any()
    assert (certificates[1:] >= best[1:] - high - 1e-12 * abs(high)).all()
    assert (np.diff(certificates[1:]) <= 4 * result.rounding).all()  # of energies that rounding hides, the last counts
    assert result.certificate == certificates[-1] and result.certificate_reason == ""
    assert best[-1] <= result.energy <= best[-1] + 4 * result.rounding


@pytest.mark.parametrize("upload", ["plain", "corrected"])
@pytest.mark.parametrize("name", FAMILIES)
def test_valid_in_every_round_on_every_family(name, upload):
    problem = family(name)
    for form in ("scalar", "vector"):
        result = run(problem, DualFL(upload=upload, certificate=form), rounds=40)
        check(name, result)
        assert result.certificate <= 0.05 * abs(result.energy)


@pytest.mark.parametrize("name", FAMILIES)
def test_it_tends_to_zero(name):
    slow = not np.isfinite(family(name).clients[0].L)  # then rho = 0, and the rate is polynomial
    result = run(family(name), DualFL(), rounds=150 if slow else 100)
    check(name, result)
    assert result.certificate <= (1e-4 if slow else 1e-9) * abs(result.energy)


@pytest.mark.parametrize("codec", [TopK(3), RandK(5), Quantise(5)])
@pytest.mark.parametrize("form", ["scalar", "vector"])
def test_valid_with_compressed_uploads(codec, form):
    for upload in ("plain", "corrected"):
        result = run(family("logistic"), DualFL(certificate=form, upload=upload), rounds=60, codec=codec)
        check("logistic", result)
        assert result.certificate <= 1e-2 * result.energy


@pytest.mark.parametrize("nu", [RIDGE, RIDGE / 2, RIDGE / 10])
@pytest.mark.parametrize("start", [None, np.linspace(-2, 2, 6)])
def test_valid_for_smaller_nu_and_from_any_start(nu, start):
    for name in ("logistic", "hinge", "l1"):
        check(name, run(family(name), DualFL(nu=nu), rounds=25, start=start))


class Loose(DualFL):
    """A client that makes one iteration of its solver, whatever comes of it."""

    def stop_rule(self, *where):
        return FixedIterations(1)


@pytest.mark.parametrize("name", ["quadratic", "softmax", "poisson", "hinge", "absolute", "l1"])
@pytest.mark.parametrize("upload", ["plain", "corrected"])
def test_valid_with_loose_solves_and_the_vector_form_is_the_tighter_one(name, upload):
    problem = Problem(family(name).clients, sizes=SIZES, solvers=None if name != "quadratic" else LBFGS(memory=1))
    results = {}
    for form in ("scalar", "vector"):
        results[form] = run(problem, Loose(upload=upload, certificate=form, rho=0.0), rounds=30)
        check(name, results[form])
    assert results["vector"].certificate <= results["scalar"].certificate * (1 + 1e-9) + 1e-14


def test_the_negative_control_fails():
    """A bound without the local errors in it is not valid: loose solves must show it."""

    class Overconfident(Loose):
        def dual_value(self, m, moved, silos):
            m.e = 0.0
            return super().dual_value(m, moved, silos)

    problem = Problem(family("quadratic").clients, sizes=SIZES, solvers=LBFGS(memory=1))
    with pytest.raises(AssertionError):
        check("quadratic", run(problem, Overconfident(rho=0.0), rounds=30))


# -- stopping -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6])
def test_tol_stops_the_run(tol):
    high = optimum("softmax")[1]
    result = run(family("softmax"), DualFL(), rounds=500, tol=tol)
    assert result.stopped == "tol"
    assert result.energy - high <= result.certificate <= tol * result.energy
    before = result.history[-2].certificate
    assert before is None or before > tol * result.energy  # not a round too late


def test_a_tolerance_does_not_ask_for_more_rounds_than_the_dual_does():
    """The scalars cost hardly a round against exact solves: what the server does not know of the errors vanishes."""
    instance = problems.digits()

    def rounds(**settings):
        return run(instance.problem, DualFL(rho=0.01, **settings), rounds=200, tol=1e-5).rounds

    assert rounds() <= 1.1 * rounds(accuracy="exact") + 1


def test_a_tolerance_that_cannot_be_met_is_refused():
    problem = family("logistic")
    with pytest.raises(InputError, match=r'dualfl has none: certificate="none" was chosen; stop by rounds'):
        run(problem, DualFL(certificate="none"), tol=1e-3)
    with pytest.raises(InputError, match="evaluate=False leaves no energy"):
        run(problem, DualFL(), tol=1e-3, evaluate=False)
    with pytest.raises(InputError, match="not the one that is minimised"):
        run(problem, DualFL(), tol=1e-3, measure=problem)
    flat = Problem([LinearModel(np.eye(2), np.ones(2), Squared())])
    with pytest.raises(NotSupported, match="needs a strongly convex objective"):
        run(flat, DualFL(), tol=1e-3)


def quadratics():
    """Clients with mu = 1, and E* in closed form."""
    A, b = np.diag([1.0, 5.0]), 3 * np.eye(2)
    mean = b.mean(axis=0)
    return Problem([Quadratic(A, each) for each in b]), -float(mean @ np.linalg.solve(A, mean)) / 2


def test_a_compressed_gradient_proves_nothing():
    problem, star = quadratics()
    compressed = run(problem, make("gd"), rounds=5, codec=TopK(1))
    assert compressed.certificate is None and "codec" in compressed.certificate_reason
    plain = run(problem, make("gd"), rounds=60)
    assert plain.certificate <= 1e-8 and plain.state.bound <= star + 1e-15


@pytest.mark.parametrize(
    "name",
    [
        *("gd", "nesterov", "lbfgs", "dane", "aide", "extragradient", "giant", "disco", "fednl"),
        *("s-dane", "acc-s-dane", "fedred", "svrp", "accsvrs", "shed", "fedpm", "fedosaa"),
    ],
)
def test_a_mu_above_that_of_the_clients_proves_nothing(name):
    problem, star = quadratics()
    mine = make(name, mu=4.0)
    for rounds in (1, 3):
        result = run(problem, mine, rounds=rounds)
        assert -np.inf < result.state.bound <= star + 1e-12
        assert result.algorithm.mu == 4.0  # what it steers is the user's
    assert mine.clients_mu == 0.0  # it may be bound to other problems too
    lower = run(problem, make(name, mu=0.5), rounds=1).state.bound
    assert lower <= run(problem, make(name), rounds=1).state.bound + 1e-12


def test_no_certificate_comes_with_a_reason():
    problem = family("logistic")

    def reason(algorithm=None, **options):
        result = run(problem, algorithm or DualFL(), rounds=options.pop("rounds", 3), **options)
        assert result.certificate is None
        assert all(row.certificate is None for row in result.history)
        return result.certificate_reason

    assert reason(DualFL(certificate="none")) == 'certificate="none" was chosen'
    assert reason(evaluate=False) == "energies were not evaluated"
    assert reason(measure=problem) == "the energy that is measured is not the one that is minimised"
    assert reason(rounds=0) == "a lower bound of E* comes with the first round"


def test_floats_of_the_three_forms():
    for form, more in (("none", 0), ("scalar", 3), ("vector", 3 + 6)):
        row = run(family("logistic"), DualFL(certificate=form), rounds=3).history[-1]
        assert row.floats_up == 3 * 4 * (6 + more) and row.floats_down == 3 * 4 * 6
