"""A user's own convex function: NumPy callables, a PyTorch module with a loss, or a JAX function.

PyTorch and JAX are imported only when one of theirs is built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dualfl.errors import InputError, NotSupported
from dualfl.objectives.base import PlainObjective
from dualfl.typing import Array


class Function(PlainObjective):
    """A convex function given by NumPy callables.

    Parameters
    ----------
    value, gradient : of a flat vector of length d.
    hessian_times : (x, v) -> H(x) v, if there is one.
    mu, L : what is known of its strong convexity and smoothness. They are trusted.

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
    ) -> None:
        super().__init__()
        check_constants(mu, L)
        self.shape, self.n, self.mu, self._L, self._name = (d,), n, float(mu), float(L), name
        self.call_value, self.call_gradient, self.call_hessian_times = value, gradient, hessian_times
        self.offers = frozenset({"gradient", "hessian"} if hessian_times else {"gradient"})

    @property
    def L(self) -> float:
        return self._L

    @property
    def name(self) -> str:
        return self._name

    def _value(self, x: Array) -> float:
        return float(self.call_value(x))

    def _value_gradient(self, x: Array) -> tuple[float, Array]:
        gradient = np.asarray(self.call_gradient(x), dtype=np.float64)
        if gradient.shape != x.shape:
            raise InputError(
                f"{self.name}'s gradient has shape {gradient.shape}, and x has {x.shape}; they must agree."
            )
        return self._value(x), gradient

    def _hessian_times(self, x: Array, v: Array) -> Array:
        if self.call_hessian_times is None:
            return super()._hessian_times(x, v)
        return np.asarray(self.call_hessian_times(x, v), dtype=np.float64)


def check_constants(mu: float, L: float) -> None:
    if not 0 <= mu < np.inf:
        raise InputError(f"mu must be a finite number >= 0, and it is {mu}.")
    if not L >= mu or L <= 0:
        raise InputError(f"L must be positive and at least mu = {mu}, and it is {L}.")


def TorchFunction(
    module: Any, loss: Callable[[Any], Any], *, ridge: float = 0.0, L: float = np.inf
) -> Function:
    """`loss(module) + (ridge/2)|parameters|^2` as an objective of the module's parameters, in float64.

    `loss` takes the module and returns a scalar tensor, e.g. `lambda m: cross_entropy(m(X), y)`. The module is
    converted to float64 and its parameters are overwritten at every evaluation. The whole must be convex; nobody
    can check that here.
    """
    try:
        import torch
    except ImportError as error:
        raise NotSupported(
            "TorchFunction needs PyTorch, and it is not installed; pip install dualfl[torch]."
        ) from error

    module.double()
    parameters = [p for p in module.parameters() if p.requires_grad]
    if not parameters:
        raise InputError("The module has no parameters that require a gradient.")
    flat = torch.nn.utils.parameters_to_vector
    fill = torch.nn.utils.vector_to_parameters

    def load(x: Array) -> None:
        with torch.no_grad():
            fill(torch.from_numpy(np.array(x)), parameters)

    def value(x: Array) -> float:
        load(x)
        with torch.no_grad():
            return float(loss(module)) + ridge / 2 * float(x @ x)

    def gradient(x: Array) -> Array:
        load(x)
        pieces = torch.autograd.grad(loss(module), parameters)
        return torch.cat([g.reshape(-1) for g in pieces]).numpy() + ridge * x

    def hessian_times(x: Array, v: Array) -> Array:
        load(x)
        pieces = torch.autograd.grad(loss(module), parameters, create_graph=True)
        slope = torch.cat([g.reshape(-1) for g in pieces]) @ torch.from_numpy(np.array(v))
        again = torch.autograd.grad(slope, parameters, materialize_grads=True)
        return torch.cat([g.reshape(-1) for g in again]).numpy() + ridge * v

    d = int(flat(parameters).numel())
    name = f"TorchFunction({type(module).__name__})"
    return Function(d, value, gradient, hessian_times, mu=ridge, L=L, name=name)


def JaxFunction(fun: Callable[[Any], Any], d: int, *, mu: float = 0.0, L: float = np.inf) -> Function:
    """A JAX function of a flat vector of length d, compiled, in float64 (which this switches on in JAX)."""
    try:
        import jax
    except ImportError as error:
        raise NotSupported(
            "JaxFunction needs JAX, and it is not installed; pip install dualfl[jax]."
        ) from error

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
    )
