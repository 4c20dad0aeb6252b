"""What a user sees first: names that lead to what they say, and objects that print as a few readable lines."""

import subprocess
import sys

import numpy as np
import pytest

import dualfl
from dualfl import LinearModel, Problem, Squared, run
from dualfl.algorithms.registry import ALGORITHMS
from dualfl.engines import checkpoint

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
    """The checkpoint with the name that version 0.1.0 wrote."""
    tree, arrays = checkpoint.read(path)
    key = tree["dict"]["key"]
    assert "ElasticNetPenalty(" in key
    tree["dict"]["key"] = key.replace("ElasticNetPenalty(", "ElasticNet(")
    path.write_bytes(checkpoint.archive(tree, arrays))


# -- what print shows ---------------------------------------------------------------------------------------


def lines_of(thing):
    """What `print` and a notebook show, which is the same: a few lines of at most 80 columns."""
    assert str(thing) == repr(thing)
    lines = str(thing).splitlines()
    assert 3 <= len(lines) <= 12 and max(map(len, lines)) <= 80
    return lines


def test_a_data_set_in_words():
    title, *rest = lines_of(dualfl.load("digits"))
    assert title == "digits, 1,797 rows x 64 features, 10 classes"
    assert "  values       uint8, and models see 0.0625 times that" in rest
    assert "... (64 in all)" in str(dualfl.load("digits"))
    assert lines_of(dualfl.load("diabetes"))[2] == "  values       float64, standardised"


def test_a_problem_in_words():
    assert lines_of(dualfl.make_problem("digits", 8, ridge=1e-2)) == [
        "Problem of 8 clients",
        "  rows         1,797 in all, 224 to 225 a client",
        "  loss         Softmax",
        "  ridge        0.01",
        "  penalty      none",
        "  model        650 coefficients (65 x 10)",
    ]
    quadratic = dualfl.Quadratic(np.eye(2), np.ones(2))
    assert lines_of(Problem([quadratic], penalty=dualfl.L1(0.1))) == [
        "Problem of 1 client",
        "  cost         Quadratic",
        "  penalty      L1(alpha=0.1)",
        "  model        2 coefficients",
    ]


def test_a_result_in_words():
    result = run(small(), dualfl.DualFL(rho=0.25), rounds=50, tol=1e-3)
    text = "\n".join(lines_of(result))
    last = result.history[-1]
    assert text.startswith(f"Result of dualfl: {last.round} rounds, the tolerance is reached\n")
    for part in (
        "rho = 0.25",
        f"exchanges    {last.exchanges}, with {last.contacts} contacts of clients",
        f"floats       {last.floats_up} up, {last.floats_down} down",
        f"energy       E = {result.energy:.12g}",
        f"certificate  E - E* <= {result.certificate:.2e} = ",
        "model        3 coefficients",
    ):
        assert part in text
    assert "certificate  none: energies were not evaluated" in str(run(small(), dualfl.DualFL(), evaluate=False))
    chosen = run(small(), dualfl.algorithms.Auto(), rounds=3)
    assert chosen.choice.split()[0] in "\n".join(lines_of(chosen)) and "  chosen       auto runs " in str(chosen)
