"""`auto`: which method a problem needs, said in one sentence before it runs.

    squared loss, any penalty, d <= 2000                  one-shot          one exchange
    smooth loss                                           sketched-newton   Newton, or a sketch of it, from sums
    smooth loss with l1, elastic net, group, box          prox-newton       the penalty inside Newton's model
    hazards, odds, site effects, d <= 1000                prox-newton       Newton with the summed Hessians
    hinge, absolute, quantile, epsilon-insensitive        fedipm            interior points, d <= 2000
    the same, d > 2000 or clients of few rows             bundle            cuts in the metric of the ridge
    anything else                                         the best first-order method that applies

This is the choice for `cost="exchanges"`: a round costs time whatever its size. With `cost="floats"` numbers count:
DiSCO while clients are alike, whose messages are single vectors and whose preconditioner is then good, and L-BFGS
otherwise. Clients are called alike if their gradients at zero differ by no more than `ALIKE` times what chance gives.

With `cost="time"` and a network, `time_model` predicts what the first of these, L-BFGS, local-secants and a bundle
take, and the quickest runs. A prediction of local-secants can be wrong, so it looks at its own progress and becomes
L-BFGS where its steps do not pay, keeping its point and its pairs. It decides by sums that every silo sees.

The clients tell what they have in one exchange of a few scalars before the first round (engines/survey.py), so that the
choice is made in the same way where the server holds no data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NoReturn

import numpy as np

from dualfl.algorithms.contract import Algorithm, Card, Constants, Facts, Place, Round, State
from dualfl.algorithms.dual import Bundle, DualFL
from dualfl.algorithms.few_exchanges import fedipm, one_shot, prox_newton, sketched_metric, sketched_newton
from dualfl.algorithms.few_exchanges.time_model import Network, by_gradients, clock, predicted
from dualfl.algorithms.second_order import DiSCO
from dualfl.algorithms.server import ServerLBFGS, ServerNesterov
from dualfl.algorithms.similarity import LocalSecants
from dualfl.algorithms.splitting import FedDR
from dualfl.errors import InputError
from dualfl.objectives.penalties import L1, ElasticNetPenalty, Penalty
from dualfl.typing import Array

ALIKE = 2.0
ROUGH = 0.2  # of the gradient: what DiSCO may leave of Newton's equation
WIDE, MANY_CLASSES = 4000, 30  # columns, and classes, beyond which a gradient takes less time than a useful sketch
PAIRS, FEWEST, BYTES = 30, 5, 1.2e8  # that L-BFGS keeps, at least, and of so many bytes
SPARE = 12  # vectors of the length of the model, beside the pairs
PRODUCTS = 16  # features an output: with more, their second moments take more time than a few gradients
MOST_NUMBERS = 10**7
FOR_BUNDLES = 1e-2  # the least ridge with which a bundle of subgradients gets there soon
FORESEEN = ("one-shot", "lbfgs", "local-secants", "bundle", "fedipm", "prox-newton", "sketched-newton")
# Costs that are no losses of a row, and have a Hessian to send.
BY_HESSIAN = ("CoxPartialLikelihood", "ProportionalOdds", "OwnIntercept")
Choice = tuple[Algorithm, str]


@dataclass(frozen=True)
class Auto(Algorithm):
    """Chooses the method that needs the fewest exchanges for the problem at hand, and runs it.

    This is the default of the estimators and of `dualfl fit`. The clients describe their problems in a few numbers;
    from these it picks one-shot moments, a Newton method, an interior point method or a first-order method. What it
    picked, and why, is in `result.choice`.

    Parameters
    ----------
    cost : {'exchanges', 'floats', 'time'}, default 'exchanges'
        What to save: exchanges, numbers sent, or time. "time" means the time on a network with the given `latency` and
        `bandwidth`; without them, in one process, where exchanges cost nothing.
    least_rows : int, default 5
        Clients with fewer rows send no sums of second derivatives, which could reveal rows; those of the other clients
        are used instead. If no client has so many rows, a first-order method runs.
    memory : float, default 4000000000.0
        Bytes of memory that a client or the server may use in addition to its rows.
    proof : bool, default False
        Whether the method itself must have a certificate, also if the intercept is free. A fit in one process need not
        ask for that, because it proves its result afterwards.
    latency : float, default 0.0
        For "time": seconds that an exchange takes on the network. It is part of the plan of a deployment, so that every
        silo makes the same choice.
    bandwidth : float, default inf
        For "time": Mbit/s of a client's line. Also part of the plan.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.Auto(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-8)
    True
    """

    cost: Literal["exchanges", "floats", "time"] = "exchanges"
    least_rows: int = 5
    memory: float = 4e9
    proof: bool = False
    latency: float = 0.0
    bandwidth: float = np.inf

    name = "auto"
    needs = frozenset()
    penalty = "server"
    strongly_convex = False
    undecided = True
    grid: ClassVar = {}
    card = Card(
        "Auto",
        2026,
        "this library",
        exchanges="of the method chosen",
        up="of the method chosen",
        needs="convex",
        rate="of the method chosen",
    )

    @property
    def certifies(self) -> bool:
        return True  # whether the one that runs does is seen then

    def specialise(self, k: Constants, penalty: Penalty | None) -> Choice:
        """What to run, and why."""
        self.check_kinds()
        if self.cost not in ("exchanges", "floats", "time"):
            raise InputError(f'auto: cost = {self.cost!r} is not allowed; it is "exchanges", "floats" or "time".')
        self.require(self.least_rows >= 1, "least_rows", "it must be at least 1 row")
        self.require(self.memory > 0, "memory", "it must be a number of bytes > 0")
        least = 8.0 * k.d * (2 * FEWEST + SPARE)
        if least > self.memory:
            raise InputError(
                f"auto: memory = {self.memory:.3g} bytes is not enough for anything: L-BFGS, which takes the least, "
                f"takes {least:.3g} bytes for {k.d:,} coefficients."
            )
        facts = k.facts
        if facts is None:
            raise InputError("auto needs to know what kind of problem it is; let an engine ask the clients.")
        self.require(0 <= self.latency < np.inf, "latency", "it must be a number of seconds >= 0")
        self.require(self.bandwidth > 0, "bandwidth", "it must be a number of Mbit/s > 0")
        if self.cost != "time" and not self.network.free:
            raise InputError(
                f'auto: latency and bandwidth need cost = "time", but cost is "{self.cost}"; set it, or leave them out.'
            )
        if self.cost == "time" and not self.network.free:
            chosen, why = self.quickest(k, facts, penalty)
        else:
            chosen, why = self.few_floats(k, facts, penalty) if self.cost == "floats" else self.few(k, facts, penalty)
        return chosen, f"auto runs {chosen.name}: {why}."

    @property
    def network(self) -> Network:
        return Network(self.latency, self.bandwidth)

    def quickest(self, k: Constants, facts: Facts, penalty: Penalty | None) -> Choice:
        """The least time on the network that is stated."""
        first = replace(self, cost="exchanges").few(k, facts, penalty)
        candidates = [first]
        if facts.smooth and penalty is None:
            what = describe(facts, penalty)
            if first[0].name != ServerLBFGS.name:
                candidates.append((self.secants(k, facts), f"{what} by gradients alone"))
            if k.mu > 0 and facts.moments and facts.loss:
                local = LocalSecants(self.pairs(k), plain=round(by_gradients(k, facts)))
                candidates.append((local, f"{what} by Newton steps of the clients, {likeness(facts)}"))
        if facts.piecewise and penalty is None and k.mu >= FOR_BUNDLES and first[0].name != Bundle.name:
            candidates.append((Bundle(), f"{describe(facts, penalty)} by a bundle of subgradients"))
        known = [(predicted(chosen.name, k, facts), chosen, why) for chosen, why in candidates if foreseen(chosen)]
        if not known:
            return first
        known.sort(key=lambda one: one[0].on(self.network))
        (best, chosen, why), others = known[0], known[1:]
        rival = "".join(f"; {other.name} {expected.told(self.network)}" for expected, other, _ in others)
        return chosen, f"{why}; expected on a network of {self.network}: {best.told(self.network)}{rival}"

    def afterwards(self, exchanges: int, floats: float, computing: float) -> str:
        """What a run took, `floats` being those of one client, beside what was expected; "" where nothing was."""
        if self.cost != "time" or self.network.free:
            return ""
        return f"It took {exchanges} exchanges and {clock(self.network.seconds(exchanges, floats, computing))}."

    def few(self, k: Constants, facts: Facts, penalty: Penalty | None) -> Choice:
        """The fewest exchanges."""
        what, race = describe(facts, penalty), self.cost == "exchanges"
        if 0 < facts.least < self.least_rows:
            if k.n >= self.least_rows:
                with_few = self.beside_few_rows(k, facts, penalty, what, race)
                if with_few is not None:
                    chosen, why = with_few
                    return chosen, f"{why}; clients with fewer than {self.least_rows} rows send gradients only"
            return self.first_order(
                k, facts, penalty, f"a client has {facts.least} rows, and second-order sums of fewer than "
                f"{self.least_rows} could reveal them"
            )  # fmt: skip
        if facts.loss == "Squared" and k.d <= one_shot.LARGEST:
            return one_shot.OneShot(self.least_rows), f"{what} is solved by its second moments, in one exchange"
        if self.proof and proves_by_prox_newton(facts) and penalty is None and self.fits_prox_newton(k, penalty):
            return prox_newton.ProxNewton(
                race, least_rows=self.least_rows
            ), f"{what} with Newton's model, the intercept free"
        if facts.smooth and penalty is None and facts.moments and k.d <= sketched_newton.LARGEST:
            return self.newton(k, facts, what)
        if facts.smooth and penalty is not None and facts.moments and self.fits_prox_newton(k, penalty):
            return prox_newton.ProxNewton(
                race, least_rows=self.least_rows
            ), f"{what} with the penalty in Newton's model"
        if facts.loss in BY_HESSIAN and self.fits_prox_newton(k, penalty):
            return prox_newton.ProxNewton(race, least_rows=self.least_rows), f"{what} with the summed Hessians"
        if facts.piecewise and facts.loss:
            if k.d <= fedipm.LARGEST:
                return fedipm.FedIPM(race, self.least_rows), f"{what} by interior points that stay at home"
            numbers = k.d * (k.d + 1) // 2
            return self.first_order(
                k, facts, penalty, f"d = {k.d:,} would make sums of {numbers:,} numbers, {8e-6 * numbers:,.0f} MB, "
                f"and fedipm takes d up to {fedipm.LARGEST:,}"
            )  # fmt: skip
        return self.first_order(k, facts, penalty, f"{what} has no second-order method here")

    def beside_few_rows(
        self, k: Constants, facts: Facts, penalty: Penalty | None, what: str, race: bool
    ) -> Choice | None:
        """What takes gradients of some clients and second-order sums of the others."""
        if facts.smooth and facts.moments and penalty is None:
            return self.newton(k, facts, what)
        if facts.smooth and facts.moments and self.fits_prox_newton(k, penalty):
            chosen = prox_newton.ProxNewton(race, least_rows=self.least_rows)
            return chosen, f"{what} with the penalty in Newton's model"
        if facts.piecewise and facts.loss and k.d <= fedipm.LARGEST:
            return fedipm.FedIPM(race, self.least_rows), f"{what} by interior points that stay at home"
        return None

    def newton(self, k: Constants, facts: Facts, what: str) -> Choice:
        """Newton's method with what of the Hessian is worth its price, or L-BFGS if nothing is, or nothing fits."""
        if small(facts):
            whole = sketched_newton.SketchedNewton(local=self.cost == "exchanges", least_rows=self.least_rows)
            return whole, f"{what} with the whole Hessian, from sums"
        needed = sketch_bytes(k, facts)
        if needed > self.memory:
            return self.first_order(
                k, facts, None, f"{what} would take {needed / 1e9:,.1f} GB for a sketch of the Hessian, and "
                f"{self.memory / 1e9:g} GB are allowed"
            )  # fmt: skip
        if self.cost == "exchanges":
            how = sketched_newton.SketchedNewton(least_rows=self.least_rows)
            return how, f"{what} with a sketch of the Hessian and secant pairs, from sums"
        if facts.D > WIDE or facts.k > MANY_CLASSES:
            return self.first_order(k, facts, None, f"{what}: gradients are cheaper than a sketch of the Hessian")
        # A metric of as many numbers as it takes multiply-adds: a few gradients' worth near, less than one far away.
        far, near = min(2 * k.d, MOST_NUMBERS), min(16 * k.d, MOST_NUMBERS)
        how = sketched_newton.SketchedNewton(far, near, 0.1, local=False, least_rows=self.least_rows)
        return how, f"{what} with a small sketch of the Hessian and secant pairs, from sums"

    @staticmethod
    def fits_prox_newton(k: Constants, penalty: Penalty | None) -> bool:
        active = isinstance(penalty, L1 | ElasticNetPenalty) and k.d <= prox_newton.LARGEST
        return active or k.d <= prox_newton.ProxNewton().full

    def few_floats(self, k: Constants, facts: Facts, penalty: Penalty | None) -> Choice:
        """The fewest numbers."""
        if facts.smooth and penalty is None and k.mu > 0 and facts.alike is not None and facts.alike <= ALIKE:
            if self.secants(k, facts).metric == "features":
                return self.first_order(
                    k, facts, penalty, f"with {facts.k} outputs all pairs of {facts.D:,} features are few numbers"
                )
            # Rough steps: to solve for Newton's as exactly as theory asks takes three times the numbers of L-BFGS.
            return DiSCO(mu_P=k.mu, accuracy=ROUGH), (
                f"the clients are alike (they differ {facts.alike:.1f} times as much as by chance), so one of them is "
                "a good preconditioner for all"
            )
        if facts.alike is not None and facts.alike > ALIKE:
            return self.first_order(
                k, facts, penalty, f"the clients are unlike (they differ {facts.alike:.3g} times as much as by chance)"
            )  # fmt: skip
        return self.first_order(k, facts, penalty, "single vectors are the smallest messages")

    def first_order(self, k: Constants, facts: Facts, penalty: Penalty | None, because: str) -> Choice:
        """The best that needs no second-order sums."""
        if facts.smooth and penalty is None:
            return self.secants(k, facts), f"{because}; L-BFGS at the server needs gradients only"
        if facts.smooth:
            return ServerNesterov(), f"{because}; Nesterov's method takes the penalty by its prox"
        if facts.piecewise and penalty is None:  # whose exchanges do not depend on units
            how = Bundle(proximal=True, least_rows=self.least_rows)
            return how, f"{because}; a bundle of subgradients does without them"
        if k.mu >= FOR_BUNDLES and penalty is None:
            return Bundle(), f"{because}; a bundle of subgradients does, with so much ridge"
        if k.mu > 0 and not facts.piecewise:  # whose local solvers take no penalty
            return DualFL(), f"{because}; DualFL needs local solvers only"
        return FedDR(eta=1.0, decay=0.9, penalty_rule="balanced"), (
            f"{because}; splitting with a balanced penalty needs no ridge"
        )

    def secants(self, k: Constants, facts: Facts) -> ServerLBFGS:
        """L-BFGS with as many pairs as fit, around second moments of the features where there are any."""
        pairs = self.pairs(k)
        if not (facts.moments and facts.loss and facts.least >= self.least_rows):
            return ServerLBFGS(pairs)
        if facts.k > 1 and facts.D <= min(PRODUCTS * facts.k, sketched_newton.SketchedNewton().widest):
            return ServerLBFGS(pairs, 1.0, k.mu, "features")
        return ServerLBFGS(pairs, 1.0, k.mu, "diagonal") if facts.D > WIDE else ServerLBFGS(pairs)

    def pairs(self, k: Constants) -> int:
        """As many as fit."""
        room = min(BYTES, self.memory - 8.0 * k.d * SPARE)
        return int(min(PAIRS, max(FEWEST, room // (16 * k.d))))

    # -- it never runs itself ---------------------------------------------------------------------

    def start(self, at: Place) -> NoReturn:
        raise NotImplementedError("an engine asks `specialise` what to run")

    def round(self, s: State, at: Place) -> Round:
        raise NotImplementedError

    def model(self, s: State) -> Array:
        raise NotImplementedError


def foreseen(algorithm: Algorithm) -> bool:
    """Whether there is a prediction of it."""
    return algorithm.name in FORESEEN


def proves_by_prox_newton(facts: Facts) -> bool:
    """Whether it proves how near it is where sketched-newton does not."""
    return facts.free and facts.smooth and facts.moments and facts.k == 1


def sketch_bytes(k: Constants, facts: Facts) -> float:
    """About what sketched-newton takes at the largest client, or at the server: curvatures of rows, basis and pairs."""
    method = sketched_newton.SketchedNewton()
    curvatures = k.n * (1.5 * facts.k**2 if facts.k > 1 else 2.0)
    wide = facts.D > method.widest
    basis = 4.0 * facts.D * method.columns if wide else 4.0 * facts.D**2
    return 8.0 * (max(curvatures, basis) + k.d * (2 * method.memory + 2 * method.cuts))


def small(facts: Facts) -> bool:
    """Whether whole Hessians travel."""
    outputs = facts.k - (facts.loss == "Softmax")
    pairs = np.array([facts.D, outputs])
    return bool(np.prod(pairs * (pairs + 1) / 2) <= sketched_metric.EXACT)


def likeness(facts: Facts) -> str:
    """How alike the clients are, in words."""
    if facts.alike is None:
        return "of whom nobody knows how alike they are"
    return f"who differ {max(facts.alike, 1.0):.3g} times as much as by chance"


def describe(facts: Facts, penalty: Penalty | None) -> str:
    """The problem in words."""
    kind = f"{facts.loss} loss" if facts.loss else "a smooth cost" if facts.smooth else "a nonsmooth cost"
    size = f"{facts.D:,} x {facts.k}" if facts.k > 1 else f"{facts.D:,}"
    return f"{kind} with {size} coefficients" + (f" and {penalty}" if penalty is not None else "")
