"""DualFL is FISTA on the dual problem: against the runnable method, and against an oracle that knows only the dual."""

import json

import numpy as np
import pytest

from dualfl.algorithms.dual import DualFISTA, DualFL
from dualfl.algorithms.registry import from_json, make
from dualfl.engines import Problem, run
from dualfl.errors import InputError
from dualfl.objectives import L1, LinearModel, Logistic, Quadratic
from dualfl.solvers import FISTA, DampedNewton, GradientNorm, PrimalDualGap, minimise
from dualfl.theory import problems as families
from dualfl.theory.gap import gap
from dualfl.theory.trace import Trace, dual_sequences

SIZES = [1.0, 4.0, 2.0, 0.5]


def weighted(problem, sizes=SIZES):
    return Problem(problem.clients, sizes=sizes, penalty=problem.penalty, solvers=problem.solvers)


def lasso():
    clients = families.logistic(4, n=20, d=4, mu=0.2).clients
    return Problem(clients, penalty=L1(0.05), solvers=FISTA())


SMOOTH = {
    "quadratic": lambda: families.quadratics(4, 200.0),
    "logistic": lambda: families.logistic(4, n=20, d=4),
    "softmax": lambda: families.softmax(4, n=15, d=3),
}
NONSMOOTH = {"absolute": lambda: families.medians(4, d=6), "l1": lasso}


def dual_run(problem, rounds=15, **settings):
    """xi^(1), xi^(2), ... and eta^(1), eta^(2), ... of DualFISTA."""
    trace = Trace(problem, DualFISTA(accuracy="exact", **settings))
    blocks = [m.clients for m in trace.rounds(rounds)]
    xi, eta = ([[getattr(c, name) for c in clients] for clients in blocks] for name in ("xi", "eta"))
    return np.array(xi), np.array(eta), trace.algorithm


def primal_run(problem, rounds=15, **settings):
    """xi^(1), ... and eta^(0), ... of DualFL, and its moments."""
    trace = Trace(problem, DualFL(accuracy="exact", **settings))
    moments = list(trace.rounds(rounds))
    return *dual_sequences(moments, trace.algorithm.nu, trace.algorithm.rho), moments, trace.algorithm


def oracle(prox, N, d, nu, rho, rounds, w):
    """FISTA in NumPy: prox(j, v) is the prox of nu g_j*."""
    xi = eta = np.zeros((N, d))
    t, history = 1.0, []
    for _ in range(rounds):
        v = eta - w @ eta
        new = np.array([prox(j, v[j]) for j in range(N)])
        following = max(np.roots([1.0, rho * t**2 - 1.0, -(t**2)]).real)
        beta = (t - 1) / following * (1 - following * rho) / (1 - rho)
        eta = new + beta * (new - xi)
        xi, t = new, following
        history.append((xi, eta))
    return np.array([x for x, _ in history]), np.array([e for _, e in history])


def assert_same(a, b, tolerance=1e-10):
    assert np.abs(a - b).max() <= tolerance * np.abs(b).max()


@pytest.mark.parametrize(("rho", "sizes"), [(None, None), (1e-3, SIZES), (0.0, SIZES)])
@pytest.mark.parametrize("kind", SMOOTH | NONSMOOTH)
def test_dualfl_is_fista_on_the_dual(kind, rho, sizes):
    problem = weighted((SMOOTH | NONSMOOTH)[kind](), sizes)
    xi, eta, _, algorithm = primal_run(problem, rho=rho)
    xi_dual, eta_dual, _ = dual_run(problem, rho=algorithm.rho)
    assert_same(xi, xi_dual)
    assert_same(eta[1:], eta_dual[:-1])
    if rho is None:
        plain, _, _ = dual_run(problem, rho=algorithm.rho, point="plain")
        assert_same(plain, xi_dual)


def test_hinge_up_to_the_gap_of_sdca():
    """A theta_j of gap e is within sqrt(2 e/mu) of the exact one; ten rounds add up ten such errors at most."""
    problem = families.hinge(3, n=15, d=3)
    nu, rounds, e = problem.clients[0].mu, 10, 1e-14

    class Primal(DualFL):
        def stop_rule(self, *_):
            return PrimalDualGap(e, self.nu)

    class Dual(DualFISTA):
        def stop_rule(self, *_):
            return PrimalDualGap(e, self.nu)

    xi, _ = dual_sequences(list(Trace(problem, Primal()).rounds(rounds)), nu, 0.0)
    blocks = [[c.xi for c in m.clients] for m in Trace(problem, Dual()).rounds(rounds)]
    assert np.abs(xi - blocks).max() <= rounds * nu * np.sqrt(2 * e / nu)


@pytest.mark.parametrize("w", [np.full(4, 0.25), np.array(SIZES) / sum(SIZES)], ids=["equal", "weighted"])
@pytest.mark.parametrize("rho", [0.0, 2e-3])
def test_against_an_oracle_on_quadratics(rho, w):
    """g_j*(xi) = (1/2) <xi + b, (A - nu I)^{-1} (xi + b)>, so its prox is a linear system in xi alone."""
    problem = weighted(families.quadratics(4, 200.0), w)
    nu, d = 0.7, problem.d
    inverses = [np.linalg.inv(f.A - nu * np.eye(d)) for f in problem.clients]

    def prox(j, v):
        G = inverses[j]
        return np.linalg.solve(nu * G + np.eye(d), v - nu * G @ problem.clients[j].b)

    expected = oracle(prox, 4, d, nu, rho, 30, w)
    xi, eta, _, _ = primal_run(problem, 31, nu=nu, rho=rho)
    assert_same(xi[:30], expected[0])
    assert_same(eta[1:], expected[1])
    ours = dual_run(problem, 30, nu=nu, rho=rho)
    assert_same(ours[0], expected[0])
    assert_same(ours[1], expected[1])


def test_against_an_oracle_on_a_nonsmooth_problem():
    """g_j = |x - b_j|_1, so g_j*(xi) = <b_j, xi> on the box |xi| <= 1: the prox is a projection."""
    problem = families.medians(5)
    nu, b = problem.clients[0].mu, [families.kinks(f) for f in problem.clients]
    expected = oracle(lambda j, v: np.clip(v - nu * b[j], -1, 1), 5, problem.d, nu, 0.0, 60, np.full(5, 0.2))
    xi, eta, _, _ = primal_run(problem, 61)
    assert_same(xi[:60], expected[0])
    assert_same(eta[1:], expected[1])


def test_the_lemma_holds_for_inexact_solves_too():
    """Whatever the theta_j were, the recursion of eta is FISTA's, and nu zeta_j = eta_j - mean eta."""
    problem = weighted(families.logistic(4, n=20, d=4))
    w = np.array(problem.weights)
    trace = Trace(problem, DualFL())
    nu, rho = trace.algorithm.nu, trace.algorithm.rho
    moments = list(trace.rounds(20))
    xi, eta = dual_sequences(moments, nu, rho)
    zeta = np.array([[c.zeta for c in m.clients] for m in moments])
    replayed, _ = oracle_replay(xi, rho)
    assert_same(eta[1:], replayed[:-1], 1e-12)
    assert_same(nu * zeta, eta - np.einsum("j,njd->nd", w, eta)[:, None], 1e-12)
    assert_same(np.array([m.theta for m in moments]), -np.einsum("j,njd->nd", w, xi) / nu, 1e-12)


def oracle_replay(xi, rho):
    """eta^(n) from given xi^(n)."""
    step = iter(xi.reshape(-1, xi.shape[-1]))
    N = xi.shape[1]
    return oracle(lambda j, v: next(step), N, xi.shape[2], 1.0, rho, len(xi), np.full(N, 1 / N))[::-1]


@pytest.mark.parametrize("rho", [None, 0.0])
def test_ssda(rho):
    """Accelerated ascent on the consensus constraint: min sum_j w_j f_j*(lam_j), sum_j w_j lam_j = 0, step nu."""
    problem = weighted(families.logistic(4, n=20, d=4))
    w = np.array(problem.weights)
    _, _, moments, algorithm = primal_run(problem, 20, rho=rho)
    lam = x = np.zeros((problem.N, problem.d))
    t = 1.0
    for m in moments:
        assert np.abs(algorithm.nu * np.array([c.zeta for c in m.clients]) - lam).max() <= 1e-10
        theta = np.array(
            [minimise(f, c=v, solver=DampedNewton(), stop=GradientNorm(0.0)).x for f, v in zip(problem.clients, lam)]
        )
        forward = lam - algorithm.nu * (theta - w @ theta)
        q = 1 - algorithm.rho * t * t
        following = (q + np.sqrt(q * q + 4 * t * t)) / 2
        beta = (t - 1) / following * (1 - following * algorithm.rho) / (1 - algorithm.rho)
        lam, x, t = forward + beta * (forward - x), forward, following


@pytest.mark.parametrize("kind", SMOOTH | NONSMOOTH)
def test_shifts_add_up_to_zero_and_tend_to_gradients(kind):
    problem = weighted((SMOOTH | NONSMOOTH)[kind]())
    w = np.array(problem.weights)
    rounds = {"quadratic": 250, "logistic": 100, "softmax": 60}.get(kind, 15)
    *_, moments, algorithm = primal_run(problem, rounds, certificate="none")
    for m in moments:
        zeta = np.array([c.zeta for c in m.clients])
        assert np.abs(w @ zeta).max() <= 1e-13 * max(np.abs(zeta).max(), 1.0)
    if kind in SMOOTH:
        star = families.solution(problem)
        slopes = np.array([f.gradient(star) for f in problem.clients])
        zeta = np.array([c.zeta for c in moments[-1].clients])
        assert np.abs(algorithm.nu * zeta - slopes).max() <= 1e-3 * np.abs(slopes).max()


def test_one_client_and_equal_clients_take_one_round():
    one = families.logistic(1)
    star = families.solution(one)
    for problem in (one, Problem(one.clients * 3, solvers=DampedNewton())):
        moment = next(Trace(problem, DualFL(accuracy="exact")).rounds(1))
        assert_same(moment.theta, star)


def test_equal_hessians_take_one_round():
    rng = np.random.default_rng(0)
    A = families.quadratics(1, 50.0).clients[0].A
    problem = weighted(
        Problem([Quadratic(A, rng.standard_normal(len(A))) for _ in range(4)], solvers=families.Direct())
    )
    moment = next(Trace(problem, DualFL(accuracy="exact")).rounds(1))
    assert_same(moment.theta, families.solution(problem))


# -- DualFISTA by itself ------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["gradient", "plain"])
def test_its_certificate_is_valid_and_falls(point):
    problem = weighted(families.logistic(4, n=20, d=4, mu=0.1))
    best = problem.value(families.solution(problem))
    result = run(problem, DualFISTA(point=point), rounds=60)
    rounding = 1e-15
    assert -rounding <= result.energy - best <= result.certificate + rounding <= 1e-5
    for m in Trace(problem, DualFISTA(point=point)).rounds(10):
        assert m.server.bound <= best + rounding


def test_injected_errors_leave_exactly_the_gap_that_was_asked_for():
    problem = families.logistic(3, n=20, d=4)
    nu = 0.5 * problem.clients[0].mu
    delta = [1e-2, 1e-4, 0.0]
    trace = Trace(problem, DualFISTA(nu=nu, rho=0.0, accuracy="exact", delta=delta))
    etas = [np.zeros((3, 4))]
    for m, expected in zip(trace.rounds(3), delta):
        v = etas[-1] - etas[-1].mean(axis=0)
        for f, c, zeta in zip(problem.clients, m.clients, v / nu):
            theta = c.warm  # Newton goes on from its solution
            assert gap(f, nu, zeta, theta, c.xi) == pytest.approx(expected, rel=1e-6, abs=1e-12)
        etas.append(np.array([c.eta for c in m.clients]))


def test_it_is_registered_and_survives_json():
    algorithm = make("fista-dual", nu=0.1, rho=0.0, delta=(0.1, 0.01))
    again = from_json(algorithm.to_json())
    assert isinstance(again, DualFISTA)
    assert json.loads(again.to_json()) == json.loads(algorithm.to_json())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"nu": 9.0}, "nu = 9.0 is not allowed; it must lie in"),
        ({"rho": 1.0}, "rho = 1.0 is not allowed"),
        ({"point": "other"}, "point = other is not allowed"),
        ({"accuracy": "smooth"}, "accuracy = smooth is not allowed"),
        ({"delta": (-1.0,)}, "delta = "),
    ],
)
def test_settings_outside_their_range(settings, message):
    with pytest.raises(InputError, match=message):
        run(families.quadratics(2, 10.0), DualFISTA(**settings), rounds=1)


def test_a_perfectly_conditioned_problem_has_no_momentum():
    f = LinearModel(np.zeros((2, 3)), np.array([1.0, -1.0]), Logistic(), ridge=1.0)  # L = mu
    problem = Problem([f, f.fresh()], solvers=DampedNewton())
    result = run(problem, DualFISTA(rho=1 - 1e-13, accuracy="exact"), rounds=3)
    assert np.abs(result.theta).max() <= 1e-12
