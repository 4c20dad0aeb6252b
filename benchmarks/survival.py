"""Cox regression of many rows: dualfl over silos against pooled rivals, processor time in one run.

    python -m benchmarks.survival                        # 100,000 rows, 50 columns, 3 silos; a few minutes
    python -m benchmarks.survival --rows 20000 --rivals lifelines

Rivals are fitted to rows without silos (one stratum), and so is dualfl for the comparison; dualfl over three silos is
shown beside. All start from the same arrays. Rivals that are not installed are left out, and said so; none is a
dependency of dualfl: pip install lifelines scikit-survival statsmodels.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dualfl import kernels
from dualfl.estimators import CoxPH, survival_target


def data(n: int, d: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Normal columns, exponential times, half of the rows censored, times rounded so that some are tied."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    w = rng.normal(size=d) / np.sqrt(d)
    T, C = rng.exponential(np.exp(-X @ w)), rng.exponential(np.exp(0.0), n)
    time_seen = np.ceil(np.minimum(T, C) * 1e5) / 1e5
    return X, time_seen, C >= T


def dualfl_fit(X: Any, t: Any, e: Any, groups: Any = None, ties: str = "efron") -> Any:
    model = CoxPH(tol=1e-9, ties=ties).fit(X, survival_target(e, t), groups=groups)
    return model.coef_


def lifelines_fit(X: Any, t: Any, e: Any) -> Any:
    import pandas as pd
    from lifelines import CoxPHFitter

    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    frame["t"], frame["e"] = t, e
    return CoxPHFitter().fit(frame, "t", "e").params_.to_numpy()


def sksurv_fit(X: Any, t: Any, e: Any) -> Any:
    from sksurv.linear_model import CoxPHSurvivalAnalysis
    from sksurv.util import Surv

    return CoxPHSurvivalAnalysis(ties="breslow").fit(X, Surv.from_arrays(e, t)).coef_


def statsmodels_fit(X: Any, t: Any, e: Any) -> Any:
    import statsmodels.api as sm

    return sm.PHReg(t, X, status=e.astype(int), ties="breslow").fit().params


RIVALS: dict[str, Callable[..., Any]] = {
    "lifelines": lifelines_fit,
    "scikit-survival": sksurv_fit,
    "statsmodels": statsmodels_fit,
}


def timed(fit: Callable[..., Any], *given: Any, **options: Any) -> tuple[float, Any]:
    start = time.process_time()
    found = fit(*given, **options)
    return time.process_time() - start, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--rivals", default=",".join(RIVALS))
    asked = parser.parse_args()
    X, t, e = data(asked.rows, asked.columns)
    print(f"{asked.rows:,} rows, {asked.columns} columns, {int(e.sum()):,} events; {kernels.describe()}")
    small = data(500, 5)
    dualfl_fit(*small)  # what is imported and compiled on first use is nobody's time
    own, coef = timed(dualfl_fit, X, t, e)
    print(f"dualfl, one silo, Efron        {own:8.2f} s")
    seconds, breslow = timed(dualfl_fit, X, t, e, ties="breslow")
    print(f"dualfl, one silo, Breslow      {seconds:8.2f} s")
    seconds, _ = timed(dualfl_fit, X, t, e, groups=np.arange(len(t)) % 3)
    print(f"dualfl, three silos            {seconds:8.2f} s")
    fastest = np.inf
    for name in asked.rivals.split(","):
        try:
            RIVALS[name](*small)
        except ImportError:
            print(f"{name:31}not installed")
            continue
        seconds, other = timed(RIVALS[name], X, t, e)
        against = coef if name == "lifelines" else breslow
        off = float(np.abs(other - against).max())
        print(f"{name:31}{seconds:8.2f} s   {seconds / own:6.1f} times dualfl's   coefficients differ by {off:.1e}")
        fastest = min(fastest, seconds)
    if np.isfinite(fastest):
        verdict = "met" if own <= fastest else "MISSED"
        print(f"no slower than the fastest rival: {verdict}; {fastest / own:.1f} times as fast (the aim is 5)")


if __name__ == "__main__":
    main()
