"""The Gram metric: an approximate inverse Hessian, exact where the curvature of the loss is the same in every row."""

import os
import signal
import threading
import warnings

import numpy as np
import pytest

from dualfl.errors import InputError
from dualfl.objectives import LinearModel, Logistic, Squared
from dualfl.solvers import GradientNorm, NewtonCG
from dualfl.solvers import moment_metric as metric
from dualfl.solvers.moment_metric import FULL, choose_metric

D = FULL + 44  # features: M is cut to a low rank unless all of it is asked for


def rows(n=3000, decay=0.97, seed=0):
    """Rows whose second moments fall slowly over many magnitudes, which a low rank does not catch."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D)) * decay ** np.arange(D)
    return X, np.sign(X @ rng.standard_normal(D) + 3 * rng.standard_normal(n))


def test_all_of_the_metric_inverts_the_hessian_of_least_squares():
    X, y = rows()
    f = LinearModel(X, y, Squared(), 1e-6)
    point, v = f.at(np.zeros(f.d)), np.random.default_rng(1).standard_normal(f.d)
    inverse = np.linalg.solve(f.hessian(point.x), v)
    full, cut = (choose_metric(name, f, "it").at(point)(v) for name in ("full", "gram"))
    np.testing.assert_allclose(full, inverse, rtol=1e-6, atol=1e-8 * np.abs(inverse).max())
    assert np.linalg.norm(cut - inverse) > 0.5 * np.linalg.norm(inverse)


def test_with_a_tiny_ridge_all_of_the_metric_saves_hessian_products():
    X, y = rows()
    products = {}
    for name in ("full", "gram"):
        f = LinearModel(X, y, Logistic(), 1e-6)
        found = NewtonCG(metric=name).solve(f, None, GradientNorm(1e-9, cap=100))
        assert np.linalg.norm(f.gradient(found.x)) <= 1e-9
        products[name] = f.cost.hessian_products
    assert products["full"] < 0.1 * products["gram"], products


def test_the_two_metrics_of_one_data_set_are_not_taken_for_each_other():
    X, y = rows()
    f = LinearModel(X, y, Squared(), 1e-3)
    ranks = [len(choose_metric(name, f, "it").w) for name in ("gram", "full", "gram")]
    assert ranks[0] == ranks[2] < ranks[1] == f.design.D


def test_a_metric_that_does_not_exist():
    with pytest.raises(InputError, match='"auto", "gram", "full" or "none", but it is \'fisher\''):
        NewtonCG(metric="fisher")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
def test_a_child_forked_while_another_thread_finds_axes_finds_its_own(monkeypatch):
    """The lock is held by a thread that the child does not have."""
    begun, go_on = threading.Event(), threading.Event()

    def slow(f):
        begun.set()
        go_on.wait(60)
        return metric.Axes(np.ones(1), np.ones((1, 1)))

    f = LinearModel(np.eye(4), np.arange(4.0), Squared(), 0.1)
    other = LinearModel(np.eye(3), np.arange(3.0), Squared(), 0.1)
    with monkeypatch.context() as patch:
        patch.setattr(metric, "_all_axes", slow)
        busy = threading.Thread(target=metric.axes, args=(f,))
        busy.start()
        assert begun.wait(60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks beside threads; that is the case
        child = os.fork()
    if child == 0:
        signal.alarm(20)  # a deadlock ends the child, and the parent sees it
        metric.axes(other)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    go_on.set()
    busy.join()
    assert status == 0
