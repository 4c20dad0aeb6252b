"""What a backend of kernels must be able to do: the C extension and its NumPy twin are two modules of this type.

What the functions compute is said where users find them: in `design`, `predictors` and `epochs`. Arguments are given by
position, since C reads them so.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from .losses import Array, Loss
from .risk_sets import RiskSets
from .twin_words import Words

Index = npt.NDArray[np.int64]


class RowKernels(Protocol):
    """The rows of one client, and what is computed from them; see `Design` and `epochs`."""

    def forward(self, W: Array, /) -> Array: ...

    def backward(self, R: Array, /) -> Array: ...

    def value_gradient(self, W: Array, loss: Loss, y: Array, s: Array, /) -> tuple[float, Array, Array]: ...

    def hessian_times(self, V: Array, loss: Loss, Z: Array, y: Array, s: Array, /) -> Array: ...

    def gram(self, w: Array, /) -> Array: ...

    def grams(self, V: Array, columns: Index | None = None, /) -> Array: ...

    def block(self, w: Array, columns: Index, /) -> Array: ...

    def row_norms2(self) -> Array: ...

    def sample_gradient(self, index: Index, W: Array, loss: Loss, y: Array, s: Array, /) -> Array: ...

    def sdca_epoch(
        self,
        q: Array,
        b: Array,
        lo: Array,
        hi: Array,
        eps: float,
        s: Array,
        alpha: Array,
        theta: Array,
        lam: float,
        norms2: Array,
        order: Index,
        /,
    ) -> None: ...

    def svrg_epoch(
        self,
        loss: Loss,
        y: Array,
        s: Array,
        Z: Array,
        G: Array,
        W: Array,
        step: float,
        ridge: Array,
        c: Array,
        indices: Index,
        /,
    ) -> None: ...

    def saga_epoch(
        self,
        loss: Loss,
        y: Array,
        s: Array,
        R: Array,
        G: Array,
        W: Array,
        step: float,
        ridge: Array,
        c: Array,
        indices: Index,
        /,
    ) -> None: ...


@runtime_checkable
class SolvesByLBFGS(Protocol):
    """Rows that can be given a whole solve; those of the native kernels can."""

    def lbfgs(
        self,
        loss: Loss,
        y: Array,
        s: Array,
        m: float,
        c: Array,
        inverse: Array,
        Q: Array,
        u: Array,
        memory: int,
        eps: float,
        cap: int,
        /,
    ) -> int: ...


class Backend(Protocol):
    """A module of kernels."""

    @property
    def Rows(self) -> Callable[[Any, float, bool], RowKernels]:
        """Takes a dense array or a CSR matrix, its scale, and whether there is an intercept."""
        ...

    def value(self, loss: Loss, Z: Array, y: Array, s: Array, /) -> float: ...

    def residual(self, loss: Loss, Z: Array, y: Array, s: Array, /) -> tuple[float, Array]: ...

    def curvature_times(self, loss: Loss, Z: Array, P: Array, y: Array, s: Array, /) -> Array: ...

    def ray(self, loss: Loss, Z: Array, P: Array, steps: Array, y: Array, s: Array, /) -> tuple[Array, Array]: ...

    def cd_quadratic(
        self,
        Q: Array,
        q: Array,
        l1: Array,
        lo: Array,
        hi: Array,
        x: Array,
        grad: Array,
        sweeps: int,
        tol: float,
        /,
    ) -> tuple[int, float]: ...

    def pairs_older(
        self, S: Array, Y: Array, sy: Array, count: int, newest: int, parts: Array, v: Array, /
    ) -> None: ...

    def pairs_newer(
        self, S: Array, Y: Array, sy: Array, count: int, newest: int, parts: Array, v: Array, /
    ) -> None: ...

    def cox_residual(self, sets: RiskSets, z: Array, s: Array, /) -> tuple[float, Array, Array]: ...

    def cox_curvature_times(self, sets: RiskSets, z: Array, s: Array, p: Array, /) -> Array: ...

    def cox_means(self, sets: RiskSets, z: Array, s: Array, X: Any, /) -> Array: ...

    def add_words(self, total: Words, stream: Words, negative: bool, /) -> None: ...

    def dot_words(self, stream: Words, words: Words, /) -> int: ...


class NativeBackend(Backend, Protocol):
    """The backend in C, which has variants for several instruction sets."""

    def isa(self) -> str: ...

    def isas(self) -> tuple[str, ...]: ...

    def built(self) -> tuple[str, ...]: ...

    def use_isa(self, name: str, /) -> None: ...
