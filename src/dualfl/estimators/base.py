"""What all estimators share: silos in, one federated run, a linear model out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from dualfl.arguments import conforms, shown
from dualfl.engines.result import Result
from dualfl.errors import DualflError, InputError, NoMinimiser, NotSupported
from dualfl.estimators import all_rows
from dualfl.estimators.inference import Endless, Fitting, Inference, endless, inferring
from dualfl.estimators.parameters import estimator
from dualfl.estimators.separation import separating
from dualfl.estimators.silos import KINDS, checked_silos, how_many, one_table, split
from dualfl.estimators.solving import FitCost, FitLimits, Task, shifted, solving, warn_unless_certified
from dualfl.estimators.strongest_penalty import spreads
from dualfl.kernels.blas_threads import one_blas_thread
from dualfl.objectives import Cox, Ordered
from dualfl.objectives.linear import Intercept
from dualfl.silos.chamber import Chamber, Dealing, SiloRows
from dualfl.silos.costs import ALL, Cost, Sample
from dualfl.silos.here import SilosHere
from dualfl.silos.questions import Conversation, Silos, drive, measured_samples, measurement, measuring
from dualfl.silos.verbs import answered
from dualfl.tables.schema import INTERCEPT
from dualfl.typing import AnyArray, Array

Models = list[Array]  # flat, one for each problem that is solved; most estimators solve one


@estimator
class FederatedLinear(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn is untyped
    """A linear model on silos. Subclasses state their objective in `_cost` and prepare their targets in `_prepared`.

    Parameters
    ----------
    algorithm : str or Algorithm, default 'auto'
        The name of an algorithm, an instance of one, or "auto", which takes the one that suits the problem.
    tol : float, default 1e-06
        The fit ends when E - E* <= tol |E| is proven.
    max_iter : int, default 200
        The largest number of rounds.
    random_state : int or None, optional
        The seed of algorithms that draw random numbers, and of folds.
    verbose : bool, default False
        Whether a bar shows how far the fit is.
    """

    algorithm: Any = "auto"
    tol: float = 1e-6
    max_iter: int = 200
    random_state: Any = None
    verbose: bool = False

    fit_intercept, penalize_intercept = False, False  # unless it is `WithIntercept`
    _no_minimiser: ClassVar = (
        "Without a penalty this model has no minimiser: its coefficients grow for ever; give an alpha > 0."
    )

    # -- what a user calls ------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None, *, offset: Any = None) -> Self:
        """Fit to rows that belong to silos.

        Parameters
        ----------
        X : array_like
            Rows by features: dense, SciPy sparse or a DataFrame.
        y : array_like
            The target of each row.
        groups : array_like, optional
            The silo of each row, any labels; None is one silo.
        sample_weight : array_like, optional
            How much each row counts; None counts every row once.
        offset : array_like, optional
            A number for each row that is added to its predictor, such as the logarithm of an exposure.
        """
        whole, labels = one_table(self, X, y, groups, sample_weight, offset)
        if self._fit_all_rows(whole, labels):
            return self
        return self._fit_here(split(whole, labels), joined=True)

    def fit_silos(self, silos: Any, names: Sequence[str] | None = None) -> Self:
        """Fit to silos.

        Parameters
        ----------
        silos : sequence or Study
            A list of silos, each (X, y) or (X, y, weights); or a study, `dualfl.connect(...)`.
        names : sequence of str, optional
            The names of the silos of a list, for messages.
        """
        if hasattr(silos, "fit_estimator"):
            if getattr(self, "class_weight", None) is not None:
                raise NotSupported("class_weight is for silos of this process; a study has the weights of its rows.")
            silos.fit_estimator(self)
            return self
        return self._fit_here(checked_silos(self, silos, names))

    # -- what subclasses say ----------------------------------------------------------------------

    @abstractmethod
    def _cost(self, mass: float) -> FitCost:
        """The objective, `mass` being the total weight of all rows."""

    def _prepared(self, silos: list[SiloRows]) -> list[SiloRows]:
        """Silos with targets as the losses take them; whatever is learnt on the way becomes an attribute."""
        return silos

    def _positives(self) -> Sequence[int | None]:
        """For each problem the class that is against the others; None: targets are taken as they are."""
        return (None,)

    @abstractmethod
    def _keep(self, W: Array, b: Array) -> None:
        """Store coefficients, one row a problem's output, and intercepts."""

    # -- the fit ----------------------------------------------------------------------------------

    def _fit_all_rows(self, whole: SiloRows, labels: AnyArray | None) -> bool:
        """The fit without messages, which is possible where sums over all rows are all that is asked for."""
        plain = type(self)._fitting is FederatedLinear._fitting
        if not plain or not isinstance(self.algorithm, str) or self.algorithm != "auto" or not whole.mass > 0:
            return False
        rows = self._prepared([whole])
        chamber = Chamber(rows[0])
        asked = measurement([ALL], self._cost(1.0).loss, self._class_count)
        (sample,) = measured_samples([ALL], answered(chamber, asked.verb, asked.given))
        costs = self._costs(sample)
        if len(costs) > 1 or isinstance(costs[0].loss, Cox | Ordered):
            return False
        f, l1, limits = chamber.objective(costs[0]), costs[0].l1, self._limits(sample)
        if not all_rows.suits(f, l1):
            return False
        with one_blas_thread():
            result = all_rows.minimised(f, l1, limits, how_many(whole, labels))
        if result is None:
            return False
        self._rows, self._told = rows, None
        self._note([shifted(result, costs[0].shift)], sample)
        return True

    def _fit_here(self, silos: list[SiloRows], joined: bool = False) -> Self:
        self._rows, self._told = self._prepared(silos), None
        here = self._silos_here(joined)
        with one_blas_thread():
            drive(self._fitting(here), here)
        return self

    def _silos_here(self, joined: bool = False) -> SilosHere:
        """The silos whose rows are in this process."""
        classes = bool(self._class_count)
        chambers = [Chamber(silo, Dealing(self._deal, j, classes)) for j, silo in enumerate(self._rows)]
        return SilosHere(chambers, joined)

    def _fitting(self, silos: Silos) -> Conversation[None]:
        """The whole fit, wherever the silos are."""
        (sample,) = yield from measuring([ALL], self._cost(1.0).loss, self._class_count, "the fit")
        (results,) = yield from self._solving(silos, [Task(self, sample)])
        self._note(results, sample)

    def _solving(
        self, silos: Silos, tasks: Sequence[Task], purpose: str = "the fit"
    ) -> Conversation[list[list[Result]]]:
        """The results of tasks, all of which must be solved, and have a minimiser."""
        found = yield from solving(silos, tasks, purpose)
        results = []
        for task, outcome in zip(tasks, found):
            if isinstance(outcome, DualflError):
                raise (yield from self._in_words(silos, outcome, task))
            outcome = yield from self._proven(silos, task, outcome)
            yield from self._inspecting(silos, task, outcome)
            results.append(outcome)
        return results

    def _proven(self, silos: Silos, task: Task, results: list[Result]) -> Conversation[list[Result]]:
        """With the proofs that silos are asked for where an algorithm has none; most have one."""
        yield from ()
        return results

    def _in_words(self, silos: Silos, error: DualflError, task: Task) -> Conversation[DualflError]:
        cost = self._costs(task.sample)[0]
        if not isinstance(error, NoMinimiser) or not cost.ridge == cost.l1 == 0:
            return error
        return (yield from self._without_minimiser(silos, task.sample, error.direction))

    def _without_minimiser(self, silos: Silos, sample: Sample, known: Any = None) -> Conversation[NoMinimiser]:
        """Which direction separates, if silos say that one does."""
        spread = yield from spreads(sample, around_mean=True)
        found = yield from separating(silos, self, sample, np.sqrt(np.maximum(spread, 1e-300)))
        way = "" if found is None else f" What separates is {found.combination(self._columns())}."
        named = NoMinimiser(self._no_minimiser + way)
        named.direction = known if found is None else found.entries.ravel()
        return named

    def _note(self, results: list[Result], sample: Sample, model: FederatedLinear | None = None) -> None:
        """Keep what came of it, and say if nothing is proven; `model` has the penalty, if it was chosen."""
        model = model or self
        limits = model._limits(sample)
        warn_unless_certified(results, limits)
        self._read(results, limits.offset)
        energy = np.nan if results[0].energy is None else float(results[0].energy)
        self._known = Fitting(model._costs(sample)[0], sample, energy)

    def _costs(self, sample: Sample) -> list[Cost]:
        """One problem for each class that is against the others; most estimators have one."""
        cost, intercept, shift = self._cost(sample.mass), self._intercept(), self._shift(sample)
        return [
            Cost(cost.loss, cost.ridge, cost.l1, intercept, sample.rows, positive, shift)
            for positive in self._positives()
        ]

    def _limits(self, sample: Sample) -> FitLimits:
        tol, rounds = check_number("tol", self.tol, above=0), check_count("max_iter", self.max_iter)
        seed = 0 if self.random_state is None else int(check_random_state(self.random_state).randint(2**31 - 1))
        # What E lacks to be zero for a perfect fit: losses that can be negative have another least value.
        return FitLimits(tol, rounds, seed, bool(self.verbose), -sample.least / sample.mass)

    @property
    def _class_count(self) -> int:
        return len(getattr(self, "classes_", ()))

    @property
    def _deal(self) -> int:
        """What rows are dealt into folds by."""
        return int(self.random_state) if isinstance(self.random_state, int | np.integer) else 0

    def _shift(self, sample: Sample) -> float:
        """A number to take off the targets and to add to the intercept, so that no digits are lost to it."""
        return 0.0

    def _inspecting(self, silos: Silos, task: Task, results: list[Result]) -> Conversation[None]:
        """Refuse what has no minimiser: where nothing is proven, the likelihood may rise for ever."""
        cost, result = self._costs(task.sample)[0], results[0]
        if result.certificate is None and (yield from endless(cost, result.theta)):
            raise (yield from self._without_minimiser(silos, task.sample))

    def _intercept(self) -> Intercept:
        if not self.fit_intercept:
            return False
        return True if self.penalize_intercept else "free"

    def _read(self, results: list[Result], offset: float = 0.0) -> None:
        """Everything a fitted estimator tells."""
        W, b = coefficients([result.theta for result in results], results[0].shape, bool(self.fit_intercept))
        self._keep(W, b)
        self.n_iter_ = max(result.rounds for result in results)
        self.n_exchanges_ = max(result.history[-1].exchanges for result in results)
        self.history_ = results[0].history if len(results) == 1 else [result.history for result in results]
        gaps = [result.certificate for result in results]
        self.certificate_ = None if None in gaps else float(sum(gap for gap in gaps if gap is not None))
        self.certificate_reason_ = next((r.certificate_reason for r in results if r.certificate is None), "")
        self.objective_ = offset + sum(np.nan if r.energy is None else r.energy for r in results)
        self.algorithm_ = what_ran(results[0])

    # -- errors -----------------------------------------------------------------------------------

    @property
    def inference_(self) -> Inference:
        """Errors, tests, intervals, covariance and likelihood, by one exchange of sums when it is first asked for."""
        check_is_fitted(self)
        if self._told is None:
            if getattr(self, "_rows", None) is None:
                raise InputError(
                    "The rows of this fit are not here any more (the model was stored or copied), so its errors cannot "
                    "be asked for; fit again, and ask then."
                )
            here = self._silos_here()
            with one_blas_thread():
                drive(self._inferring(here), here)
        if isinstance(self._told, str):
            raise InputError(self._told)
        assert self._told is not None, "it was just asked for"
        return self._told

    def summary(self, level: float = 0.95) -> str:
        """The table of `inference_`: estimates, errors, tests, and ratios with their intervals.

        Parameters
        ----------
        level : float, default 0.95
            The coverage of the intervals.
        """
        return str(self.inference_.at(level))

    def _inferring(self, silos: Silos) -> Conversation[None]:
        """Ask for what `inference_` has; where there is none, keep the sentence that says why."""
        theta, estimate = self._model(), self._estimate()
        searched, offset = self._searched, any(silo.offset is not None for silo in getattr(self, "_rows", None) or ())
        try:
            self._told = yield from inferring(self._known, theta, self._names(), estimate, searched, offset)
        except Endless:
            self._told = str((yield from self._without_minimiser(silos, self._known.sample)))
        except InputError as error:
            self._told = str(error)

    _told: Inference | str | None = field(init=False, default=None)

    @property
    def _searched(self) -> bool:
        """Whether a dispersion was estimated besides."""
        return False

    def _model(self) -> Array:
        """What the cost was minimised by, flat."""
        return self._estimate()

    def _estimate(self) -> Array:
        """The same as people read it, in the order of `_names`: column after column, in each class after class."""
        W = np.atleast_2d(self.coef_).T
        return np.vstack([W, np.atleast_1d(self.intercept_)[None]] if self.fit_intercept else [W]).ravel()

    def _names(self) -> list[str]:
        columns = self._columns() + [INTERCEPT] * bool(self.fit_intercept)
        classes = getattr(self, "classes_", ())
        return [f"{name}, {one}" for name in columns for one in classes] if len(classes) > 2 else columns

    def _columns(self) -> list[str]:
        return list(map(str, getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])))

    def __getstate__(self) -> dict[str, Any]:
        """Without the rows: they stay in this process."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_rows"}

    # -- prediction -------------------------------------------------------------------------------

    def _predictor(self, X: Any) -> Array:
        """X W' + b, one column an output."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=KINDS)
        z: Array = safe_sparse_dot(X, np.atleast_2d(self.coef_).T, dense_output=True) + self.intercept_
        return z

    def to_sklearn(self) -> Any:
        """An estimator of scikit-learn that predicts the same without dualfl; `skl2onnx` makes ONNX of it.

        It takes no offset: it predicts what `predict` does where none is given.
        """
        from dualfl.estimators.exporting import to_sklearn

        return to_sklearn(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@estimator
class WithIntercept(FederatedLinear):
    """A model that may have an intercept.

    Parameters
    ----------
    fit_intercept : bool, default True
        Whether the model has an intercept.
    penalize_intercept : bool, default False
        Whether the penalty is on the intercept too; most first-order algorithms need that.
    """

    fit_intercept: bool = True
    penalize_intercept: bool = False


def coefficients(thetas: Models, shape: tuple[int, ...], intercept: bool) -> tuple[Array, Array]:
    """Flat models as one row of coefficients an output, and their intercepts."""
    columns = np.concatenate([theta.reshape(shape[0], -1) for theta in thetas], axis=1)
    if intercept:
        return np.ascontiguousarray(columns[:-1].T), columns[-1].copy()
    return np.ascontiguousarray(columns.T), np.zeros(columns.shape[1])


def what_ran(result: Result) -> str:
    """What ran: the algorithm, and for a choice of the library the reason."""
    return result.choice or result.algorithm.name


def check_number(name: str, value: Any, above: float | None = None, least: float | None = None) -> float:
    """A real number in its range, or a sentence."""
    right = f"> {above:g}" if above is not None else f">= {least:g}" if least is not None else "finite"
    if not conforms(value, float) or not (above is None or value > above) or not (least is None or value >= least):
        raise InputError(f"{name} must be a number {right}, but it is {shown(value)}.")
    return float(value)


def check_count(name: str, value: Any) -> int:
    """A whole number of at least 1, or a sentence."""
    if not check_number(name, value, least=1) < np.inf or value != int(value):
        raise InputError(f"{name} must be a whole number >= 1, but it is {shown(value)}.")
    return int(value)
