"""Whether an installed dualfl computes: `python tests/smoke.py`, with nothing but dualfl and what it needs.

For wheels, in an empty environment. It compares the compiled kernels with their NumPy twin on every loss, fits a model
to three silos, and compares it with the fit of the pooled rows. `--kernels numpy` is for wheels without compiled ones.
"""

import sys

import numpy as np

import dualfl
from dualfl import kernels
from dualfl.estimators import LogisticRegression
from dualfl.objectives import Huber, LinearModel, Logistic, Poisson, Softmax, Squared, SquaredHinge

LOSSES = (Logistic(), Squared(), SquaredHinge(), Huber(1.0), Poisson(), Softmax(3))


def answers(backend: str) -> list[np.ndarray]:
    """Value, gradient and Hessian products of every loss, by one kind of kernels."""
    kernels.use_backend(backend)
    rng, found = np.random.default_rng(0), []
    for loss in LOSSES:
        X = rng.normal(size=(97, 6))
        y = rng.integers(0, 3, size=97) if isinstance(loss, Softmax | Poisson) else np.where(X[:, 0] > 0, 1.0, -1.0)
        f = LinearModel(X, y, loss, ridge=0.1, intercept=True)
        x, p = rng.normal(size=f.d) / 4, rng.normal(size=f.d)
        found += [np.array([f.value(x)]), f.gradient(x), f.at(x).hessian_times(p)]
    return found


def main(wanted: str) -> None:
    print(f"dualfl {dualfl.__version__}, Python {sys.version.split()[0]}, {kernels.describe()}")
    if kernels.backend() != wanted:
        raise SystemExit(f"The kernels are {kernels.backend()}, and {wanted} ones were expected.")
    if wanted == "native":
        for isa in kernels.isas():
            kernels.use_isa(isa)
            for one, other in zip(answers("native"), answers("numpy"), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)
            print(f"{isa}: {len(LOSSES)} losses as the NumPy twin has them")
        kernels.use_backend("native")
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 4))
    y = X @ [1.0, -1.0, 0.5, 0.0] + rng.normal(size=300) > 0
    apart = LogisticRegression(tol=1e-10).fit(X, y, groups=[i % 3 for i in range(300)])
    pooled = LogisticRegression(tol=1e-10).fit(X, y, groups=[0] * 300)
    np.testing.assert_allclose(apart.coef_, pooled.coef_, rtol=1e-4)
    print(f"a fit on three silos is the pooled one; certificate {apart.certificate_:.0e}")


if __name__ == "__main__":
    main(sys.argv[2] if sys.argv[1:2] == ["--kernels"] else "native")
