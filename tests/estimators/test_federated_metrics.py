"""Evaluation from sums against scikit-learn's metrics on the pooled predictions."""

import numpy as np
import pytest
from sklearn import metrics
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.preprocessing import scale

from dualfl.errors import InputError
from dualfl.estimators import LinearSVC, LogisticRegression, PoissonRegressor, QuantileRegressor, Ridge, evaluate
from dualfl.estimators.metrics import ClassificationSums


def split(X, y, w=None):
    groups = np.where(np.arange(len(y)) < 3, 5, np.arange(len(y)) % 3)
    return [(X[groups == g], y[groups == g], None if w is None else w[groups == g]) for g in np.unique(groups)]


@pytest.mark.parametrize("weighted", [False, True])
def test_two_classes(weighted):
    X, y = load_breast_cancer(return_X_y=True)
    X, y = scale(X)[:, :4], np.array(["benign", "malignant"])[1 - y]
    w = np.random.default_rng(0).random(len(y)) if weighted else None
    model = LogisticRegression().fit(X, y)
    sums = evaluate(model, split(X, y, w)).overall
    p = model.predict_proba(X)
    assert np.isclose(sums.log_loss, metrics.log_loss(y, p, sample_weight=w), rtol=1e-12)
    assert np.isclose(sums.accuracy, model.score(X, y, sample_weight=w))
    exact = metrics.roc_auc_score(y, p[:, 1], sample_weight=w)
    assert 0 < sums.auc_error < 1e-3 and abs(sums.auc - exact) <= sums.auc_error + 1e-15
    assert sums.bins == 1000
    fpr, tpr = sums.roc()
    assert (np.diff(fpr) >= 0).all() and fpr[0] == tpr[0] == 0 and np.isclose(tpr[-1], 1)
    if not weighted:
        predicted, observed, mass = sums.calibration()
        theirs = calibration_curve(y == "malignant", p[:, 1], n_bins=10)
        assert np.allclose(observed, theirs[0]) and np.allclose(predicted, theirs[1]) and mass.sum() == len(y)


def test_few_bins_stay_within_the_stated_error():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)[:, :2]
    model = LogisticRegression().fit(X, y)
    exact = metrics.roc_auc_score(y, model.decision_function(X))
    errors = []
    for bins in (5, 20, 100, 100_000):
        sums = evaluate(model, split(X, y), bins=bins).overall
        assert abs(sums.auc - exact) <= sums.auc_error + 1e-14
        errors.append(sums.auc_error)
    assert errors == sorted(errors, reverse=True) and errors[0] > 1e-2 and errors[-1] < 1e-4


def test_exact_where_scores_fall_into_bins_of_their_own():
    z = np.array([-2.0, -1.0, -0.5, 0.25, 0.5, 1.5])
    y = np.array([0, 1, 0, 0, 1, 1])

    class Model(LogisticRegression):
        pass

    model = Model().fit(z[:, None], y)
    model.coef_, model.intercept_ = np.array([[1.0]]), np.array([0.0])
    sums = evaluate(model, [(z[:2, None], y[:2]), (z[2:, None], y[2:])]).overall
    assert sums.auc_error == 0 and np.isclose(sums.auc, metrics.roc_auc_score(y, z), rtol=1e-14)


def test_several_classes_and_silos_without_some():
    X, y = load_wine(return_X_y=True)
    X = scale(X)[:, :3]
    model = LogisticRegression().fit(X, y)
    found = evaluate(model, [(X[y == c], y[y == c]) for c in range(3)], names=["a", "b", "c"])
    p = model.predict_proba(X)
    assert np.isclose(found.overall.log_loss, metrics.log_loss(y, p))
    assert abs(found.overall.auc - metrics.roc_auc_score(y, p, multi_class="ovr")) <= found.overall.auc_error
    assert np.isnan(found.silos["a"].aucs).all() and found.silos["a"].accuracy > 0.5
    assert str(found).splitlines()[-1].startswith("overall")


def test_a_machine_without_probabilities():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)[:, :5]
    model = LinearSVC().fit(X, y)
    sums = evaluate(model, split(X, y)).overall
    assert np.isnan(sums.log_loss)
    assert abs(sums.auc - metrics.roc_auc_score(y, model.decision_function(X))) <= sums.auc_error


@pytest.mark.parametrize("weighted", [False, True])
def test_regression(weighted):
    X, y = load_diabetes(return_X_y=True)
    y = y + 1e7  # where sums of squares would round
    w = np.random.default_rng(0).random(len(y)) if weighted else None
    model = Ridge(0.1).fit(X, y)
    found = evaluate(model, split(X, y, w), quantile=0.8)
    z = model.predict(X)
    assert np.isclose(found.overall.r2, metrics.r2_score(y, z, sample_weight=w), rtol=1e-7)
    assert np.isclose(found.overall.mean_squared_error, metrics.mean_squared_error(y, z, sample_weight=w))
    assert np.isclose(found.overall.mean_absolute_error, metrics.mean_absolute_error(y, z, sample_weight=w))
    assert np.isclose(found.overall.pinball, metrics.mean_pinball_loss(y, z, sample_weight=w, alpha=0.8))
    assert [sums.n for sums in found.silos.values()] == [len(part[1]) for part in split(X, y)]


def test_own_quantile_and_own_deviance():
    X, y = load_diabetes(return_X_y=True)
    quantile = QuantileRegressor(quantile=0.9, alpha=0.01).fit(X, y)
    assert np.isclose(
        evaluate(quantile, split(X, y)).overall.pinball, metrics.mean_pinball_loss(y, quantile.predict(X), alpha=0.9)
    )
    poisson = PoissonRegressor().fit(X, y)
    deviance = metrics.mean_poisson_deviance(y, poisson.predict(X))
    found = evaluate(poisson, split(X, y))
    assert np.isclose(found.overall.poisson_deviance, deviance)
    assert found.table()["overall"]["deviance"] == found.overall.poisson_deviance


def test_a_deviance_that_some_silo_does_not_have_is_in_no_line():
    X, y = load_diabetes(return_X_y=True)
    y[-1] = -1.0
    found = evaluate(Ridge(0.1).fit(X, y), split(X, y))
    assert any(np.isfinite(sums.poisson_deviance) for sums in found.silos.values())
    assert all("deviance" not in line for line in found.table().values())
    assert len({len(line) for line in str(found).splitlines()}) == 1


def test_only_sums_leave_a_silo():
    """What is sent has a size that does not depend on the rows."""
    X, y = load_breast_cancer(return_X_y=True)
    model = LogisticRegression().fit(scale(X), y)
    sizes = [
        [np.size(getattr(sums, name)) for name in ClassificationSums.__dataclass_fields__]
        for sums in evaluate(model, split(scale(X), y)).silos.values()
    ]
    assert all(size == sizes[0] for size in sizes)


def test_refusals():
    X, y = load_breast_cancer(return_X_y=True)
    model = LogisticRegression(C=1e-3).fit(scale(X), y)
    with pytest.raises(InputError, match="Silo 0 has the class 2, which the model does not know"):
        evaluate(model, [(X, y + 1)])
    with pytest.raises(InputError, match="at least one silo"):
        evaluate(model, [])
    with pytest.raises(InputError, match="569 rows and 3 targets"):
        evaluate(model, [(X, y[:3])])


@pytest.mark.parametrize("names", [["a", "a"], ["a", "overall"]])
def test_silos_are_told_apart_by_their_names(names):
    X, y = np.arange(8.0).reshape(4, 2), np.arange(4.0)
    with pytest.raises(InputError, match="Every silo needs a name of its own"):
        evaluate(Ridge().fit(X, y), [(X, y), (X, y)], names=names)


def test_a_silo_without_weight_is_left_out_as_in_a_fit():
    X, y = np.arange(8.0).reshape(4, 2), np.array([1.0, 0.0, 2.0, 1.0])
    model = Ridge().fit(X, y)
    found = evaluate(model, [(X, y), (X, y, np.zeros(4))], names=["a", "b"])
    assert list(found.silos) == ["a"] and found.overall.table() == found.silos["a"].table()
    with pytest.raises(InputError, match="All sample weights are zero"):
        evaluate(model, [(X, y, np.zeros(4))])
