"""Five hospitals, one model: the coefficients of the pooled table, and a proof, without the table.

python examples/pooled_equals_federated.py
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression as PooledLogisticRegression
from sklearn.preprocessing import StandardScaler as PooledScaler

from dualfl.estimators import LogisticRegression, StandardScaler, evaluate

X, y = load_breast_cancer(return_X_y=True)
y = np.where(y == 1, "benign", "malignant")

# Hospitals that are not alike: sorted by one measurement, and the fifth has three patients.
hospital = np.array_split(np.argsort(X[:, 0]), 4)
hospital = [hospital[0][3:], *hospital[1:], hospital[0][:3]]
silos = [(X[rows], y[rows]) for rows in hospital]
print("patients:", [len(rows) for rows in hospital], " malignant:", [int((t == "malignant").sum()) for _, t in silos])

# Means and variances, and then the model, from sums.
scaler = StandardScaler().fit_silos(silos)
scaled = [(scaler.transform(rows), labels) for rows, labels in silos]
model = LogisticRegression(C=1.0, tol=1e-10).fit_silos(scaled)
print(model.algorithm_)
print(f"{model.n_exchanges_} exchanges; proven: E - E* <= {model.certificate_:.1e}, E = {model.objective_:.6f}")

# What somebody with the whole table would have got.
pooled = PooledLogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-12).fit(PooledScaler().fit_transform(X), y)
difference = np.linalg.norm(model.coef_ - pooled.coef_) / np.linalg.norm(pooled.coef_)
print(f"coefficients differ from the pooled fit by {difference:.1e}, relatively")

# How good it is, everywhere and overall: only sums and histograms leave a hospital.
print(evaluate(model, scaled, names=[f"hospital {letter}" for letter in "ABCDE"]))
