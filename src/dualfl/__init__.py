"""dualfl: fit one convex model to rows that are kept in several places, with a proof that it is the best one.

* `dualfl.estimators` has regression, classification and survival models in the style of scikit-learn:
  `LogisticRegression().fit(X, y, groups=silo)`.
* `connect` reaches the silos of a deployment; estimators take it in `fit_silos`.
* `make_problem`, `run`, `compare` and `reference` are for research: about sixty algorithms in `dualfl.algorithms`,
  among them `DualFL`, on one problem, measured in the same way.

    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, "auto", rounds=20, tol=1e-6)
    >>> result.certificate <= 1e-6 * result.energy
    True

Names are imported when they are first used, so that `import dualfl` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dualfl.version import __version__

if TYPE_CHECKING:
    from dualfl import (
        algorithms,
        data,
        engines,
        errors,
        estimators,
        kernels,
        objectives,
        optimum,
        report,
        solvers,
        testing,
    )
    from dualfl.algorithms import DualFL
    from dualfl.algorithms.plugins import load_plugin
    from dualfl.algorithms.registry import register
    from dualfl.data import Dataset, load, make_problem
    from dualfl.deploy.study import connect
    from dualfl.engines import History, Problem, Result
    from dualfl.engines.launch import run
    from dualfl.errors import DualflError
    from dualfl.experiments.compare import compare
    from dualfl.objectives import (
        L1,
        ElasticNetPenalty,
        Function,
        Hinge,
        Huber,
        LinearModel,
        Logistic,
        Quadratic,
        Softmax,
        Squared,
    )
    from dualfl.optimum import reference
    from dualfl.report import convergence_figure
    from dualfl.solvers import minimise

__all__ = [
    "L1",
    "Dataset",
    "DualFL",
    "DualflError",
    "ElasticNetPenalty",
    "Function",
    "Hinge",
    "History",
    "Huber",
    "LinearModel",
    "Logistic",
    "Problem",
    "Quadratic",
    "Result",
    "Softmax",
    "Squared",
    "__version__",
    "algorithms",
    "compare",
    "connect",
    "convergence_figure",
    "data",
    "engines",
    "errors",
    "estimators",
    "kernels",
    "load",
    "load_plugin",
    "make_problem",
    "minimise",
    "objectives",
    "optimum",
    "reference",
    "register",
    "report",
    "run",
    "solvers",
    "testing",
]

_FOLDERS = (
    "algorithms",
    "data",
    "engines",
    "errors",
    "estimators",
    "kernels",
    "objectives",
    "optimum",
    "report",
    "solvers",
    "testing",
)
_HOMES = {
    "algorithms": ("DualFL",),
    "algorithms.plugins": ("load_plugin",),
    "algorithms.registry": ("register",),
    "data": ("Dataset", "load", "make_problem"),
    "deploy.study": ("connect",),
    "optimum": ("reference",),
    "engines": ("History", "Problem", "Result", "run"),
    "errors": ("DualflError",),
    "experiments.compare": ("compare",),
    "objectives": (
        "L1",
        "ElasticNetPenalty",
        "Function",
        "Hinge",
        "Huber",
        "LinearModel",
        "Logistic",
        "Quadratic",
        "Softmax",
        "Squared",
    ),
    "report": ("convergence_figure",),
    "solvers": ("minimise",),
}
_ELSEWHERE = {
    "ElasticNet": "dualfl has no ElasticNet: the model is dualfl.estimators.ElasticNet, and the penalty is "
    "dualfl.ElasticNetPenalty."
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _FOLDERS:
        return import_module(f"dualfl.{name}")
    if name not in _HOME:
        raise AttributeError(_ELSEWHERE.get(name, f"module 'dualfl' has no attribute {name!r}"))
    value = getattr(import_module(f"dualfl.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
