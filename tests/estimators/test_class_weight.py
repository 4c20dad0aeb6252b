"""class_weight is scikit-learn's, from class counts that silos add up."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import linear_model

from dualfl.errors import InputError
from dualfl.estimators import CLogLogRegression, LinearSVC, LogisticRegression, PoissonRegressor


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.array(["no", "yes"])[(X[:, 0] + rng.normal(size=200) > 1).astype(int)]
    return X, y, np.argsort(np.argsort(y)) // 70, rng.random(200)


@pytest.mark.parametrize("given", ["balanced", {"yes": 3.0}, {"yes": 5, "no": 0.5}])
def test_logistic_regression(given):
    X, y, silo, _ = data()
    own = LogisticRegression(class_weight=given, tol=1e-10).fit(X, y, groups=silo)
    other = linear_model.LogisticRegression(class_weight=given, tol=1e-10, max_iter=1000).fit(X, y)
    assert_allclose(own.coef_, other.coef_, rtol=1e-4)
    assert_allclose(own.intercept_, other.intercept_, rtol=1e-4)


def test_it_is_a_weight_of_rows():
    X, y, silo, w = data()
    for make in (LinearSVC, lambda **o: CLogLogRegression(C=1.0, **o)):
        own = make(class_weight={"yes": 2.5}, tol=1e-9).fit(X, y, groups=silo, sample_weight=w)
        same = make(tol=1e-9).fit(X, y, groups=silo, sample_weight=np.where(y == "yes", 2.5 * w, w))
        assert_allclose(own.coef_, same.coef_, rtol=1e-9)


def test_bad_input():
    X, y, _, _ = data()
    with pytest.raises(InputError, match="class_weight names the class 'maybe'"):
        LogisticRegression(class_weight={"maybe": 1.0}).fit(X, y)
    with pytest.raises(InputError, match="class_weight must be a number >= 0, but it is -1"):
        LogisticRegression(class_weight={"yes": -1.0}).fit(X, y)
    with pytest.raises(InputError, match='must be None, "balanced" or a dict'):
        LogisticRegression(class_weight="equal").fit(X, y)


def test_predictions_know_an_offset():
    X = data()[0]
    model = PoissonRegressor(alpha=0.1).fit(X, np.arange(200) % 4, offset=np.full(200, 0.5))
    assert_allclose(model.predict(X, offset=np.ones(200)), np.e * model.predict(X))
