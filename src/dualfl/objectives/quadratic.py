"""Plain quadratics (1/2) x'Ax - b'x + constant, with A dense or as an operator."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import LinearOperator

from dualfl.arguments import checked
from dualfl.errors import InputError
from dualfl.objectives.base import PlainObjective, check_factor
from dualfl.objectives.rounding import Rounding, roundings
from dualfl.objectives.spectrum import largest_eigenvalue
from dualfl.typing import Array, frozen


@checked
class Quadratic(PlainObjective):
    """(1/2) x'Ax - b'x + constant for a symmetric positive semidefinite A.

    For an operator you must give `mu` if a method needs strong convexity: no cheap iteration bounds a smallest
    eigenvalue from below. Its L is bounded by a Lanczos iteration. A given `mu` or `L` is not checked.

    Parameters
    ----------
    A : array_like or LinearOperator
        The matrix.
    b : array_like
        The vector.
    constant : float, default 0.0
        What is added.
    mu : float, optional
        The smallest eigenvalue, if it is known.
    L : float, optional
        The largest eigenvalue, if it is known.

    Examples
    --------
    >>> f = Quadratic(np.diag([1.0, 4.0]), np.ones(2))
    >>> f.mu, f.L, f.value(np.ones(2)), f.gradient(np.ones(2))
    (1.0, 4.0, 0.5, array([0., 3.]))
    """

    def __init__(
        self,
        A: npt.ArrayLike | LinearOperator,
        b: npt.ArrayLike,
        constant: float = 0.0,
        *,
        mu: float | None = None,
        L: float | None = None,
    ) -> None:
        super().__init__()
        self.A: Array | LinearOperator = A if isinstance(A, LinearOperator) else frozen(A)
        self.b = frozen(b)
        self.constant = float(constant)
        d = self.b.size
        if self.b.ndim != 1 or d == 0 or self.A.shape != (d, d):
            raise InputError(f"A must be square of the size of b, and A has shape {self.A.shape}, b {self.b.shape}.")
        if not np.isfinite(self.b).all() or not np.isfinite(self.constant):
            raise InputError("b and constant must be finite, but they contain NaN or infinity.")
        if mu is not None and not 0 <= mu < np.inf:
            raise InputError(f"mu must be a finite number >= 0, but it is {mu}.")
        if L is not None and not (mu or 0.0) <= L:
            raise InputError(f"L must be at least mu = {mu or 0.0}, but it is {L}.")
        self.shape = (d,)
        self.offers = frozenset({"gradient", "hessian", "moments"})
        if not isinstance(self.A, LinearOperator):
            lowest, highest = spectrum(self.A)
        else:
            lowest, highest = 0.0, largest_eigenvalue(self._times, d) if L is None else L
        self.mu = lowest if mu is None else float(mu)
        self._L = highest if L is None else float(L)

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

    def rounding(self, x: Array, drift: float = 0.0) -> Rounding:
        K, size = roundings(self.d), np.abs(x)
        if isinstance(self.A, LinearOperator):
            Ax = np.full(self.d, self._L * float(np.linalg.norm(x)))
        else:
            Ax = np.abs(self.A) @ size
        b = np.abs(self.b)
        return Rounding(K * float(Ax @ size / 2 + b @ size + abs(self.constant)), K * (Ax + b))

    def hessian(self, x: Array) -> Array:
        if isinstance(self.A, LinearOperator):
            return super().hessian(x)
        self.cost.hessian_products += self.d
        self.cost.passes += 1
        return np.array(self.A)

    def moment(self, x: Array) -> tuple[Array, Array]:
        """The Hessian without its strong convexity as C (x) S, like a linear model with one output."""
        return self.hessian(x) - self.mu * np.eye(self.d), np.eye(1)

    def metric(self, x: Array, U: Array, B: Array, rank: int, straight: float = 0.0) -> tuple[Array, Array, Array]:
        """As for a linear model: pairs of the first directions, the diagonal of the others, the mean."""
        H = self.moment(x)[0]
        lead, rest = U[:, :rank], U[:, rank:]
        M = (lead.T @ H @ lead)[np.triu_indices(rank)][:, None]
        return M, np.einsum("dl,de,el->l", rest, H, rest)[:, None], np.array([np.trace(H) / self.d])

    def scaled(self, factor: float) -> Quadratic:
        """factor f as a whole: a quadratic has no ridge of its own that all clients would share."""
        factor = check_factor(factor)
        view = self.fresh()
        view.A = factor * self.A if isinstance(self.A, LinearOperator) else frozen(factor * self.A)
        view.b, view.constant = frozen(factor * self.b), factor * self.constant
        view.mu, view._L = factor * self.mu, factor * self._L
        return view


def spectrum(A: Array) -> tuple[float, float]:
    """The ends of the spectrum of a positive semidefinite matrix, or a sentence that says why it is none.

    The lower one is a lower bound, since proofs hang on it: a computed eigenvalue is off by a few d roundings of the
    largest. Of a diagonal matrix it is known.
    """
    if not np.isfinite(A).all():
        raise InputError("A must be finite, but it contains NaN or infinity.")
    if not np.allclose(A, A.T, rtol=1e-10, atol=1e-12 * np.abs(A).max()):
        raise InputError("A must be symmetric, but it is not; give (A + A.T) / 2 if that is what you mean.")
    symmetric = (A + A.T) / 2
    eigenvalues = np.linalg.eigvalsh(symmetric)
    lowest, highest = float(eigenvalues[0]), float(eigenvalues[-1])
    if lowest < -1e-10 * max(abs(highest), 1e-300):
        raise InputError(f"A must be positive semidefinite, and its smallest eigenvalue is {lowest:.3g}: not convex.")
    if np.count_nonzero(A - np.diag(np.diag(A))) == 0:
        return float(max(np.diag(A).min(), 0.0)), highest
    return max(lowest - roundings(10 * len(A)) * highest, 0.0), highest
