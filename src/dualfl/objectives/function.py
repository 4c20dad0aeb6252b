"""A user's own function: NumPy callables, a PyTorch module with a loss, or a JAX function.

It is taken to be convex unless `convex=False` says otherwise. Then only algorithms run that are used on such costs, and
nothing is certified. PyTorch and JAX are imported only when one of theirs is built.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from dualfl.arguments import check
from dualfl.errors import InputError, NotSupported
from dualfl.objectives.base import PlainObjective
from dualfl.typing import Array


class Function(PlainObjective):
    """The objective of one client as a function of your own, given by NumPy callables.

    Parameters
    ----------
    d : int
        The number of coordinates.
    value, gradient : callable
        The value and the gradient at a flat, read-only vector of length d.
    hessian_times : callable, optional
        (x, v) -> H(x) v, if there is one.
    mu, L : float
        Constants of strong convexity and smoothness. They are not checked, so they must be true. What a function
        that is not convex has instead of L can be estimated: see `estimated_L`.
    n : int, default 1
        The number of rows behind it, by which clients are weighted.
    name : str, default 'Function'
        What errors call it.
    convex : bool, default True
        Whether it is convex; a neural network, for example, is not.

    Examples
    --------
    >>> f = Function(2, value=lambda x: x @ x, gradient=lambda x: 2 * x, mu=2.0, L=2.0)
    >>> f.value(np.array([3.0, 4.0])), f.gradient(np.array([3.0, 4.0]))
    (25.0, array([6., 8.]))
    """

    def __init__(
        self,
        d: int,
        value: Callable[[Array], float],
        gradient: Callable[[Array], Array],
        hessian_times: Callable[[Array, Array], Array] | None = None,
        *,
        mu: float = 0.0,
        L: float = np.inf,
        n: int = 1,
        name: str = "Function",
        convex: bool = True,
    ) -> None:
        super().__init__()
        if not isinstance(d, (int, np.integer)) or d < 1:
            raise InputError(f"d must be a whole number >= 1, the length of x, but it is {d!r}.")
        check("n", n, int)
        check("name", name, str)
        for what, call in {"value": value, "gradient": gradient, "hessian_times": hessian_times or gradient}.items():
            check(what, call, Callable[..., Any])
        check_constants(mu, L)
        check("convex", convex, bool)
        if mu > 0 and not convex:
            raise InputError(f"mu = {mu} is a constant of strong convexity, and convex=False; leave one of them out.")
        self.convex = convex
        self.shape, self.n, self.mu, self._L, self._name = (int(d),), n, float(mu), float(L), name
        self.call_value, self.call_gradient, self.call_hessian_times = value, gradient, hessian_times
        self.offers = frozenset({"gradient", "hessian"} if hessian_times else {"gradient"})

    @property
    def L(self) -> float:
        return self._L

    @property
    def name(self) -> str:
        return self._name

    def _value(self, x: Array) -> float:
        value = float(self.call_value(x))
        if value != value and not self.convex:
            raise InputError(
                f"{self.name} is NaN at a point with |x| = {float(np.linalg.norm(x)):.3g}; take smaller steps, or look "
                "at the loss."
            )
        return value

    def _value_gradient(self, x: Array) -> tuple[float, Array]:
        return self._value(x), self._vector("gradient", self.call_gradient(x))

    def _hessian_times(self, x: Array, v: Array) -> Array:
        if self.call_hessian_times is None:
            return super()._hessian_times(x, v)
        return self._vector("hessian_times", self.call_hessian_times(x, v))

    def _vector(self, what: str, result: Any) -> Array:
        vector = np.array(result, dtype=np.float64)  # a copy: the callable may use its buffer again
        if vector.shape != self.shape:
            raise InputError(
                f"{self.name}'s {what} returned shape {vector.shape}, and x has shape {self.shape}; they must agree."
            )
        return vector


def check_constants(mu: float, L: float) -> None:
    check("mu", mu, float)
    check("L", L, float)
    if not 0 <= mu < np.inf:
        raise InputError(f"mu must be a finite number >= 0, but it is {mu}.")
    if not mu <= L or L <= 0:
        raise InputError(f"L must be positive and at least mu = {mu}, but it is {L}.")


def estimated_L(f: Function, x: Array, *, points: int = 4, steps: int = 30, seed: int = 0) -> float:
    """About the largest curvature of f near x: of f'' at x and at points as far from it as x is long.

    Power iterations on f''v, by differences of gradients where f has no Hessian. An estimate from below, not a bound:
    multiply it by 2 or so, or try steps.

    >>> f = Function(2, lambda x: 3 * x[0] ** 2 - x[1] ** 2, lambda x: np.array([6 * x[0], -2 * x[1]]), convex=False)
    >>> round(estimated_L(f, np.zeros(2)), 6)
    6.0
    """
    rng, largest = np.random.default_rng(seed), 0.0
    size = max(float(np.linalg.norm(x)), 1.0)
    for number in range(points):
        at = np.array(x) if number == 0 else x + size * unit(rng.standard_normal(f.d))
        v, curvature = unit(rng.standard_normal(f.d)), 0.0
        for _ in range(steps):
            h = 1e-6 * size
            Hv = (
                f.at(at).hessian_times(v)
                if "hessian" in f.offers
                else (f.gradient(at + h * v) - f.gradient(at - h * v)) / (2 * h)
            )
            curvature = float(np.linalg.norm(Hv))
            if not np.isfinite(curvature):
                raise InputError(
                    f"L cannot be estimated: the curvature of {f.name} is not finite near its first point."
                )
            if curvature == 0:
                break
            v = Hv / curvature
        largest = max(largest, curvature)
    return largest


def unit(v: Array) -> Array:
    return np.asarray(v / np.linalg.norm(v))


def TorchFunction(
    module: Any,
    loss: Callable[[Any], Any],
    *,
    ridge: float = 0.0,
    L: float | Literal["estimate"] = np.inf,
    convex: bool = True,
) -> Function:
    """`loss(module) + (ridge/2)|parameters|^2` as an objective of the module's parameters, in float64.

    `loss` takes a module and returns a scalar tensor, e.g. `lambda m: cross_entropy(m(X), y)` with X in
    float64. It gets a float64 copy of `module`, so clients built from one module do not disturb each other.
    The sum must be convex, which dualfl cannot check, or convex=False says that it is not. L="estimate" takes twice
    the largest curvature found near the module's parameters (`estimated_L`).

    Parameters
    ----------
    module : object
        The PyTorch module.
    loss : callable
        The loss of a target and a predictor.
    ridge : float, default 0.0
        The strength of the ridge.
    L : float or Literal['estimate'], default inf
        The smoothness.
    convex : bool, default True
        Whether it is convex; if not, nothing is proven of it.

    Returns
    -------
    Function
        An objective.

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> module = torch.nn.Linear(3, 1)  # doctest: +SKIP
    >>> f = dualfl.objectives.TorchFunction(module, lambda m: (m(X) - y).pow(2).mean(), ridge=0.1)  # doctest: +SKIP
    """
    try:
        import torch
    except ImportError as error:
        raise NotSupported("TorchFunction needs PyTorch, which is not installed; pip install dualfl[torch].") from error

    module = copy.deepcopy(module).double()
    parameters = [p for p in module.parameters() if p.requires_grad]
    if not parameters:
        raise InputError("The module has no parameters that require a gradient.")
    device = parameters[0].device
    if others := sorted({str(p.device) for p in module.parameters()} - {str(device)}):
        raise InputError(
            f"The module's parameters are on {device} and on {', '.join(others)}; move them to one device, by "
            "module.to(...)."
        )

    name = f"TorchFunction({type(module).__name__})"

    def loss_here() -> Any:
        """The loss of the module as it is, a tensor with one number; PyTorch's own words name tensors, not data."""
        try:
            found = loss(module)
        except RuntimeError as error:
            if not any(word in str(error) for word in ("dtype", "scalar type", "device")):
                raise
            raise InputError(
                f"The loss of {name} has data that do not suit the module, which is in float64 on {device}; convert "
                f"them by .double() and .to({str(device)!r})."
            ) from error
        if not torch.is_tensor(found) or found.numel() != 1:
            given = f"a tensor of shape {tuple(found.shape)}" if torch.is_tensor(found) else f"a {type(found).__name__}"
            raise InputError(f"The loss of {name} must be a tensor with one number, such as a mean, but it is {given}.")
        return found

    def tensor(x: Array) -> Any:
        return torch.from_numpy(np.array(x)).to(device)

    def flat(pieces: Any) -> Any:
        return torch.cat([piece.reshape(-1) for piece in pieces])

    def load(x: Array) -> None:
        with torch.no_grad():
            torch.nn.utils.vector_to_parameters(tensor(x), parameters)

    def value(x: Array) -> float:
        load(x)
        with torch.no_grad():
            return float(loss_here()) + ridge / 2 * float(x @ x)

    def gradient(x: Array) -> Array:
        load(x)
        slope = flat(torch.autograd.grad(loss_here().reshape(()), parameters))
        return np.asarray(slope.cpu().numpy()) + ridge * x

    def hessian_times(x: Array, v: Array) -> Array:
        load(x)
        slope = flat(torch.autograd.grad(loss_here().reshape(()), parameters, create_graph=True)) @ tensor(v)
        if not slope.requires_grad:  # the loss is linear, at least here
            return ridge * v
        Hv = flat(torch.autograd.grad(slope, parameters, materialize_grads=True))
        return np.asarray(Hv.cpu().numpy()) + ridge * v

    d = sum(p.numel() for p in parameters)
    mu, known = (ridge if convex else 0.0), np.inf if L == "estimate" else L
    if L == "estimate":
        first = np.asarray(flat(parameters).detach().cpu().numpy())
        f = Function(d, value, gradient, hessian_times, name=name, convex=convex)
        known = max(2 * estimated_L(f, first), mu)
    return Function(d, value, gradient, hessian_times, mu=mu, L=known, name=name, convex=convex)


def JaxFunction(
    fun: Callable[[Any], Any], d: int, *, mu: float = 0.0, L: float = np.inf, convex: bool = True
) -> Function:
    """A JAX function of a flat vector of length d, compiled, in float64 (which this switches on in JAX).

    Parameters
    ----------
    fun : callable
        The JAX function of a flat vector.
    d : int
        The number of coordinates.
    mu : float, default 0.0
        The strong convexity.
    L : float, default inf
        The smoothness.
    convex : bool, default True
        Whether it is convex; if not, nothing is proven of it.

    Returns
    -------
    Function
        An objective.

    Examples
    --------
    >>> import jax.numpy as jnp  # doctest: +SKIP
    >>> f = dualfl.objectives.JaxFunction(lambda x: jnp.sum((x - 1) ** 2), 3, mu=2.0, L=2.0)  # doctest: +SKIP
    """
    try:
        import jax
    except ImportError as error:
        raise NotSupported("JaxFunction needs JAX, which is not installed; pip install dualfl[jax].") from error

    jax.config.update("jax_enable_x64", True)
    slope = jax.grad(fun)
    value_jit, gradient_jit = jax.jit(fun), jax.jit(slope)
    product_jit = jax.jit(lambda x, v: jax.jvp(slope, (x,), (v,))[1])
    return Function(
        d,
        lambda x: float(value_jit(x)),
        lambda x: np.array(gradient_jit(x)),
        lambda x, v: np.array(product_jit(x, v)),
        mu=mu,
        L=L,
        name="JaxFunction",
        convex=convex,
    )
