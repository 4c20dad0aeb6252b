"""Plain quadratics (1/2) x'Ax - b'x + constant, with A dense or as an operator."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import LinearOperator, eigsh

from dualfl.errors import InputError
from dualfl.objectives.base import PlainObjective
from dualfl.typing import Array, frozen


class Quadratic(PlainObjective):
    """(1/2) x'Ax - b'x + constant for a symmetric positive semidefinite A.

    An operator needs `mu` from the user if anybody is to rely on strong convexity: no cheap iteration bounds
    a smallest eigenvalue from below. Its L is found by a Lanczos iteration.

    >>> f = Quadratic(np.diag([1.0, 4.0]), np.ones(2))
    >>> f.mu, f.L, f.value(np.ones(2)), f.gradient(np.ones(2))
    (1.0, 4.0, 0.5, array([0., 3.]))
    """

    def __init__(
        self,
        A: Array | LinearOperator,
        b: npt.ArrayLike,
        constant: float = 0.0,
        *,
        mu: float | None = None,
        L: float | None = None,
    ) -> None:
        super().__init__()
        self.b = frozen(b)
        self.constant = float(constant)
        d = self.b.size
        if self.b.ndim != 1 or A.shape != (d, d):
            raise InputError(
                f"A must be square of the size of b, and A has shape {A.shape}, b {self.b.shape}."
            )
        self.shape = (d,)
        self.offers = frozenset({"gradient", "hessian"})
        if isinstance(A, LinearOperator):
            self.A: Array | LinearOperator = A
            lowest, highest = 0.0, float(eigsh(A, k=1, return_eigenvectors=False)[0]) * (1 + 1e-10)
        else:
            lowest, highest = self._take(np.asarray(A, dtype=np.float64))
        self.mu = max(lowest, 0.0) if mu is None else mu
        self._L = highest if L is None else L

    def _take(self, A: Array) -> tuple[float, float]:
        if not np.isfinite(A).all() or not np.isfinite(self.b).all():
            raise InputError("A and b must be finite, and they contain NaN or infinity.")
        if not np.allclose(A, A.T, rtol=1e-10, atol=1e-12 * np.abs(A).max(initial=0.0)):
            raise InputError(
                "A must be symmetric, and it is not; give (A + A.T) / 2 if that is what you mean."
            )
        eigenvalues = np.linalg.eigvalsh(A)
        if eigenvalues[0] < -1e-10 * max(abs(eigenvalues[-1]), 1e-300):
            raise InputError(
                f"A must be positive semidefinite, and its smallest eigenvalue is {eigenvalues[0]:.3g}: not convex."
            )
        self.A = frozen(A)
        return float(eigenvalues[0]), float(eigenvalues[-1])

    @property
    def L(self) -> float:
        return self._L

    def _times(self, v: Array) -> Array:
        return np.asarray(self.A @ v, dtype=np.float64)

    def _value_gradient(self, x: Array) -> tuple[float, Array]:
        Ax = self._times(x)
        return float(x @ Ax / 2 - self.b @ x + self.constant), Ax - self.b

    def _hessian_times(self, x: Array, v: Array) -> Array:
        return self._times(v)

    def hessian(self, x: Array) -> Array:
        if isinstance(self.A, LinearOperator):
            return super().hessian(x)
        self.cost.hessian_products += self.d
        return np.array(self.A)

    def scaled(self, factor: float) -> Quadratic:
        """factor (f - (mu/2)|.|^2) + (mu/2)|.|^2: as for a linear model, the strong convexity is not scaled."""
        if isinstance(self.A, LinearOperator):
            A = self.A
            mixed = LinearOperator(
                A.shape, matvec=lambda v: factor * (A @ v) + (1 - factor) * self.mu * v, dtype=float
            )
            return Quadratic(mixed, factor * self.b, factor * self.constant, mu=self.mu)
        A_mixed = factor * self.A + (1 - factor) * self.mu * np.eye(self.d)
        return Quadratic(A_mixed, factor * self.b, factor * self.constant, mu=self.mu)
