"""What a silo adds to the likelihood of a model: sums from which deviance, log-likelihood, AIC and dispersion follow.

    loss        sum w l(y, z)                            l as the loss has it, without what depends on y alone
    least       sum w min_z l(y, z)                      so deviance = 2 (loss - least)
    pearson     sum w (y - m)^2 / V(m)                   V the variance function, for a dispersion of 1
    constant    sum w c(y)                               what the log-likelihood has beside -loss
    logarithm   sum w log y                              for gamma, whose c(y) depends on the dispersion

w are the weights of the rows, as counts of equal rows. Which curvature errors are taken from is said by `information`:
the expected one for links that are not canonical, as statistical software has it, except where only the observed one is
in use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from dualfl.errors import NotSupported
from dualfl.objectives.cox import CoxPartialLikelihood
from dualfl.objectives.families import CLogLog, Gamma, NegativeBinomial, Tweedie
from dualfl.objectives.linear import LinearModel
from dualfl.objectives.losses import Logistic, Loss, Poisson, Softmax, Squared
from dualfl.objectives.ordinal import ProportionalOdds
from dualfl.objectives.site_effect import OwnIntercept
from dualfl.typing import Array

CANONICAL = (Squared, Logistic, Poisson, Softmax)
EXPECTED = (Gamma, Tweedie, NegativeBinomial, CLogLog)


def likelihood_sums(f: Any, theta: Array) -> dict[str, float]:
    """Of one silo, at a model; `silent` counts those whose own intercept explains all (`objectives.site_effect`)."""
    if isinstance(f, CoxPartialLikelihood | ProportionalOdds):
        nothing = dict.fromkeys(("least", "pearson", "constant", "logarithm", "silent"), 0.0)
        value = f.data_value(theta) if isinstance(f, CoxPartialLikelihood) else f.ordinal_point(theta).parts.value
        return {"rows": float(f.n), "mass": f.mass, "loss": f.mass * value} | nothing
    if isinstance(f, OwnIntercept):
        if f.silent:
            at = likelihood_sums(f.base, np.append(theta, 0.0))
            return at | {"loss": at["least"], "pearson": 0.0, "silent": 1.0}
        return likelihood_sums(f.base, f.site_point(theta).whole)
    Z = f.predictors(theta)
    w = f.mass * f.s
    y = f.y
    least = np.zeros(f.n) if f.loss.nonnegative else -f.loss.conjugate(np.zeros(f.n), y)
    if isinstance(f.loss, Tweedie):  # at m = y; zeros fit a mean that goes to 0
        p = f.loss.power
        least = np.where(y > 0, y ** (2 - p) / ((p - 1) * (2 - p)), 0.0)
    return {
        "rows": float(f.n),
        "mass": f.mass,
        "loss": f.mass * (f.value(theta) - f.ridge / 2 * float(f.ridge_part(theta) @ f.ridge_part(theta))),
        "least": float(w @ least),
        "pearson": float(w @ pearson(f.loss, y, Z)),
        "constant": float(w @ constant(f.loss, y)),
        "logarithm": float(w @ np.log(y)) if isinstance(f.loss, Gamma) else 0.0,
        "silent": 0.0,
    }


def pearson(loss: Loss, y: Array, Z: Array) -> Array:
    """(y - m)^2/V(m) by rows; 0 where a loss has no variance."""
    z = Z[:, 0]
    if isinstance(loss, Squared):
        return np.asarray((y - z) ** 2)
    if isinstance(loss, Logistic | CLogLog):
        m = 1 / (1 + np.exp(-z)) if isinstance(loss, Logistic) else -np.expm1(-np.exp(np.minimum(z, 700.0)))
        return np.asarray(((y > 0) - m) ** 2 / np.maximum(m * (1 - m), 1e-300))
    if isinstance(loss, Poisson | Gamma | Tweedie | NegativeBinomial):
        m = np.exp(z)
        power = {Poisson: 1.0, Gamma: 2.0}.get(type(loss), loss.parameter)
        V = m + loss.dispersion * m * m if isinstance(loss, NegativeBinomial) else m**power
        return np.asarray((y - m) ** 2 / V)
    return np.zeros(len(y))


def constant(loss: Loss, y: Array) -> Array:
    """c(y), by rows; see `log_likelihood` in the statistics for those that depend on the dispersion."""
    if isinstance(loss, Poisson):
        return np.asarray(-gammaln(y + 1))
    if isinstance(loss, NegativeBinomial):
        size = 1 / loss.dispersion
        return np.asarray(gammaln(y + size) - gammaln(size) - gammaln(y + 1) + y * np.log(loss.dispersion))
    return np.zeros(len(y))


def information_kind(loss: Loss) -> str:
    """ "expected" or "observed": which curvature standard errors are taken from. For canonical links they are one."""
    return "expected" if isinstance(loss, CANONICAL + EXPECTED) else "observed"


def information(f: Any, theta: Array) -> Array:
    """The information of one silo's rows about theta, of a dispersion of 1; certificates take the Hessian instead."""
    if isinstance(f, OwnIntercept):
        if f.silent:
            return np.zeros((f.d, f.d))
        H = information(f.base, f.site_point(theta).whole)
        return np.asarray(H[:-1, :-1] - np.outer(H[:-1, -1], H[-1, :-1]) / H[-1, -1])
    if isinstance(f, CoxPartialLikelihood | ProportionalOdds):
        ridge = f.ridge if isinstance(f, CoxPartialLikelihood) else f.convexity
        return np.asarray(f.mass * (f.hessian(theta) - np.diag(np.broadcast_to(ridge, f.d))))
    if not isinstance(f.loss, EXPECTED):
        H = f.hessian(theta)
        H[np.diag_indices(f.d)] -= f.convexity
        return np.asarray(f.mass * H)
    return np.asarray(f.mass * f.design.gram(f.s * expected_curvature(f.loss, f.predictors(theta)[:, 0])))


def expected_curvature(loss: Loss, z: Array) -> Array:
    """(dm/dz)^2/V(m), the mean of l'' over what y may be."""
    if isinstance(loss, Gamma):
        return np.ones(len(z))
    if isinstance(loss, Tweedie):
        return np.asarray(np.exp((2 - loss.power) * z))
    if isinstance(loss, NegativeBinomial):
        m = np.exp(z)
        return np.asarray(m / (1 + loss.dispersion * m))
    if isinstance(loss, CLogLog):
        m = np.exp(np.minimum(z, np.log(700.0)))
        return np.asarray(np.where(m < 1e-8, m, m * m / np.expm1(np.maximum(m, 1e-300))))
    raise NotSupported(f"{loss} has no expected curvature of its own; its Hessian is the one.")


def dispersion_sums(f: LinearModel, theta: Array, size: float) -> dict[str, float]:
    """The slope of a negative binomial log-likelihood in its size 1/dispersion, and minus its curvature, at means m."""
    y, m, w = f.y, np.exp(f.predictors(theta)[:, 0]), f.mass * f.s
    slope = digamma(y + size) - digamma(size) + np.log(size) + 1 - np.log(size + m) - (y + size) / (size + m)
    bend = -polygamma(1, y + size) + polygamma(1, size) - 1 / size + 2 / (size + m) - (y + size) / (size + m) ** 2
    return {"slope": float(w @ slope), "bend": float(w @ bend)}
