"""scikit-learn's own checks, and that estimators go where scikit-learn's go."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from dualfl.estimators import (
    ElasticNet,
    HuberRegressor,
    Lasso,
    LinearSVC,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
    RidgeCV,
    StandardScaler,
)

RNG = np.random.default_rng(5)
X = RNG.normal(2.0, 3.0, size=(150, 3))
Y = (X[:, 0] + RNG.normal(size=150) > 2).astype(int)
SILO = np.array(["a", "b", "c"])[np.arange(150) % 3]


# These hand over folds of the pooled rows, and here silos deal their own rows into folds.
OWN_FOLDS = dict.fromkeys(
    [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")], "folds are made in silos"
)
# scikit-learn 1.6 hands sparse rows to every estimator; later versions ask first whether it takes them.
NOT_CENTRED = {"check_sample_weight_equivalence_on_sparse_data": "sparse rows are not centred"}
EXPECTED = {LogisticRegressionCV: OWN_FOLDS, RidgeCV: OWN_FOLDS, StandardScaler: NOT_CENTRED}


@pytest.mark.filterwarnings("ignore")  # data without signal, on purpose, in many checks
@parametrize_with_checks(
    [
        LogisticRegression(),
        LinearSVC(),
        Ridge(),
        Lasso(),
        ElasticNet(),
        HuberRegressor(),
        QuantileRegressor(),
        PoissonRegressor(),
        StandardScaler(),
        LogisticRegressionCV(Cs=[0.1, 1.0], cv=2),
        RidgeCV(alphas=[0.1, 1.0], cv=2),
    ],
    expected_failed_checks=lambda estimator: EXPECTED.get(type(estimator), {}),
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_clone_and_pickle():
    model = LogisticRegression(C=0.3, l1_ratio=0.2).fit(X, Y, groups=SILO)
    assert clone(model).get_params() == model.get_params() and not hasattr(clone(model), "coef_")
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict_proba(X) == model.predict_proba(X)).all() and len(again.history_) == len(model.history_)


def test_feature_names():
    frame = pd.DataFrame(X, columns=["age", "dose", "weight"])
    model = Ridge().fit_silos([(frame[:70], X[:70, 0]), (frame[70:], X[70:, 0])])
    assert list(model.feature_names_in_) == ["age", "dose", "weight"] and model.n_features_in_ == 3
    assert np.allclose(model.predict(frame), X @ model.coef_ + model.intercept_)
    with pytest.raises(ValueError, match="Silo 1: The feature names should match"):
        Ridge().fit_silos([(frame, X[:, 0]), (frame[["dose", "age", "weight"]], X[:, 0])])


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_pipeline_with_groups(routing):
    pipe = make_pipeline(
        StandardScaler().set_fit_request(groups=True), LogisticRegression(tol=1e-9).set_fit_request(groups=True)
    ).fit(X, Y, groups=SILO)
    model = pipe[-1]
    pooled = LogisticRegression(tol=1e-9).fit((X - X.mean(0)) / X.std(0), Y)
    assert np.allclose(model.coef_, pooled.coef_, rtol=1e-5)
    assert model.n_exchanges_ >= 2


def test_pipeline_without_routing():
    pipe = make_pipeline(StandardScaler(), Ridge())
    pipe.fit(X, X[:, 1], standardscaler__groups=SILO, ridge__groups=SILO)
    assert pipe.score(X, X[:, 1]) > 0.99


def test_grid_search_hands_the_silos_on(routing):
    seen = []

    class Watched(Ridge):
        def fit(self, X, y, groups=None, sample_weight=None):
            seen.append(np.unique(groups))
            return super().fit(X, y, groups=groups, sample_weight=sample_weight)

    search = GridSearchCV(Watched().set_fit_request(groups=True), {"alpha": [0.1, 10.0]}, cv=GroupKFold(3))
    search.fit(X, X[:, 1], groups=SILO)
    assert all(len(groups) == 2 for groups in seen[:-1]) and len(seen[-1]) == 3  # a silo is left out, then all fitted
    assert search.best_params_ == {"alpha": 0.1}


def test_iterations_have_scikit_learns_names():
    model = LogisticRegression(algorithm="nesterov", penalize_intercept=True, max_iter=7, tol=1e-12)
    with pytest.warns(ConvergenceWarning, match=r"after 7 rounds .* raise max_iter"):
        model.fit(X, Y, groups=SILO)
    assert model.n_iter_ == 7 == len(model.history_) - 1
    with pytest.raises(ValueError, match="max_iter must be a number >= 1, but it is 0"):
        LogisticRegression(max_iter=0).fit(X, Y)
