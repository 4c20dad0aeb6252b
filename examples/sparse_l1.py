"""A sparse model: l1 logistic regression on a8a (breast cancer where it is not at hand), the penalty chosen by silos.

DUALFL_DATA=... python examples/sparse_l1.py
"""

import numpy as np

from dualfl.data import load
from dualfl.errors import DualflError
from dualfl.estimators import LogisticRegression, LogisticRegressionCV

try:
    data = load("a8a")
except DualflError as missing:
    print(f"a8a is not at hand, so this is breast cancer. ({missing})")
    data = load("breast_cancer")
X, y = data.X, np.asarray(data.classes)[data.y]

# Four silos by label: none of the first two has seen the other class.
order = np.argsort(y, kind="stable")
silo = np.empty(data.n, dtype=int)
for number, rows in enumerate(np.array_split(order, 4)):
    silo[rows] = number

# Folds inside every silo, a few penalties from "nothing is left" downwards, each fit started from the one before.
search = LogisticRegressionCV(Cs=3, l1_ratio=1.0, cv=2, rule="1se", tol=1e-3).fit(X, y, groups=silo)
for C, loss in zip(search.path_.values, search.path_.mean):
    print(f"C = {C:<10.3g} held-out log loss {loss:.4f}" + ("  <- chosen" if search.C_ == C else ""))
search.path_.figure().savefig("path.png", dpi=160)

model = LogisticRegression(C=search.C_, l1_ratio=1.0, tol=1e-6).fit(X, y, groups=silo)
kept = np.count_nonzero(model.coef_)
print(f"{data.name}: {kept} of {data.features} coefficients are left, {model.n_exchanges_} exchanges")
print(f"E = {model.objective_:.6f}, and proven: E - E* <= {model.certificate_:.1e}")
print("picture: path.png")
