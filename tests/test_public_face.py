"""What a user sees first: names that lead to what they say, and objects that print as a few readable lines."""

import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import dualfl
from dualfl import LinearModel, Problem, Squared, run
from dualfl.algorithms.registry import ALGORITHMS

# In a process of its own: it imports everything, Flower and Ray among it, and others' warnings are not ours.
WALK = """
import importlib, pkgutil, sys, dualfl

OPTIONAL = ("flwr", "ray", "cryptography", "starlette", "httpx", "uvicorn")
names = [each.name for each in pkgutil.walk_packages(dualfl.__path__, "dualfl.")]
for name in names:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        assert error.name.partition(".")[0] in OPTIONAL, error
for name in [name for name in names if name in sys.modules]:
    package, _, leaf = name.rpartition(".")
    if getattr(sys.modules[package], leaf) is not sys.modules[name]:
        print("hidden:", name)
    for each in getattr(sys.modules[name], "__all__", ()):
        if not hasattr(sys.modules[name], each):
            print("missing:", name, each)
print(len(names), "modules")
"""


def test_no_attribute_of_a_package_hides_a_module_of_the_same_name_and_what_is_exported_is_there():
    done = subprocess.run([sys.executable, "-c", WALK], capture_output=True, text=True)
    assert done.stdout.endswith(" modules\n"), done.stderr
    count, *wrong = reversed(done.stdout.splitlines())
    assert not wrong
    assert int(count.split()[0]) > 200


def test_every_algorithm_is_exported():
    for algorithm in ALGORITHMS.values():
        assert getattr(dualfl.algorithms, algorithm.__name__) is algorithm
        assert algorithm.__name__ in dualfl.algorithms.__all__


def test_estimators_are_reached_by_import_dualfl():
    """In a process of its own, where nothing else was imported; and `import dualfl` alone loads none of them."""
    code = (
        "import sys, dualfl; assert 'dualfl.estimators' not in sys.modules; dualfl.estimators.Ridge; "
        "dualfl.algorithms.Auto; print('there')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "there\n", done.stderr


# -- one name, one thing ------------------------------------------------------------------------------------


def test_the_elastic_net_is_a_model_and_its_penalty_has_another_name():
    assert issubclass(dualfl.estimators.ElasticNet, dualfl.estimators.regressors.FederatedRegressor)
    assert dualfl.objectives.ElasticNetPenalty is dualfl.ElasticNetPenalty
    for module in (dualfl, dualfl.objectives):
        with pytest.raises(AttributeError):
            _ = module.ElasticNet
    with pytest.raises(AttributeError, match=r"estimators\.ElasticNet, and the penalty is dualfl\.ElasticNetPenalty"):
        _ = dualfl.ElasticNet


def small(penalty=None):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    clients = [LinearModel(X[rows], y[rows], Squared(), ridge=0.1) for rows in (slice(0, 10), slice(10, 40))]
    return Problem(clients, penalty=penalty)


def test_a_checkpoint_that_calls_the_penalty_by_its_former_name_goes_on(tmp_path):
    problem, path = small(dualfl.ElasticNetPenalty(0.01, 0.1)), tmp_path / "run.npz"
    algorithm = dualfl.DualFL(rho=0.0, nu=0.1)
    run(problem, algorithm, rounds=3, checkpoint=path)
    with_former_name(path)
    resumed = run(problem, algorithm, rounds=6, checkpoint=path, resume=True)
    assert resumed.theta.tobytes() == run(problem, algorithm, rounds=6).theta.tobytes()
    with_former_name(path)
    with pytest.raises(dualfl.errors.InputError, match=r"penalty is ElasticNetPenalty\(alpha=0.01, beta=0.1\), here"):
        run(small(dualfl.ElasticNetPenalty(0.02, 0.1)), algorithm, rounds=6, checkpoint=path, resume=True)


def with_former_name(path):
    """The checkpoint as version 0.1.0 would have written it."""
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files}
    tree = json.loads(arrays["tree"].tobytes())
    key = tree["dict"]["key"]
    assert "ElasticNetPenalty(" in key
    tree["dict"]["key"] = key.replace("ElasticNetPenalty(", "ElasticNet(")
    arrays["tree"] = np.frombuffer(json.dumps(tree).encode(), dtype=np.uint8)
    np.savez(path, **arrays)
    assert zipfile.is_zipfile(path)
