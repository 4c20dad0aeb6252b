"""A fitted model as an estimator of scikit-learn: the same coefficients, and nothing of dualfl is needed to predict."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.linear_model import LinearRegression, PoissonRegressor
from sklearn.linear_model import LogisticRegression as PlainLogistic
from sklearn.svm import LinearSVC as PlainSVC
from sklearn.utils.validation import check_is_fitted

from dualfl.errors import NotSupported
from dualfl.objectives.families import Gamma, NegativeBinomial, Tweedie
from dualfl.objectives.losses import Hinge, Logistic, Poisson, Softmax, SquaredHinge

LOG_LINK = (Poisson, Gamma, Tweedie, NegativeBinomial)


def to_sklearn(model: Any) -> Any:
    """The estimator of scikit-learn that predicts the same; refused where it has none.

    Parameters
    ----------
    model : a fitted linear estimator of this library.
    """
    check_is_fitted(model)
    loss = model._cost(1.0).loss
    made: Any
    if isinstance(loss, Logistic | Softmax) and hasattr(model, "predict_proba"):
        made = PlainLogistic()
    elif isinstance(loss, Hinge | SquaredHinge):
        made = PlainSVC()
    elif is_classifier(model) or not hasattr(model, "intercept_"):
        raise NotSupported(f"scikit-learn has no estimator that predicts as {type(model).__name__} does.")
    elif isinstance(loss, LOG_LINK):
        made = PoissonRegressor()  # exp of the linear predictor, whichever the family
        made._base_loss = made._get_loss()
    elif np.ndim(model.intercept_) > 0 or not hasattr(model, "_location"):
        raise NotSupported(f"scikit-learn has no estimator that predicts as {type(model).__name__} does.")
    else:
        made = LinearRegression()
    W = np.asarray(model.coef_, dtype=np.float64)
    if is_classifier(made):
        made.classes_ = np.asarray(model.classes_)
        made.coef_, made.intercept_ = np.atleast_2d(W).copy(), np.atleast_1d(np.asarray(model.intercept_, dtype=float))
    else:
        made.coef_, made.intercept_ = W.ravel().copy(), np.float64(np.asarray(model.intercept_).ravel()[0])
    made.n_features_in_ = int(model.n_features_in_)
    if hasattr(model, "feature_names_in_"):
        made.feature_names_in_ = np.asarray(model.feature_names_in_, dtype=object)
    made.n_iter_ = np.array([getattr(model, "n_iter_", 0)], dtype=np.int32)
    return made
