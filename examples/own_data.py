"""Your own silos: one LinearModel a client, and L1 so that few coefficients are left.

python examples/own_data.py
"""

import numpy as np

from dualfl import L1, DualFL, LinearModel, Logistic, Problem, run

rng = np.random.default_rng(0)
truth = np.zeros(30)
truth[:4] = (2.0, -1.0, 1.0, -2.0)


def hospital(patients: int, shift: float) -> LinearModel:
    """Rows of one client; no two are alike in size or in what they see."""
    X = rng.normal(shift, 1.0, size=(patients, truth.size))
    y = np.where(X @ truth + rng.logistic(size=patients) > 0, 1.0, -1.0)
    return LinearModel(X, y, Logistic(), ridge=1e-2)


problem = Problem([hospital(80, 0.0), hospital(200, 0.5), hospital(500, -0.5)], penalty=L1(0.03))
result = run(problem, DualFL(), rounds=2000, tol=1e-6)

print(f"{result.rounds} rounds, {result.history[-1].floats_up:,} floats sent by the clients")
print(f"E = {result.energy:.6f}, and proven: E - E* <= {result.certificate:.1e}")
print("coefficients that are left:", {int(i): round(float(result.theta[i]), 2) for i in np.flatnonzero(result.theta)})
