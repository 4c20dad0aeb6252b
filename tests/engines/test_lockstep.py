"""Many runs in lockstep: the bits of each run alone, the exchanges of the longest, and failures that stay at home."""

import gc
from dataclasses import dataclass, replace

import numpy as np
import pytest
import toys

from dualfl.algorithms import Auto, DualFL, ask
from dualfl.algorithms.registry import ALGORITHMS
from dualfl.engines import Problem, run
from dualfl.engines.exchanges import Gathered, Measured, Measurement, Step, drive
from dualfl.engines.inprocess import InProcess
from dualfl.engines.lockstep import carry_all, run_together, running, together
from dualfl.engines.request import EngineOptions, Limits, Recording, RunRequest
from dualfl.engines.session import Session
from dualfl.errors import Diverged, DualflError, InputError
from dualfl.objectives import L1

ROUNDS = 4
FAMILIES = ("auto", "dualfl", "lbfgs", "sketched-newton", "prox-newton", "one-shot", "dane", "giant", "fedpd", "tamuna")
FAMILIES += ("apda", "fedavg", "scaffold", "cocoa")


def problems():
    return [Problem(toys.logistics()), Problem(toys.quadratics()), Problem(toys.logistics(), penalty=L1(1e-2))]


def asked(problem, algorithm, rounds=ROUNDS, **recording):
    return RunRequest(problem, algorithm, EngineOptions(seed=5, threads=1), Limits(rounds), Recording(**recording))


def alone(request):
    return run(request.problem, request.algorithm, rounds=request.limits.rounds, seed=5, threads=1)


def facts(result):
    """Everything but the clock."""
    rows = [row._replace(seconds=0.0) for row in result.history]
    return result.theta.tobytes(), rows, result.history.iterations, result.certificate, result.stopped, result.choice


def messages_of(generator, limit=None):
    """The lists that a generator of messages yields, and what it returns."""
    seen = []

    def carry(requests):
        seen.append(requests)
        return carry_all(requests)

    return drive(generator, carry), seen


@pytest.mark.parametrize("limit", [2**24, 60, 1])
def test_each_run_has_the_bits_that_it_has_alone(limit):
    """Algorithms of all families at once, on problems of different shapes, in one message or in waves."""
    requests = [asked(p, ALGORITHMS[name](), 3) for p in problems() for name in FAMILIES]
    found = run_together(requests, keep=(DualflError,), limit=limit)
    longest = results = 0
    for request, outcome in zip(requests, found.outcomes):
        if isinstance(outcome, Exception):
            with pytest.raises(type(outcome)) as error:
                alone(request)
            assert str(error.value) == str(outcome)
            continue
        expected = alone(request)
        assert facts(expected) == facts(outcome), request.algorithm.name
        longest, results = max(longest, expected.history[-1].exchanges), results + 1
    assert results > 20
    # Set-up takes two more: what to run, and the constants; inquiries of some are surveys of others.
    assert longest <= found.account.exchanges <= longest + 3 if limit == 2**24 else found.account.exchanges > longest


def test_the_account_is_that_of_all_runs_together():
    requests = [asked(p, DualFL(), rounds) for p, rounds in zip(problems(), (2, 7, 3))]
    found = run_together(requests)
    last = [result.history[-1] for result in found.results]
    assert found.account.exchanges == 7 + 1  # and the survey
    surveyed = sum(4 * p.N for p in problems())
    assert found.account.floats_up == sum(row.floats_up for row in last) + surveyed
    assert found.account.floats_down == sum(row.floats_down for row in last)
    assert found.account.payload == pytest.approx(sum(row.payload for row in last) + 4 * len(last))
    assert found.account.contacts == (7 + 1) * max(p.N for p in problems())  # a message serves all runs
    alone = run_together(requests[1:2])
    assert alone.account.contacts == alone.results[0].history[-1].contacts + problems()[1].N


@dataclass(frozen=True)
class Breaks(toys.Toy):
    """Fails in its third round, at the server."""

    error: str = "diverged"
    name = "breaks"

    def round(self, s, at):
        m = yield ask(self.gradient, x=s.x)
        if at.round == 2:
            raise Diverged("It grows.") if self.error == "diverged" else RuntimeError("a bug")
        return replace(s, x=s.x - self.step * m.g)


def test_an_error_of_one_run_can_be_its_outcome(tmp_path):
    requests = [asked(problems()[0], algorithm) for algorithm in (DualFL(), Breaks(), toys.Toy())]
    found = run_together(requests, keep=(Diverged,))
    assert isinstance(found.outcomes[1], Diverged)
    assert facts(found.outcomes[0]) == facts(alone(requests[0])) and facts(found.outcomes[2]) == facts(
        alone(requests[2])
    )
    with pytest.raises(Diverged, match="It grows"):
        _ = found.results
    with pytest.raises(Diverged, match="It grows"):
        run_together(requests, checkpoint=tmp_path)
    resumed = run_together([requests[0]], checkpoint=tmp_path, resume=True)  # the others saved what they had
    assert resumed.account.exchanges < found.account.exchanges
    assert facts(resumed.results[0]) == facts(alone(requests[0]))
    requests[1] = asked(problems()[0], Breaks(error="bug"))
    with pytest.raises(RuntimeError, match="a bug"):
        run_together(requests, keep=(Diverged,))


class Interrupted:
    """Carries messages, and is interrupted at one of them."""

    def __init__(self, at):
        self.left = at

    def __call__(self, requests):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return carry_all(requests)


@pytest.mark.parametrize("at", [4, 5, 6, 9])
def test_interrupted_and_resumed_to_the_same_bits(at, tmp_path):
    algorithms = (DualFL(), Auto(), toys.Newtonish(), toys.Sampled())
    requests = [
        asked(problems()[0], algorithm, checkpoint=tmp_path / f"run-{j:04}.npz")
        for j, algorithm in enumerate(algorithms)
    ]
    found = drive(together([running(request) for request in requests]), Interrupted(at))
    assert {result.stopped for result in found.results} == {"interrupted"}
    assert (max(len(result.history) for result in found.results) > 1) == (at > 4)
    resumed = run_together(requests, checkpoint=tmp_path, resume=True)
    for request, result in zip(requests, resumed.results):
        assert facts(result) == facts(alone(request))


def test_an_interruption_before_the_first_round_is_one():
    with pytest.raises(KeyboardInterrupt):
        drive(together([running(asked(problems()[0], Auto())) for _ in range(2)]), Interrupted(1))


def test_the_order_of_waves():
    """Whoever has had the fewest exchanges goes first, then whoever was given first."""
    requests = [asked(Problem(toys.quadratics()), toys.Toy(step=0.1), 2) for _ in range(3)]
    place = {id(request.problem): j for j, request in enumerate(requests)}
    d = requests[0].problem.d
    (_, seen) = messages_of(together([running(request) for request in requests], limit=2 * d * (d + 9) // 2))
    steps = [[place[id(one.engine.problem)] for one in each] for each in seen if all(isinstance(r, Step) for r in each)]
    assert steps[:2] == [[0, 1], [0, 2]]  # when nobody knows yet what comes back; whoever has room goes on
    assert all(each == sorted(each) for each in steps)
    counts = np.zeros(3)
    for each in steps:
        counts[each] += 1
        assert counts.max() - counts.min() <= 1
    assert set(counts) == {3}


def test_a_carrier_may_answer_early():
    """What is asked next may travel with the measurement, as to silos far away; the bits stay the same."""
    asks = []

    def carry(requests):
        asks.append(requests)
        return [early(one) if isinstance(one, Measurement) else one.carried_out() for one in requests]

    def early(request):
        following = request.following
        return request.carried_out()._replace(early=None if following is None else following.carried_out())

    requests = [
        asked(p, algorithm) for p in problems()[:2] for algorithm in (DualFL(), toys.Newtonish(), toys.Sampled())
    ]
    found = drive(together([running(request) for request in requests]), carry)
    for request, result in zip(requests, found.results):
        assert facts(result) == facts(alone(request))
    # One message an exchange, and the measurement of the last round.
    assert len(asks) <= found.account.exchanges + 2


def test_a_straggler_can_be_left_behind():
    """One run of 60 goes on for ever; the others have ended after 3 exchanges."""
    requests = [asked(problems()[0], toys.Toy(step=0.1), 40 if j == 7 else 3) for j in range(60)]
    found = drive(together([running(request) for request in requests], stragglers=False), carry_all)
    results = found.results
    assert results[7].stopped == "time" and 3 <= results[7].rounds <= 5
    assert facts(results[0]) == facts(alone(requests[0]))
    patient = drive(together([running(request) for request in requests[5:9]], stragglers=False), carry_all)
    assert patient.results[2].rounds == 40  # one of four is not few


def test_nothing_in_a_session_calls_a_client():
    engine = InProcess(problems()[0], DualFL(), threads=1)
    expected = facts(Session(InProcess(problems()[0], DualFL(), threads=1), Recording()).run(Limits(3)))

    def refuse(*arguments):
        raise AssertionError("a session called its clients")

    answers = engine.gather, engine.mean_value
    exchanges = Session(engine, Recording()).exchanges(Limits(3))

    def carry(request):
        engine.gather, engine.mean_value = answers
        answer = request.carried_out()
        engine.gather = engine.mean_value = refuse
        assert isinstance(answer, Gathered | Measured)
        return answer

    engine.gather = engine.mean_value = refuse
    assert facts(drive(exchanges, carry)) == expected


def test_a_run_that_is_dropped_saves_what_it_has(tmp_path):
    request = asked(problems()[0], DualFL(), checkpoint=tmp_path / "run.npz", checkpoint_every=50)
    exchanges = running(request)
    answer = None
    for _ in range(6):
        answer = exchanges.send(answer).carried_out()
    del exchanges
    gc.collect()
    assert facts(drive(running(replace(request, resume=True)))) == facts(alone(request))


def test_a_limit_of_nothing_is_refused():
    with pytest.raises(InputError, match="limit is the most numbers"):
        run_together([asked(problems()[0], DualFL())], limit=0)


def test_answers_must_be_as_many_as_requests():
    with pytest.raises(InputError, match="2 runs asked for something, and 1 answers came"):
        drive(together([running(asked(problems()[0], DualFL())) for _ in range(2)]), lambda requests: [None])


def test_no_runs_take_no_exchange():
    found = run_together([])
    assert found.results == [] and found.account.exchanges == 0
