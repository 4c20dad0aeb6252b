"""`check_algorithm` passes what keeps the contract, and says in one sentence what does not."""

import dataclasses
import itertools
from dataclasses import dataclass, field
from functools import partial

import pytest

import dualfl
from dualfl.algorithms import DualFL, FedAvg, FedIPM, GradientDescent, OneShot, client_step, theory
from dualfl.objectives import Hinge
from dualfl.testing import CHECKS, ContractBroken, check_algorithm


def test_an_algorithm_of_the_library_passes():
    done = []
    check_algorithm(GradientDescent, tell=lambda name, skipped: done.append((name, skipped)))
    assert done == [(name, "") for name in CHECKS]


def test_one_that_starts_in_its_own_way_or_takes_another_loss_passes():
    done = {}
    check_algorithm(DualFL, tell=done.__setitem__)
    assert done["starts anywhere"] == "it starts in a way of its own"
    check_algorithm(FedAvg(K=3))
    check_algorithm(OneShot)  # for the squared loss
    check_algorithm(FedIPM, loss=Hinge())


# Each breaks one promise. They inherit all the rest from gradient descent.


class Plain(GradientDescent):
    name = "plain"

    def check(self, k):
        self.require(self.step > 0, "step", "it must be positive")


calls = itertools.count()


class Counting(Plain):
    """Counts its calls outside the state."""

    @client_step
    def value_gradient(self, f, c, at, x):
        sent, c = super().value_gradient(f, c, at, x)
        return at.send(g=sent.g * (1 + 1e-9 * next(calls))).also(E=sent.E, off=sent.off, off_g=sent.off_g), c


class Slow(Plain):
    """Takes steps that are far too short."""

    def round(self, s, at):
        ended = yield from super().round(s, at)
        return dataclasses.replace(ended, x=s.x)


class Exact(Plain):
    """Says that it drifts, and does not."""

    drifts = True


class Careless(Plain):
    """Checks nothing."""

    def check(self, k):
        pass


@dataclass(frozen=True)
class Arrayed(Plain):
    """Has a hyperparameter that JSON does not give back."""

    shift: dict = field(default_factory=lambda: {1: 2})


@dataclass(frozen=True)
class Restless(Plain):
    """Has a default that changes each time."""

    step: float = theory("1 / L", lambda k, a: 1 / k.L)

    def resolve(self, k):
        return dataclasses.replace(super().resolve(k), step=(self.step or 1 / k.L) * 0.9)


class Undescribed(Plain):
    card = dataclasses.replace(GradientDescent.card, reference="")
    __doc__ = "It has no reference."


class WrongGrid(Plain):
    """Its grid has a misspelt name."""

    grid = {"stepp": (1.0,)}  # noqa: RUF012


BROKEN = [
    (Counting, "gives other bits|changes its bits|in two ways"),
    (Slow, "ends at a relative error of 1.0e.00 on quadratic clients that are not alike, and 1e-09 is asked for"),
    (Exact, "it says that it drifts, and it ends at a relative error of"),
    (Careless, "it accepts step = -1; refuse it in `check`"),
    (Arrayed, "another algorithm after a way through JSON"),
    (Restless, "resolving it twice changes a hyperparameter"),
    (Undescribed, "its card must have a title, a reference"),
    (WrongGrid, r"its grid names \['stepp'\]"),
]


@pytest.mark.parametrize(("algorithm", "sentence"), BROKEN, ids=lambda each: getattr(each, "__name__", ""))
def test_what_is_broken_is_said(algorithm, sentence, monkeypatch):
    monkeypatch.setattr(dualfl.testing, "check", partial(dualfl.testing.check, most=300))  # the slow one needs no more
    with pytest.raises(ContractBroken, match=sentence) as caught:
        check_algorithm(algorithm)
    assert str(caught.value).startswith("plain: ") and "\n" not in str(caught.value)
    assert isinstance(caught.value, AssertionError)  # so that a test runner counts a failure, not an error
