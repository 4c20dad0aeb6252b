"""Functions written in PyTorch and JAX against the linear models they rewrite."""

import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dualfl.errors import InputError
from dualfl.objectives import JaxFunction, LinearModel, Softmax, Squared, TorchFunction
from dualfl.solvers import minimise

pytestmark = pytest.mark.extras

rng = np.random.default_rng(0)
X, y = rng.normal(size=(40, 5)), rng.integers(0, 3, 40)
model = LinearModel(X, y, Softmax(3), ridge=0.1, intercept=True)


def from_torch(theta: np.ndarray) -> np.ndarray:
    """The parameters of Linear(5, 3), weight then bias, in the order of a linear model."""
    weight, bias = theta[:15].reshape(3, 5), theta[15:]
    return np.vstack([weight.T, bias]).ravel()


def torch_function():
    torch = pytest.importorskip("torch")
    A, labels = torch.from_numpy(X), torch.from_numpy(y)
    module = torch.nn.Linear(5, 3)
    return TorchFunction(module, lambda m: torch.nn.functional.cross_entropy(m(A), labels), ridge=0.1), module


def jax_function():
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    A = jax.numpy.asarray(np.hstack([X, np.ones((40, 1))]))

    def fun(theta):
        Z = A @ theta.reshape(6, 3)
        data = jax.scipy.special.logsumexp(Z, axis=1) - Z[jax.numpy.arange(40), y]
        return data.mean() + 0.05 * theta @ theta

    return JaxFunction(fun, 18, mu=0.1, L=model.L)


def test_torch_is_the_linear_model():
    f, _ = torch_function()
    assert (f.d, f.mu, f.name, f.offers) == (18, 0.1, "TorchFunction(Linear)", {"gradient", "hessian"})
    for theta, v in rng.normal(size=(5, 2, 18)):
        assert_allclose(f.value(theta), model.value(from_torch(theta)), rtol=1e-12)
        assert_allclose(from_torch(f.gradient(theta)), model.gradient(from_torch(theta)), rtol=1e-9, atol=1e-12)
        product = model.hessian_times(from_torch(theta), from_torch(v))
        assert_allclose(from_torch(f.hessian_times(theta, v)), product, rtol=1e-9, atol=1e-12)


def test_torch_leaves_the_module_alone():
    """Two clients may be built from one module."""
    f, module = torch_function()
    before = [p.detach().clone() for p in module.parameters()]
    f.gradient(np.ones(18))
    for now, then in zip(module.parameters(), before, strict=True):
        assert now.dtype == then.dtype and (now == then).all()


def test_torch_with_a_loss_that_is_linear():
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(2, 1, bias=False)
    f = TorchFunction(module, lambda m: m(torch.ones(1, 2).double()).sum(), ridge=0.5)
    assert_allclose(f.gradient(np.array([1.0, 2.0])), [1.5, 2.0])
    assert_allclose(f.hessian_times(np.zeros(2), np.array([1.0, 2.0])), [0.5, 1.0])


def test_torch_without_parameters():
    torch = pytest.importorskip("torch")
    with pytest.raises(InputError) as error:
        TorchFunction(torch.nn.ReLU(), lambda m: m(torch.ones(1)).sum())
    assert str(error.value) == "The module has no parameters that require a gradient."


def test_jax_is_the_linear_model():
    f = jax_function()
    assert (f.d, f.mu, f.L, f.name) == (18, 0.1, model.L, "JaxFunction")
    for theta, v in rng.normal(size=(5, 2, 18)):
        assert_allclose(f.value(theta), model.value(theta), rtol=1e-12)
        assert_allclose(f.gradient(theta), model.gradient(theta), rtol=1e-9, atol=1e-12)
        assert_allclose(f.hessian_times(theta, v), model.hessian_times(theta, v), rtol=1e-9, atol=1e-12)


def test_they_have_the_same_minimiser():
    expected = minimise(model).x
    assert_allclose(from_torch(minimise(torch_function()[0]).x), expected, atol=1e-6)
    assert_allclose(minimise(jax_function()).x, expected, atol=1e-6)


def test_jax_is_double_whoever_came_first():
    """JaxFunction switches float64 on, also when nobody else has."""
    pytest.importorskip("jax")
    code = (
        "import numpy as np; from dualfl.objectives import JaxFunction\n"
        "f = JaxFunction(lambda x: x @ x, 2)\n"
        "x = np.array([1 + 1e-12, 0.0])\n"
        "assert f.value(x) == x @ x and f.gradient(x).dtype == np.float64\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_both_take_tilts():
    f, c = torch_function()[0], rng.normal(size=18)
    theta = rng.normal(size=18)
    assert_allclose(f.tilted(0.3, c).gradient(theta), f.gradient(theta) + 0.3 * theta - c, rtol=1e-12)
    squared = LinearModel(X, y, Squared(), ridge=0.1)
    assert squared.tilted(0.3).mu == pytest.approx(f.tilted(0.3).mu)


def torch_network(**options):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    A, labels = torch.from_numpy(X), torch.from_numpy(y)
    module = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    return TorchFunction(module, lambda m: torch.nn.functional.cross_entropy(m(A), labels), convex=False, **options)


def test_a_network_of_torch_is_that_of_numpy():
    from dualfl.experiments.small_network import Layers, network_cost

    f, layers = torch_network(ridge=0.01, L="estimate"), Layers(5, 4, 3)
    own = network_cost(layers, X, y, 0.01)

    def to_numpy(theta):
        """Weights of torch are transposed."""
        V, a, W, c = np.split(theta, np.cumsum([20, 4, 12]))
        return np.concatenate([V.reshape(4, 5).T.ravel(), a, W.reshape(3, 4).T.ravel(), c])

    for theta in rng.normal(size=(3, layers.d)):
        assert_allclose(f.value(theta), own.value(to_numpy(theta)), rtol=1e-12)
        assert_allclose(to_numpy(f.gradient(theta)), own.gradient(to_numpy(theta)), rtol=1e-9, atol=1e-12)
    assert (f.convex, f.mu) == (False, 0.0) and 0.1 < f.L < 10


def test_a_network_of_torch_is_trained():
    from dualfl import Problem, run
    from dualfl.algorithms import FedAvg, RecentredDualFL

    f = torch_network(ridge=0.01, L="estimate")
    for algorithm in (FedAvg(), RecentredDualFL()):
        start = np.random.default_rng(1).normal(size=f.d) / 3
        result = run(Problem([f, f]), algorithm, rounds=20, start=start, threads=1)
        assert result.energy < f.value(start) - 0.05 and result.certificate is None


def test_a_module_on_two_devices():
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1, device="meta"))
    with pytest.raises(InputError, match="on cpu and on meta; move them to one device"):
        TorchFunction(module, lambda m: m(torch.ones(1, 2)).sum())


def test_data_that_do_not_suit_the_module():
    torch = pytest.importorskip("torch")
    A, module = torch.from_numpy(X), torch.nn.Linear(5, 1)

    def built(loss, **options):
        return TorchFunction(module, loss, convex=False, **options)

    with pytest.raises(InputError, match=r"float64 on cpu; convert them by \.double\(\) and \.to\('cpu'\)\.$"):
        built(lambda m: m(A.float()).mean()).value(np.zeros(6))
    with pytest.raises(InputError, match=r"float64 on cpu; convert"):
        built(lambda m: m(A.to("meta")).mean()).gradient(np.zeros(6))
    with pytest.raises(InputError, match=r"one number, such as a mean, but it is a tensor of shape \(40, 1\)"):
        built(lambda m: m(A)).value(np.zeros(6))
    with pytest.raises(InputError, match="but it is a float"):
        built(lambda m: float(m(A).mean())).gradient(np.zeros(6))
    with pytest.raises(RuntimeError, match="mine"):
        built(lambda m: (_ for _ in ()).throw(RuntimeError("mine"))).value(np.zeros(6))
    with pytest.raises(InputError, match=r"L cannot be estimated: the curvature of .* is not finite"):
        built(lambda m: m(A).pow(2).mean() * float("nan"), L="estimate")
    assert built(lambda m: m(A).mean().reshape(1)).gradient(np.zeros(6)).shape == (6,)  # one number in a vector
