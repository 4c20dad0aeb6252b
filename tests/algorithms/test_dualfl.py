"""DualFL reaches the pooled optimum, keeps its invariants, and refuses what no theorem allows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import ElasticNet as ReferenceElasticNet

import problems
from dualfl.algorithms import DualFL, Quantise, RandK, TopK
from dualfl.algorithms.dual.dualfl import Local, momentum
from dualfl.algorithms.registry import make
from dualfl.engines import Problem, run
from dualfl.errors import InputError, NotSupported
from dualfl.objectives import (
    L1,
    Absolute,
    ElasticNetPenalty,
    Hinge,
    LinearModel,
    NonNegative,
    Quadratic,
    Softmax,
    Squared,
)
from dualfl.solvers import FISTA, LBFGS, DampedNewton, NewtonCG

TIGHT = DampedNewton()


def rounds_to(instance, algorithm, target=1e-8, limit=400, **options):
    result = run(instance.problem, algorithm, rounds=limit, stop=lambda row, x: instance.error(x) <= target, **options)
    assert result.stopped == "tol", f"only {instance.error(result.theta):.1e} after {result.rounds} rounds"
    return result.rounds


def weighted(problem, vectors):
    return sum(w * v for w, v in zip(problem.weights, vectors))


# -- the pooled optimum -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", problems.SMOOTH)
def test_it_reaches_the_pooled_optimum(name):
    instance = problems.SMOOTH[name]()
    result = run(instance.problem, DualFL(), rounds=130, reference=instance.energy)
    assert result.history[-1].relative_error <= 1e-9
    assert instance.error(result.theta) <= 1e-9


def test_unequal_clients_count_by_their_rows():
    """With the default sizes E is the cost of the pooled rows; with equal sizes it is another problem."""
    instance = problems.unequal()
    rows = [f.design.X for f in instance.problem.clients]
    pooled = LinearModel(
        np.concatenate(rows),
        np.concatenate([f.y for f in instance.problem.clients]),
        instance.problem.clients[0].loss,
        ridge=0.01,
    )
    assert np.linalg.norm(pooled.gradient(instance.star)) <= 1e-12
    equal = Problem(instance.problem.clients, sizes=[1] * 8, solvers=TIGHT)
    theta = run(equal, DualFL(), rounds=100).theta
    assert np.linalg.norm(equal.pooled.gradient(theta)) <= 1e-5
    assert instance.error(theta) > 1e-4


def test_softmax_on_images():
    instance = problems.digits()
    result = run(instance.problem, DualFL(rho=0.01), rounds=150, reference=instance.energy)
    assert result.history[-1].relative_error <= 1e-9
    assert result.model.shape == (17, 10)


@pytest.mark.parametrize(("name", "low", "high"), [("quad", 70, 92), ("logit", 62, 90)])
def test_it_takes_as_many_rounds_as_it_should(name, low, high):
    assert low <= rounds_to(problems.SMOOTH[name](), DualFL()) <= high


@pytest.mark.parametrize(("name", "low", "high"), [("quad", 250, 380), ("logit", 170, 260)])
def test_without_momentum_parameter_it_is_slower_but_exact(name, low, high):
    """rho = 0 is the method for nonsmooth costs: 1/n^2 instead of a geometric rate."""
    assert low <= rounds_to(problems.SMOOTH[name](), DualFL(rho=0.0)) <= high


def test_rho_far_from_nu_over_L_costs_rounds():
    instance = problems.quad()
    best = rounds_to(instance, DualFL())
    assert rounds_to(instance, DualFL(rho=0.1)) > 1.5 * best
    assert rounds_to(instance, DualFL(rho=0.001)) > 1.2 * best


@pytest.mark.parametrize("upload", ["plain", "corrected"])
@pytest.mark.parametrize("accuracy", ["theorems", "smooth", "nonsmooth", "energy", "exact"])
def test_every_accuracy_and_both_uploads_reach_the_optimum(upload, accuracy):
    instance = problems.logit()
    slow = accuracy == "nonsmooth"  # the errors fall like n^-2 only; corrected, they enter with a factor 1/nu
    problem = Problem(instance.problem.clients, solvers=LBFGS() if accuracy == "energy" else TIGHT)
    result = run(problem, DualFL(upload=upload, accuracy=accuracy), rounds=110)
    assert instance.error(result.theta) <= (1e-5 if slow else 1e-9)


def test_local_work_is_recorded_client_by_client():
    instance = problems.unequal()
    solvers = [LBFGS(), FISTA(), DampedNewton(), NewtonCG()] * 2
    result = run(Problem(instance.problem.clients, solvers=solvers), DualFL(), rounds=75)
    assert instance.error(result.theta) <= 1e-6
    work = np.array(result.history.iterations)
    assert work.shape == (76, 8) and (work[0] == 0).all()
    np.testing.assert_array_equal(work.sum(axis=1), result.history.column("local_iterations"))
    assert work[1:, 1].mean() > 2 * work[1:, 2].mean()  # gradient steps against Newton steps


def test_one_client_or_equal_clients_are_solved_in_one_round():
    f = problems.quad().problem.clients[0]
    for clients in ([f], [f, f, f]):
        result = run(Problem(clients, solvers=TIGHT), DualFL(accuracy="exact"), rounds=1)
        np.testing.assert_allclose(result.theta, np.linalg.solve(f.A, f.b), rtol=0, atol=1e-10)


def test_equal_hessians_are_solved_in_one_round():
    H = problems.quad().problem.clients[0].A
    rng = np.random.default_rng(0)
    clients = [Quadratic(H, rng.standard_normal(20)) for _ in range(5)]
    theta = run(Problem(clients, solvers=TIGHT), DualFL(accuracy="exact"), rounds=1).theta
    np.testing.assert_allclose(theta, np.linalg.solve(H, np.mean([f.b for f in clients], axis=0)), rtol=0, atol=1e-10)


# -- invariants ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"start": np.linspace(-1, 1, 20)}, {"codec": TopK(5)}])
@pytest.mark.parametrize("upload", ["plain", "corrected"])
def test_the_shifts_always_add_up_to_zero(options, upload):
    problem = problems.unequal().problem
    for rounds in (1, 2, 7):
        silos = run(problem, DualFL(upload=upload, G0=100.0), rounds=rounds, **options).silos
        zetas = [silo.state.zeta for silo in silos]
        assert np.linalg.norm(weighted(problem, zetas)) <= 1e-12 * max(1.0, max(map(np.linalg.norm, zetas)))


def test_the_shifts_tend_to_the_gradients_at_the_optimum():
    instance = problems.unequal()
    result = run(instance.problem, DualFL(), rounds=150)
    for f, silo in zip(instance.problem.clients, result.silos):
        np.testing.assert_allclose(result.algorithm.nu * silo.state.zeta, f.gradient(instance.star), rtol=0, atol=1e-6)


@pytest.mark.parametrize("rho", [0.0, 0.01, 0.3])
def test_momentum_follows_its_recursion(rho):
    t, beta = momentum(0.0, rho)
    assert (t, beta) == (1.0, 0.0)
    for n in range(2000):
        new, beta = momentum(t, rho)
        assert new * (new - 1) == pytest.approx(t * t * (1 - rho * new), rel=1e-9)
        assert new >= t and (rho > 0 or new >= (n + 2) / 2)
        t = new
    if rho:
        assert t == pytest.approx(1 / np.sqrt(rho), rel=1e-6)
        assert beta == pytest.approx((1 - np.sqrt(rho)) / (1 + np.sqrt(rho)), rel=1e-6)


# -- other starts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["quad", "logit", "unequal"])
def test_a_start_at_the_optimum_stays_there(name):
    instance = problems.SMOOTH[name]()
    result = run(instance.problem, DualFL(accuracy="exact"), rounds=5, start=instance.star, reference=instance.energy)
    assert np.abs(result.history.column("relative_error")).max() <= 1e-12
    assert result.history[0].exchanges == 1 and result.history[0].floats_up == 8 * 20


def test_a_start_nearby_saves_rounds():
    instance = problems.logit()
    near = instance.star * 1.001
    assert rounds_to(instance, DualFL(), start=near) < 0.6 * rounds_to(instance, DualFL())


@pytest.mark.parametrize("client", ["hinge", "l1", "regularised hinge", "nonnegative"])
def test_nonsmooth_costs_start_from_a_subgradient(client):
    rng = np.random.default_rng(0)
    clients = []
    for _ in range(3):
        X, y = problems.rows(rng, 30)
        f = LinearModel(X, y, Squared() if client in ("l1", "nonnegative") else Hinge(), ridge=0.5)
        f = {"l1": lambda f=f: f + L1(0.1), "nonnegative": lambda f=f: f + NonNegative()}.get(client, lambda f=f: f)()
        clients.append(f)
    problem = Problem(clients)
    if client == "regularised hinge":
        problem = Problem([replace_ridge(f) for f in clients]).regularised(0.5)
    cold = run(problem, DualFL(), rounds=80)
    warm = run(problem, DualFL(), rounds=80, start=cold.theta)
    assert warm.energy == pytest.approx(cold.energy, rel=1e-4)
    assert warm.certificate <= 1e-3 * abs(warm.energy)


def replace_ridge(f):
    return LinearModel(f.design.X, f.y, f.loss, ridge=0.0)


# -- nonsmooth costs ----------------------------------------------------------------------------------


def box_dual(X, y, loss, ridge):
    """(E*, theta*) of mean hinge or absolute loss + ridge, by L-BFGS-B on the dual, up to its own duality gap."""
    n = len(y)
    q, b, low = (y, np.ones(n), 0.0) if loss == "hinge" else (np.ones(n), y, -1.0)
    A = (X * q[:, None]).T / n

    def minus_dual(a):
        v = A @ a
        return v @ v / (2 * ridge) - b @ a / n, A.T @ v / ridge - b / n

    options = {"maxiter": 100_000, "maxfun": 1_000_000, "ftol": 1e-16, "gtol": 1e-12, "maxcor": 50}
    found = minimize(minus_dual, np.zeros(n), jac=True, method="L-BFGS-B", bounds=[(low, 1.0)] * n, options=options)
    return -found.fun, A @ found.x / ridge


@pytest.mark.parametrize("loss", ["hinge", "absolute"])
def test_losses_with_kinks(loss):
    rng = np.random.default_rng(7)
    data = [problems.rows(rng, n) for n in (30, 50, 40)]
    if loss == "absolute":
        data = [(X, X @ np.ones(20) / 4 + rng.standard_normal(len(X))) for X, _ in data]
    kind = Hinge() if loss == "hinge" else Absolute()
    problem = Problem([LinearModel(X, y, kind, ridge=1.0) for X, y in data])
    lower, star = box_dual(*(np.concatenate(part) for part in zip(*data)), loss, 1.0)
    assert 0 <= problem.value(star) - lower <= 1e-9
    result = run(problem, DualFL(), rounds=300)
    assert result.algorithm.rho == 0.0
    assert -1e-9 <= result.energy - lower <= 1e-5 * abs(lower)
    assert result.energy - lower - 1e-9 <= result.certificate <= 1e-4 * abs(lower)
    np.testing.assert_allclose(result.theta, star, rtol=0, atol=5e-3)


@pytest.mark.parametrize("where", ["client", "problem"])
def test_l1_and_ridge(where):
    """The penalty inside every client, or once for all: the same problem, solved exactly, zeros included."""
    rng = np.random.default_rng(8)
    truth = np.where(np.arange(20) < 5, 1.0, 0.0)
    data = []
    for n in (60, 30, 90, 45):
        X = rng.standard_normal((n, 20)) + rng.standard_normal(20) / 2
        data.append((X, X @ truth + rng.standard_normal(n) / 2))
    ridge, alpha = 0.2, 0.15
    clients = [LinearModel(X, y, Squared(), ridge=ridge) for X, y in data]
    if where == "client":
        problem = Problem([f + L1(alpha) for f in clients])
    else:
        problem = Problem(clients, penalty=L1(alpha))
    X, y = (np.concatenate(part) for part in zip(*data))
    reference = ReferenceElasticNet(
        alpha=alpha + ridge, l1_ratio=alpha / (alpha + ridge), fit_intercept=False, tol=1e-14, max_iter=100_000
    ).fit(X, y)
    star = reference.coef_
    result = run(problem, DualFL(), rounds=500, reference=problem.value(star))
    assert result.algorithm.rho == 0.0
    assert 5 <= (star == 0).sum() < 20
    assert result.history[-1].relative_error <= 1e-9
    np.testing.assert_allclose(result.theta, star, rtol=0, atol=1e-4)


def test_the_strong_convexity_may_come_from_the_penalty():
    rng = np.random.default_rng(9)
    clients = [LinearModel(*problems.rows(rng, 40), Squared()) for _ in range(3)]
    result = run(Problem(clients, penalty=ElasticNetPenalty(0.1, 0.5)), DualFL(), rounds=200)
    assert result.algorithm.nu == 0.5
    assert result.certificate <= 1e-5 * result.energy


# -- compressed uploads -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("codec", "nu", "rounds", "up"),
    [(TopK(5), 1.0, 500, 10), (RandK(15), 1.0, 170, 15), (RandK(10), 0.25, 360, 10), (Quantise(4), 1.0, 130, 1 + 2)],
)
def test_compressed_uploads_reach_the_optimum(codec, nu, rounds, up):
    instance = problems.quad()
    mu = min(f.mu for f in instance.problem.clients)
    result = run(instance.problem, DualFL(nu=nu * mu, accuracy="exact"), rounds=rounds, codec=codec)
    assert instance.error(result.theta) <= 1e-9
    assert result.history[-1].floats_up == 8 * rounds * (up + 3)


def test_too_much_compression_is_reported_as_divergence():
    instance = problems.quad()
    result = run(instance.problem, DualFL(accuracy="exact"), rounds=300, codec=RandK(5))
    assert result.stopped == "diverged"
    assert len(result.history) == result.rounds + 1 < 300
    assert np.isfinite(result.theta).all() and result.energy == result.history.column("energy").min()


class Forgetful(DualFL):
    """A client that keeps what it computed instead of what it released."""

    def solve(self, f, c, at, theta):
        sent, new = super().solve(f, c, at, theta)
        return sent, replace(new, sent=new.warm)

    solve.is_client_step = True


def test_a_client_that_keeps_what_it_did_not_release_stalls():
    instance = problems.quad()
    right = run(instance.problem, DualFL(accuracy="exact"), rounds=120, codec=TopK(5))
    wrong = run(instance.problem, Forgetful(accuracy="exact"), rounds=120, codec=TopK(5))
    assert instance.error(right.theta) <= 1e-4
    assert instance.error(wrong.theta) > 1e-2


# -- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"nu": 0.0}, r"nu = 0.0 is not allowed; it must lie in \(0, mu\], and mu = 0.01"),
        ({"nu": -1.0}, "nu = -1.0 is not allowed"),
        ({"nu": float("nan")}, "nu = nan is not allowed"),
        ({"nu": 0.02}, "nu = 0.02 is not allowed"),
        ({"nu": 0.02, "rho": 0.0}, "nu = 0.02 is not allowed; .* mu = 0.01"),  # nothing is left to find out
        ({"rho": 1.0}, r"rho = 1.0 is not allowed; it must lie in \[0, 1\)"),
        ({"rho": -0.1}, "rho = -0.1 is not allowed"),
        ({"rho": float("nan")}, "rho = nan is not allowed"),
        ({"gamma": 0.0}, "gamma = 0.0 is not allowed"),
        ({"G0": 0.0}, "G0 = 0.0 is not allowed"),
        ({"upload": "both"}, "upload = both is not allowed"),
        ({"accuracy": "good"}, "accuracy = good is not allowed; it is one of theorems"),
        ({"certificate": "gold"}, "certificate = gold is not allowed"),
    ],
)
def test_hyperparameters_outside_their_range(wrong, sentence):
    with pytest.raises(InputError, match=sentence):
        run(problems.logit().problem, DualFL(**wrong), rounds=1)


def test_unknown_hyperparameter():
    with pytest.raises(InputError, match="dualfl has no hyperparameter 'eta'; it has nu, rho"):
        make("dualfl", eta=1.0)


def test_costs_without_strong_convexity_are_refused():
    flat = LinearModel(np.ones((3, 2)), np.ones(3), Squared())
    with pytest.raises(NotSupported, match=r"dualfl needs a strongly convex objective, and .* has mu = 0"):
        run(Problem([flat]), DualFL(), rounds=1)
    free = LinearModel(np.ones((3, 2)), [0, 1, 2], Softmax(3), ridge=1.0, intercept="free")
    with pytest.raises(NotSupported, match="free intercept"):
        run(Problem([free]), DualFL(), rounds=1)


def test_the_memory_of_a_client_is_four_vectors_and_a_number():
    state = run(problems.logit().problem, DualFL(), rounds=2).silos[0].state
    assert isinstance(state, Local)
    for vector in (state.zeta, state.s, state.sent, state.warm):
        assert vector.shape == (20,) and not vector.flags.writeable
