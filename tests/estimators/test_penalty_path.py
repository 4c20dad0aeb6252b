"""The penalty by federated cross-validation: the same losses as fits by hand, and choices that make sense."""

import numpy as np
import pytest
import sklearn.linear_model as pooled
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.metrics import log_loss, mean_pinball_loss
from sklearn.preprocessing import scale

from dualfl.errors import InputError
from dualfl.estimators import LassoCV, LinearSVCCV, LogisticRegressionCV, QuantileRegressorCV, RidgeCV
from dualfl.estimators.folds import make_folds
from dualfl.silos.chamber import Chamber, Dealing, SiloRows

X, Y = load_diabetes(return_X_y=True)
X = scale(X)
SILO = np.where(np.arange(442) == 3, 9, np.arange(442) % 3)


def test_ridge_losses_are_those_of_fits_by_hand():
    model = RidgeCV(alphas=[0.1, 10.0, 1000.0], cv="silo", tol=1e-9).fit(X, Y, groups=SILO)
    assert list(model.path_.values) == [1000.0, 10.0, 0.1] and model.path_.folds == ("0", "1", "2", "9")
    for name, line in zip((0, 1, 2, 9), model.path_.losses):
        train, test = SILO != name, SILO == name
        for alpha, loss in zip(model.path_.values, line):
            by_hand = pooled.Ridge(alpha).fit(X[train], Y[train])
            assert np.isclose(loss, ((Y[test] - by_hand.predict(X[test])) ** 2).mean() / 2, rtol=1e-9)
    mean = model.path_.masses @ model.path_.losses / 442
    assert model.alpha_ == model.path_.values[mean.argmin()] and list(model.path_.masses) == [147, 147, 147, 1]
    assert np.allclose(model.coef_, pooled.Ridge(model.alpha_).fit(X, Y).coef_)


def test_lasso_path_begins_where_nothing_is_left():
    Z = X + 2.0  # not centred: the intercept matters
    model = LassoCV(alphas=6, cv=3).fit(Z, Y, groups=SILO)
    strongest = model.path_.values[0]
    assert np.isclose(strongest, np.abs((X - X.mean(0)).T @ (Y - Y.mean())).max() / 442)
    assert not pooled.Lasso(strongest * 1.0001).fit(Z, Y).coef_.any()
    assert pooled.Lasso(strongest * 0.99, tol=1e-10).fit(Z, Y).coef_.any()
    assert 0 < model.path_.chosen < 6


def test_rule_of_one_standard_error_penalises_more():
    least = LassoCV(alphas=6, cv=3).fit(X, Y, groups=SILO)
    more = LassoCV(alphas=6, cv=3, rule="1se").fit(X, Y, groups=SILO)
    assert more.alpha_ > least.alpha_
    path = more.path_
    assert path.mean[path.chosen] <= path.mean.min() + path.standard_error[path.mean.argmin()]


def test_l1_logistic_with_several_classes():
    Z, y = load_wine(return_X_y=True)
    Z = scale(Z)[:, :5]
    model = LogisticRegressionCV(Cs=3, l1_ratio=1.0, cv="silo", tol=1e-5).fit(Z, y, groups=np.arange(178) % 2)
    assert not np.any(model._plain(model.path_.values[0] * 0.99)._fit_here(_silos(model, Z, y)).coef_)
    fold = model._plain(model.path_.values[1])._fit_here(_silos(model, Z[1::2], y[1::2]))
    expected = log_loss(y[::2], fold.predict_proba(Z[::2]))
    assert np.isclose(model.path_.losses[0, 1], expected, rtol=1e-3)
    assert model.C_ == model.path_.value and model.predict_proba(Z).shape == (178, 3)


def _silos(model, Z, y):
    return [SiloRows("all", Z, y)]


def test_machines_and_quantiles_choose_too():
    Z, y = load_breast_cancer(return_X_y=True)
    machine = LinearSVCCV(Cs=[1e-4, 1e-2], cv=2).fit(scale(Z), y, groups=np.arange(569) % 2)
    assert machine.C_ == 1e-2
    few = QuantileRegressorCV(quantile=0.8, alphas=3, cv=2, tol=1e-4).fit(X[:, :3], Y, groups=SILO)
    assert few.alpha_ in few.path_.values
    nothing = mean_pinball_loss(Y, np.full(442, np.quantile(Y, 0.8)), alpha=0.8)
    assert np.isclose(few.path_.mean[0], nothing, rtol=0.05)  # all coefficients are zero there


def test_folds_are_inside_every_silo_and_by_class():
    y = np.array([0] * 10 + [1] * 5)
    silos = [SiloRows("a", np.arange(15.0)[:, None], y), SiloRows("b", np.arange(15.0, 16.0)[:, None], np.array([1]))]
    chambers = [Chamber(silo, Dealing(0, j, by_class=True)) for j, silo in enumerate(silos)]
    tests = [fold.test for fold in make_folds(["a", "b"], 5)]
    held = [part.X[:, 0] for rows in tests for chamber in chambers if (part := chamber.chosen(rows)) is not None]
    assert sorted(np.concatenate(held)) == list(range(16))
    for rows in tests:
        mine = chambers[0].chosen(rows)
        assert (mine.y == 0).sum() == 2 and (mine.y == 1).sum() == 1
        others = chambers[0].chosen(rows.opposite)
        assert sorted([*mine.X[:, 0], *others.X[:, 0]]) == list(range(15))
    other = Chamber(silos[0], Dealing(1, 0, by_class=True))
    assert any(not np.array_equal(chambers[0].chosen(rows).X, other.chosen(rows).X) for rows in tests)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"cv": 1}, 'cv must be a number of folds >= 2 or "silo", but it is 1'),
        ({"cv": "silo"}, "there is only one"),
        ({"alphas": [0.0, 1.0]}, "must be positive"),
        ({"rule": "best"}, "'best'"),
    ],
)
def test_refusals(settings, why):
    with pytest.raises(InputError, match=why):
        RidgeCV(**settings).fit(X, Y)


def test_a_class_that_only_one_silo_has():
    Z, y = load_breast_cancer(return_X_y=True)
    with pytest.raises(InputError, match=r"Without 0 only 1 of 2 classes are left.*take 5 folds"):
        LogisticRegressionCV(cv="silo").fit(Z, y, groups=y)


def test_advice_for_a_rare_class_is_not_what_was_done_already():
    y = np.arange(40) % 2
    y[7] = 2
    with pytest.raises(InputError, match="only 2 of 3 classes are left to train on; give rare classes more rows"):
        LogisticRegressionCV(cv=5).fit(np.random.default_rng(0).normal(size=(40, 2)), y, groups=np.arange(40) % 4)


def test_the_picture():
    figure = RidgeCV(alphas=[0.1, 10.0, 1000.0], cv=3).fit(X, Y, groups=SILO).path_.figure()
    axes = figure.axes[0]
    assert axes.get_xlabel() == "alpha" and "chosen" in axes.get_legend().get_texts()[1].get_text()
