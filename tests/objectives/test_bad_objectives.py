"""What is refused, each with the exact sentence: it names the argument, the value given, and what would be right."""

import numpy as np
import pytest
import scipy.sparse as sp
from objective_cases import build
from scipy.sparse.linalg import aslinearoperator

from dualfl.errors import InputError, NotSupported
from dualfl.objectives import (
    L1,
    Absolute,
    BoxConstraint,
    ElasticNetPenalty,
    EpsilonInsensitive,
    Function,
    GroupL2,
    Hinge,
    Huber,
    LinearModel,
    Logistic,
    NegativeBinomial,
    Poisson,
    Quadratic,
    Quantile,
    Softmax,
    Squared,
    SquaredHinge,
    regularised,
)

X = np.arange(6.0).reshape(3, 2)
y = np.array([0, 1, 2])
signs = np.array([-1, 1, 1])
zeros = np.zeros(2)


def spoiled(value, dtype=np.float64, row=1, column=0):
    Z = np.ones((3, 2), dtype)
    Z[row, column] = value
    return Z


def model(X=X, y=y, loss=Squared(), ridge=0.1, **options):  # noqa: B008 - losses do not change
    return LinearModel(X, y, loss, ridge, **options)


FINITE = "features must be finite, so fill or drop what is missing."
NUMBERS = "and features must be real numbers; encode the others first."

REFUSED = {
    # features
    "nan": (lambda: model(spoiled(np.nan)), f"X[1, 0] is nan; {FINITE}"),
    "inf": (lambda: model(spoiled(np.inf, row=2, column=1)), f"X[2, 1] is inf; {FINITE}"),
    "-inf": (lambda: model(spoiled(-np.inf)), f"X[1, 0] is -inf; {FINITE}"),
    "nan in float32": (lambda: model(spoiled(np.nan, np.float32)), f"X[1, 0] is nan; {FINITE}"),
    "nan in CSR": (lambda: model(sp.csr_array(spoiled(np.nan))), f"X[1, 0] is nan; {FINITE}"),
    "inf in CSC": (lambda: model(sp.csc_array(spoiled(np.inf, column=1))), f"X[1, 1] is inf; {FINITE}"),
    "inf in float32 CSR": (
        lambda: model(sp.csr_matrix(spoiled(np.inf, np.float32, 2, 1))),
        f"X[2, 1] is inf; {FINITE}",
    ),
    "nan in F order": (lambda: model(np.asfortranarray(spoiled(np.nan))), f"X[1, 0] is nan; {FINITE}"),
    "inf and -inf cancel": (
        lambda: model(np.array([[np.inf, -np.inf], [1, 1], [1, 1]])),
        f"X[0, 0] is inf; {FINITE}",
    ),
    "nan among huge numbers": (
        lambda: model(np.array([[1e308, 1e308], [1e308, 1e308], [np.nan, 1e308]])),
        f"X[2, 0] is nan; {FINITE}",
    ),
    "object features": (lambda: model(X.astype(object)), f"X has dtype object, {NUMBERS}"),
    "strings": (lambda: model(X.astype(str)), f"X has dtype <U32, {NUMBERS}"),
    "complex features": (lambda: model(X + 1j), f"X has dtype complex128, {NUMBERS}"),
    "complex CSR": (lambda: model(sp.csr_array(X + 1j)), f"X has dtype complex128, {NUMBERS}"),
    "dates": (lambda: model(np.zeros((3, 2), "M8[D]")), f"X has dtype datetime64[D], {NUMBERS}"),
    "1-D X": (
        lambda: model(X[:, 0]),
        "X must be a table of rows by features, but it has shape (3,).",
    ),
    "3-D X": (
        lambda: model(X[None]),
        "X must be a table of rows by features, but it has shape (1, 3, 2).",
    ),
    "empty client": (
        lambda: model(X[:0], y[:0]),
        "X has no rows: a client without data has nothing to minimise; leave it out.",
    ),
    "empty sparse client": (
        lambda: model(sp.csr_array((0, 2)), y[:0]),
        "X has no rows: a client without data has nothing to minimise; leave it out.",
    ),
    "no features": (lambda: model(X[:, :0]), "X has no features; it must have at least one column."),
    # targets
    "too few targets": (lambda: model(X, y[:2]), "X has 3 rows and y has 2; give one target a row."),
    "targets in a column": (
        lambda: model(X, y[:, None]),
        "y must be one target per row, a vector, but it has shape (3, 1).",
    ),
    "nan target": (
        lambda: model(X, np.array([1, np.nan, 2])),
        "y[1] is nan; targets must be finite.",
    ),
    "inf target": (lambda: model(X, [1, 2, -np.inf]), "y[2] is -inf; targets must be finite."),
    "string targets": (
        lambda: model(X, ["a", "b", "c"], Softmax(3)),
        "Softmax takes real numbers as targets, and y has dtype <U1; encode it first.",
    ),
    "object targets": (
        lambda: model(X, np.array([1, 2, None])),
        "Squared takes real numbers as targets, and y has dtype object; encode it first.",
    ),
    "complex targets": (
        lambda: model(X, y + 1j),
        "Squared takes real numbers as targets, and y has dtype complex128; encode it first.",
    ),
    "label too large": (
        lambda: model(X, y, Softmax(2)),
        "Softmax takes labels 0 to 1, and y contains 2; encode the classes as 0, 1, 2, ...",
    ),
    "negative label": (
        lambda: model(X, y - 1, Softmax(3)),
        "Softmax takes labels 0 to 2, and y contains -1; encode the classes as 0, 1, 2, ...",
    ),
    "label between classes": (
        lambda: model(X, [0, 0.5, 1], Softmax(3)),
        "Softmax takes labels 0 to 2, and y contains 0.5; encode the classes as 0, 1, 2, ...",
    ),
    **{
        f"labels 0 and 1 for {loss}": (
            lambda loss=loss: model(X, [0, 1, 1], loss),
            f"{loss} takes labels -1 and +1, and y contains 0; map your two classes to -1 and +1.",
        )
        for loss in (Logistic(), Hinge(), SquaredHinge())
    },
    "float label for Logistic": (
        lambda: model(X, [1, -1, 0.5], Logistic()),
        "Logistic takes labels -1 and +1, and y contains 0.5; map your two classes to -1 and +1.",
    ),
    "negative count": (
        lambda: model(X, [1, -2, 3], Poisson()),
        "Poisson takes counts >= 0, and y contains -2.",
    ),
    "half a count": (
        lambda: model(X, [1, 2.5, 3], NegativeBinomial()),
        "NegativeBinomial takes whole counts, and y contains 2.5; take Gamma or Tweedie for amounts, or counts with an "
        "exposure for rates.",
    ),
    # the other arguments of a linear model
    "negative ridge": (
        lambda: model(ridge=-1.0),
        "ridge must be a finite number >= 0, but it is -1.0.",
    ),
    "nan ridge": (lambda: model(ridge=np.nan), "ridge must be a finite number >= 0, but it is nan."),
    "inf ridge": (lambda: model(ridge=np.inf), "ridge must be a finite number >= 0, but it is inf."),
    "negative weight": (
        lambda: model(weights=[1, -1, 1]),
        "weights[1] is -1; weights must be finite and >= 0.",
    ),
    "nan weight": (
        lambda: model(weights=[1, 1, np.nan]),
        "weights[2] is nan; weights must be finite and >= 0.",
    ),
    "inf weight": (
        lambda: model(weights=[np.inf, 1, 1]),
        "weights[0] is inf; weights must be finite and >= 0.",
    ),
    "no weight": (
        lambda: model(weights=[0, 0, 0]),
        "The weights sum to 0.0, and their sum must be finite and > 0.",
    ),
    "too much weight": (
        lambda: model(weights=[1e308, 1e308, 1]),
        "The weights sum to inf, and their sum must be finite and > 0.",
    ),
    "too few weights": (
        lambda: model(weights=[1, 1]),
        "weights must be one number for each of the 3 rows, but their shape is (2,).",
    ),
    "one weight": (
        lambda: model(weights=1.0),
        "weights must be one number for each of the 3 rows, but their shape is ().",
    ),
    "weights in words": (
        lambda: model(weights=["1", "2", "3"]),
        "weights must be real numbers, but their dtype is <U1.",
    ),
    "scale 0": (
        lambda: model(scale=0.0),
        "scale must be a finite number other than 0, but it is 0.0.",
    ),
    "scale nan": (
        lambda: model(scale=np.nan),
        "scale must be a finite number other than 0, but it is nan.",
    ),
    "bad intercept": (
        lambda: model(intercept="yes"),
        "intercept must be True, False or \"free\", but it is 'yes'.",
    ),
    "no intercept": (
        lambda: model(intercept=None),
        'intercept must be True, False or "free", but it is None.',
    ),
    "a name for a loss": (
        lambda: model(loss="logistic"),
        "loss must be a loss such as Logistic() or Softmax(10), but it is 'logistic'.",
    ),
    "a class for a loss": (
        lambda: model(loss=Squared),
        "loss must be a loss such as Logistic() or Softmax(10), but it is <class 'dualfl.objectives.losses.Squared'>.",
    ),
    # where it is evaluated
    "x too short": (
        lambda: model().at(np.zeros(1)),
        "Squared is a function of 2 numbers, and x has shape (1,); give a flat vector of length 2.",
    ),
    "x not flat": (
        lambda: model(X, y, Softmax(3)).at(np.zeros((2, 3))),
        "Softmax is a function of 6 numbers, and x has shape (2, 3); give a flat vector of length 6.",
    ),
    "no intercept in x": (
        lambda: model(intercept=True).gradient(np.zeros(2)),
        "Squared is a function of 3 numbers, and x has shape (2,); give a flat vector of length 3.",
    ),
    "bad basis": (
        lambda: model(X, y, Softmax(3)).projected_hessian(np.zeros(6), np.ones((4, 2))),
        "U must be a matrix with 2 rows (features) or 6 (coefficients), but its shape is (4, 2).",
    ),
    "flat basis": (
        lambda: model(X, y, Softmax(3)).projected_hessian(np.zeros(6), np.ones(6)),
        "U must be a matrix with 2 rows (features) or 6 (coefficients), but its shape is (6,).",
    ),
    "bad basis for a quadratic": (
        lambda: Quadratic(np.eye(2), zeros).projected_hessian(zeros, np.ones((3, 1))),
        "U must be a matrix with 2 rows, but its shape is (3, 1).",
    ),
    # views
    "tilt against the curvature": (
        lambda: model().tilted(-0.2),
        "a = -0.2 would take away more curvature than the mu = 0.1 of Squared; a >= -mu is right.",
    ),
    "tilt against a free intercept": (
        lambda: model(intercept="free").tilted(-0.1),
        "a = -0.1 would take away more curvature than the mu = 0.0 of Squared; a >= -mu is right.",
    ),
    "nan tilt": (
        lambda: model().tilted(np.nan),
        "a = nan would take away more curvature than the mu = 0.1 of Squared; a >= -mu is right.",
    ),
    "tilt of another length": (
        lambda: model().tilted(np.ones(3)),
        "a must be a flat vector of length 2, but it has shape (3,).",
    ),
    "slope of another length": (
        lambda: model().tilted(0.0, np.ones(3)),
        "c must be a flat vector of length 2, but it has shape (3,).",
    ),
    "negative factor": (
        lambda: model().scaled(-1.0),
        "factor must be a finite number >= 0, but it is -1.0.",
    ),
    "nan factor": (
        lambda: Quadratic(np.eye(2), zeros).scaled(np.nan),
        "factor must be a finite number >= 0, but it is nan.",
    ),
    "nothing to regularise with": (
        lambda: regularised(model(), 0.0),
        "alpha must be a finite number > 0, but it is 0.0.",
    ),
    # losses
    "one class": (lambda: Softmax(1), "Softmax needs a whole number of classes >= 2, and classes = 1."),
    "half a class": (
        lambda: Softmax(2.5),
        "Softmax needs a whole number of classes >= 2, and classes = 2.5.",
    ),
    "Huber 0": (lambda: Huber(0.0), "Huber needs a finite delta > 0, and delta = 0.0."),
    "Huber nan": (lambda: Huber(np.nan), "Huber needs a finite delta > 0, and delta = nan."),
    "Huber inf": (lambda: Huber(np.inf), "Huber needs a finite delta > 0, and delta = inf."),
    "Quantile 0": (lambda: Quantile(0.0), "Quantile needs 0 < tau < 1, and tau = 0.0."),
    "Quantile 1": (lambda: Quantile(1.0), "Quantile needs 0 < tau < 1, and tau = 1.0."),
    "Quantile nan": (lambda: Quantile(np.nan), "Quantile needs 0 < tau < 1, and tau = nan."),
    "negative tube": (
        lambda: EpsilonInsensitive(-0.1),
        "EpsilonInsensitive needs a finite eps >= 0, and eps = -0.1.",
    ),
    "nan tube": (
        lambda: EpsilonInsensitive(np.nan),
        "EpsilonInsensitive needs a finite eps >= 0, and eps = nan.",
    ),
    # penalties
    "negative L1": (lambda: L1(-1.0), "L1's alpha must be a finite number >= 0, but it is -1.0."),
    "nan L1": (lambda: L1(np.nan), "L1's alpha must be a finite number >= 0, but it is nan."),
    "negative alpha": (
        lambda: ElasticNetPenalty(-1.0, 0.0),
        "ElasticNetPenalty's alpha must be a finite number >= 0, but it is -1.0.",
    ),
    "inf beta": (
        lambda: ElasticNetPenalty(1.0, np.inf),
        "ElasticNetPenalty's beta must be a finite number >= 0, but it is inf.",
    ),
    "negative group": (
        lambda: GroupL2(-2.0),
        "GroupL2's alpha must be a finite number >= 0, but it is -2.0.",
    ),
    "too few labels": (
        lambda: (model(intercept=True) + GroupL2(1.0, (0, 1))).value(np.zeros(3)),
        "GroupL2 has 2 labels, and the model has 3 rows; give one a row, also for an intercept, which is the last.",
    ),
    "empty box": (
        lambda: BoxConstraint(1.0, 0.0),
        "BoxConstraint needs lower <= upper, and lower = 1.0, upper = 0.0.",
    ),
    "nan box": (
        lambda: BoxConstraint(np.nan, 0.0),
        "BoxConstraint needs lower <= upper, and lower = nan, upper = 0.0.",
    ),
    "box at infinity": (
        lambda: BoxConstraint(lower=np.inf),
        "BoxConstraint needs a box with finite points in it, and lower = inf, upper = inf.",
    ),
    # quadratics
    "A of another size": (
        lambda: Quadratic(np.eye(3), zeros),
        "A must be square of the size of b, and A has shape (3, 3), b (2,).",
    ),
    "A not square": (
        lambda: Quadratic(np.ones((2, 3)), zeros),
        "A must be square of the size of b, and A has shape (2, 3), b (2,).",
    ),
    "nan in A": (
        lambda: Quadratic([[1.0, np.nan], [0.0, 1.0]], zeros),
        "A must be finite, but it contains NaN or infinity.",
    ),
    "nan in b": (
        lambda: Quadratic(np.eye(2), [np.nan, 0.0]),
        "b and constant must be finite, but they contain NaN or infinity.",
    ),
    "nan in b of an operator": (
        lambda: Quadratic(aslinearoperator(np.eye(2)), [np.nan, 0.0]),
        "b and constant must be finite, but they contain NaN or infinity.",
    ),
    "A not symmetric": (
        lambda: Quadratic([[1.0, 1.0], [0.0, 1.0]], zeros),
        "A must be symmetric, but it is not; give (A + A.T) / 2 if that is what you mean.",
    ),
    "A not convex": (
        lambda: Quadratic(np.diag([1.0, -2.0]), zeros),
        "A must be positive semidefinite, and its smallest eigenvalue is -2: not convex.",
    ),
    "negative mu of a quadratic": (
        lambda: Quadratic(np.eye(2), zeros, mu=-1.0),
        "mu must be a finite number >= 0, but it is -1.0.",
    ),
    "L below mu": (
        lambda: Quadratic(np.eye(2), zeros, mu=1.0, L=0.5),
        "L must be at least mu = 1.0, but it is 0.5.",
    ),
    # functions
    "no coordinates": (
        lambda: Function(0, np.sum, np.ones_like),
        "d must be a whole number >= 1, the length of x, but it is 0.",
    ),
    "half a coordinate": (
        lambda: Function(1.5, np.sum, np.ones_like),
        "d must be a whole number >= 1, the length of x, but it is 1.5.",
    ),
    "negative mu": (
        lambda: Function(2, np.sum, np.ones_like, mu=-1.0),
        "mu must be a finite number >= 0, but it is -1.0.",
    ),
    "nan mu": (
        lambda: Function(2, np.sum, np.ones_like, mu=np.nan),
        "mu must be a finite number >= 0, but it is nan.",
    ),
    "L less than mu": (
        lambda: Function(2, np.sum, np.ones_like, mu=2.0, L=1.0),
        "L must be positive and at least mu = 2.0, but it is 1.0.",
    ),
    "L nan": (
        lambda: Function(2, np.sum, np.ones_like, L=np.nan),
        "L must be positive and at least mu = 0.0, but it is nan.",
    ),
    "gradient of another shape": (
        lambda: Function(2, np.sum, lambda x: np.ones(3), name="Mine").gradient(zeros),
        "Mine's gradient returned shape (3,), and x has shape (2,); they must agree.",
    ),
    "product of another shape": (
        lambda: Function(2, np.sum, np.ones_like, lambda x, v: np.ones((2, 1))).hessian_times(zeros, zeros),
        "Function's hessian_times returned shape (2, 1), and x has shape (2,); they must agree.",
    ),
}

NOT_TOGETHER = {
    "no ridge": (
        lambda: model(ridge=0.0).require_strong_convexity("DualFL"),
        "DualFL needs a strongly convex objective, and Squared has mu = 0.0; "
        "give it a ridge > 0, or take a method that does not ask for it.",
    ),
    "free intercept": (
        lambda: model(intercept="free").require_strong_convexity("DualFL"),
        "DualFL needs a strongly convex objective, and Squared has a free intercept, "
        "which no ridge penalises; penalise it with intercept=True, or take a method that does not ask for it.",
    ),
    "gradient of a hinge": (
        lambda: model(X, signs, Hinge()).gradient(zeros),
        "This step needs a gradient, and Hinge has none; use SDCA, or a federated method for nonsmooth costs.",
    ),
    "Hessian of an absolute value": (
        lambda: model(loss=Absolute()).tilted(1.0).hessian(zeros),
        "A Hessian needs a gradient, and Absolute has none; use SDCA, or a federated method for nonsmooth costs.",
    ),
    "Hessian product of a hinge": (
        lambda: model(X, signs, Hinge()).hessian_times(zeros, zeros),
        "A Hessian product needs a gradient, and Hinge has none; use SDCA, or a federated method for nonsmooth costs.",
    ),
    "projected Hessian of a hinge": (
        lambda: model(X, signs, Hinge()).projected_hessian(zeros, np.ones((2, 1))),
        "A projected Hessian needs a gradient, and Hinge has none; "
        "use SDCA, or a federated method for nonsmooth costs.",
    ),
    "stochastic gradient of a hinge": (
        lambda: model(X, signs, Hinge()).sample_gradient(np.array([0]), zeros),
        "A stochastic gradient needs a gradient, and Hinge has none; "
        "use SDCA, or a federated method for nonsmooth costs.",
    ),
    "two penalties": (
        lambda: model() + L1(0.1) + L1(0.1),
        "Squared + L1 carries a penalty already; combine l1 and l2 with ElasticNetPenalty instead of adding twice.",
    ),
    "scaling a function": (
        lambda: Function(2, np.sum, np.ones_like).scaled(2.0),
        "Function cannot be scaled, which methods for equal clients need when clients are not; "
        "use a linear model, a quadratic, or a method that takes weights.",
    ),
    "scaling with a slope": (
        lambda: model().tilted(0.0, np.ones(2)).scaled(2.0),
        "Squared cannot be scaled, which methods for equal clients need when clients are not; "
        "use a linear model, a quadratic, or a method that takes weights.",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_bad_input_is_refused_in_one_sentence(what):
    act, sentence = REFUSED[what]
    with pytest.raises(InputError) as error:
        act()
    assert str(error.value) == sentence


@pytest.mark.parametrize("what", NOT_TOGETHER)
def test_what_does_not_go_together_is_said_in_one_sentence(what):
    act, sentence = NOT_TOGETHER[what]
    with pytest.raises(NotSupported) as error:
        act()
    assert str(error.value) == sentence


def test_strong_convexity_that_is_there_is_returned():
    assert model(ridge=0.25).require_strong_convexity("DualFL") == 0.25
    assert model(intercept="free").tilted(0.5).require_strong_convexity("DualFL") == 0.5


def test_a_refused_evaluation_leaves_no_trace():
    f = build(Hinge()).f
    for ask in (f.gradient, lambda x: f.hessian_times(x, x), f.hessian):
        with pytest.raises(NotSupported):
            ask(np.ones(4))
    assert f.cost == f.fresh().cost
    assert f.value(np.ones(4)) == f.fresh().value(np.ones(4))
    with pytest.raises(InputError):
        f.at(np.ones(5))
    assert all(len(point.x) == 4 for point in f._recent)
