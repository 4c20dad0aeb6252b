"""What silos evaluate of an estimator is what its `predict` says."""

import numpy as np
import pytest
from far import make_homes
from test_fit_far import Near

from dualfl.estimators import (
    CLogLogRegression,
    GammaRegressor,
    LinearSVC,
    LogisticRegression,
    NegativeBinomialRegressor,
    OrdinalRegression,
    PoissonRegressor,
    QuantileRegressor,
    RidgeCV,
    evaluate,
)


def rows_of(kind, seed, n=60):
    """Columns, and a target of this kind."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).round(6)
    z = X @ [1.0, -0.5, 0.2] + rng.logistic(size=n) / 2
    levels = (z > -0.7).astype(int) + (z > 0.5)
    return X, {
        "two": np.where(z > 0, "yes", "no"),
        "levels": np.array(["poor", "fair", "good"])[levels],  # whose order is no alphabet's
        "counts": rng.poisson(np.exp(z)),
        "amounts": np.exp(z).round(6),
    }[kind]


EVALUATED = {
    "margins": ("two", LinearSVC()),
    "margins of three": ("levels", LinearSVC()),
    "three classes": ("levels", LogisticRegression(C=3.0)),
    "clog-log": ("two", CLogLogRegression()),
    "counts": ("counts", PoissonRegressor(alpha=0.1)),
    "more spread": ("counts", NegativeBinomialRegressor(alpha=0.1, dispersion=0.5)),
    "amounts": ("amounts", GammaRegressor(alpha=0.1)),
    "quantile": ("amounts", QuantileRegressor(quantile=0.8, alpha=0.1)),
    "chosen": ("amounts", RidgeCV(alphas=[0.1, 1.0], cv=2)),
    "levels": ("levels", OrdinalRegression(levels=["poor", "fair", "good"])),
}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names", "ignore:tol was not certified")
@pytest.mark.parametrize("case", EVALUATED)
def test_silos_evaluate_what_the_estimator_predicts(case, tmp_path):
    kind, model = EVALUATED[case]
    silos, paths = [rows_of(kind, seed) for seed in range(3)], []
    for name, (X, y) in zip("abc", silos):
        paths.append(tmp_path / f"{name}.csv")
        lines = [",".join([*map(repr, x.tolist()), str(one)]) for x, one in zip(X, y)]
        paths[-1].write_text("\n".join(["u,v,w,y", *lines]) + "\n")
    task = "classification" if kind in ("two", "levels") else "regression"
    policy = {"approval": "none", "task": task, "kinks": True, "least_per_cell": 0, "least_per_level": 0}
    study = Near(make_homes(tmp_path / "homes", paths, "y", None, show_own_numbers=True, policy=policy))
    found = evaluate(model.fit_silos(study), study).overall
    X, y = np.vstack([X for X, _ in silos]), np.concatenate([y for _, y in silos])
    if case == "levels":  # `evaluate` takes no model of levels here
        own = np.searchsorted(np.sort(model.classes_), y)
        p = model.predict_proba(X)[:, np.argsort(model.classes_)][np.arange(len(y)), own]
        assert found.accuracy == pytest.approx(np.mean(model.predict(X) == y))
        assert found.log_loss == pytest.approx(-np.log(p).mean())
        return
    expected = evaluate(model, silos).overall.table()
    if case in ("amounts", "quantile"):  # Poisson's, which silos tell of counts only
        del expected["deviance"]
    assert found.table() == pytest.approx(expected, nan_ok=True)
