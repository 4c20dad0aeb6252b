"""Not the mean but a range: the 10 %, 50 % and 90 % quantiles of disease progression, from three clinics.

python examples/quantile_regression.py
"""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import QuantileRegressor as PooledQuantileRegressor

from dualfl.estimators import QuantileRegressor, evaluate

X, y = load_diabetes(return_X_y=True)
X = X / X.std(axis=0)
clinic = np.digitize(y, [90, 180])  # mild, middling and severe cases go to different clinics
silos = [(X[clinic == c], y[clinic == c]) for c in range(3)]
print("patients:", [len(targets) for _, targets in silos])

for quantile in (0.1, 0.5, 0.9):
    model = QuantileRegressor(quantile=quantile, alpha=0.01, tol=1e-7).fit_silos(silos)
    pooled = PooledQuantileRegressor(quantile=quantile, alpha=0.01).fit(X, y)
    below = np.mean(y <= model.predict(X))
    difference = np.abs(model.coef_ - pooled.coef_).max()
    print(f"{quantile:.0%} quantile: {below:.1%} of the patients are below it; {model.n_exchanges_} exchanges")
    print(f"    {np.count_nonzero(model.coef_)} coefficients are left; proven: E - E* <= {model.certificate_:.0e}")
    print(f"    coefficients differ from the pooled linear program by {difference:.0e} at most")

print("\nthe last one, by clinic:")
print(evaluate(model, silos, names=["mild", "middling", "severe"]))
