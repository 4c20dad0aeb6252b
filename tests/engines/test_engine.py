"""The in-process engine: its account, its bits, its errors, its limits."""

from __future__ import annotations

import csv
import io
import json
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
import toys

import problems
from dualfl.algorithms import Algorithm, DualFL, TopK, ask, client_step
from dualfl.algorithms.registry import ALGORITHMS
from dualfl.engines import InProcess, Problem, inprocess, run
from dualfl.engines.client import ClientMemory, Envelope, OutOfSync, answer
from dualfl.engines.driver import Driver
from dualfl.engines.suiting import OFFERS
from dualfl.errors import Diverged, InputError, NotSupported
from dualfl.objectives import (
    L1,
    BoxConstraint,
    Function,
    Hinge,
    LinearModel,
    Quadratic,
    Squared,
)
from dualfl.solvers import LBFGS, SDCA, SGD, SVRG, DampedNewton, GradientDescent, Nesterov

QUADS = toys.quadratics()


# -- the account --------------------------------------------------------------------------------------


def test_gradient_descent_by_hand():
    """Iterates, exchanges, floats and gradients, all against a hand-written loop."""
    problem = Problem(QUADS, sizes=[1, 2, 3, 4, 5])
    result = run(problem, toys.Toy(), rounds=7)
    L, x = max(f.L for f in QUADS), np.zeros(6)
    for n, row in enumerate(result.history):
        assert row.round == n and row.exchanges == n
        assert row.floats_up == row.floats_down == n * 5 * 6
        assert row.local_gradients == n * 5
        assert row.energy == pytest.approx(problem.value(x), rel=1e-13)
        x = x - sum(w * f.gradient(x) for w, f in zip(problem.weights, QUADS)) / L
    assert result.rounds == 7 and result.stopped == "rounds"
    assert result.history.iterations == [[0] * 5] * 8


def test_three_exchanges_a_round():
    row = run(Problem(toys.logistics()), toys.Newtonish(), rounds=4).history[-1]
    assert row.exchanges == 12
    assert row.floats_up == 4 * 4 * (6 + 6 + 3) and row.floats_down == 4 * 4 * 18
    assert row.local_gradients == 4 * 4


def test_what_is_told_counts_no_exchange_and_cohorts_count_their_members():
    row = run(Problem(QUADS), toys.Sampled(size=2), rounds=6).history[-1]
    assert row.exchanges == 6
    assert row.floats_up == 6 * 2 * 6 and row.floats_down == 6 * 2 * 12


def test_a_name_stands_for_the_algorithm_with_its_defaults():
    by_name, itself = (run(Problem(QUADS), algorithm, rounds=5) for algorithm in ("dualfl", DualFL()))
    assert np.array_equal(by_name.theta, itself.theta) and by_name.algorithm == itself.algorithm


def test_the_exchange_before_the_first_round_is_counted():
    first, last = (run(Problem(QUADS), toys.Remembering(), rounds=2).history[n] for n in (0, 2))
    assert (first.exchanges, first.floats_up, first.local_gradients) == (1, 5 * 6, 5)
    assert last.exchanges == 3 and last.floats_up == 5 * (6 + 2 * 7)
    assert last.floats_down == 5 * (6 + 6 + 12)  # x; x and no past; x and one past


def test_dualfl_costs_d_down_and_d_plus_three_up():
    row = run(Problem(QUADS), DualFL(), rounds=9).history[-1]
    assert (row.exchanges, row.floats_up, row.floats_down) == (9, 9 * 5 * 9, 9 * 5 * 6)


def test_finding_constants_and_measuring_cost_nothing():
    problem = Problem(toys.logistics())
    measured = run(problem, toys.Toy(), rounds=5)
    blind = run(problem, toys.Toy(), rounds=5, evaluate=False)
    for a, b in zip(measured.history, blind.history):
        assert a[:5] == b[:5]
    assert blind.energy is None and blind.history[-1].energy is None
    np.testing.assert_array_equal(blind.theta, blind.state.x)


def test_sparse_uploads():
    result = run(Problem(QUADS), toys.Sparsely(), rounds=1)
    np.testing.assert_allclose(result.state.x, [0.2, 0.4, 0.4, 0.4, 0.4, 0.2])
    assert result.history[-1].floats_up == 5 * 2


# -- bits ---------------------------------------------------------------------------------------------

EVERYTHING = [
    (DualFL(), {}),
    (DualFL(certificate="vector"), {"codec": TopK(2)}),
    (toys.Toy(), {"start": np.linspace(0, 1, 6)}),
    (toys.Newtonish(), {}),
    (toys.Sampled(), {"seed": 3}),
    (toys.Remembering(), {}),
]


def same(a, b):
    np.testing.assert_array_equal(a.theta, b.theta)
    assert [row._replace(seconds=0) for row in a.history] == [row._replace(seconds=0) for row in b.history]
    assert a.history.iterations == b.history.iterations
    assert_equal_states(a.state, b.state)
    for mine, yours in zip(a.silos, b.silos):
        assert mine.answered == yours.answered
        assert_equal_states(mine.state, yours.state)


def assert_equal_states(a, b):
    assert type(a) is type(b)
    for name, value in vars(a).items() if a is not None else ():
        other = getattr(b, name)
        np.testing.assert_equal(value, other, err_msg=name)
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, other, err_msg=name, strict=True)  # shape and kind too


@pytest.mark.parametrize(("algorithm", "options"), EVERYTHING)
def test_the_number_of_threads_changes_no_bit(monkeypatch, algorithm, options):
    problem = Problem(toys.logistics(N=7))
    alone = run(problem, algorithm, rounds=6, threads=1, **options)
    monkeypatch.setattr(inprocess, "WORTH_A_THREAD", 0.0)
    for threads in (2, 3):
        same(alone, run(problem, algorithm, rounds=6, threads=threads, **options))


def test_large_costs_in_threads(monkeypatch):
    """Kernels that split one client's rows among threads, against clients that are split among threads."""
    rng = np.random.default_rng(0)
    clients = []
    for _ in range(3):
        X = rng.standard_normal((6000, 20))
        clients.append(LinearModel(X, X @ np.ones(20) + rng.standard_normal(6000), Squared(), ridge=0.1))
    problem = Problem(clients)
    alone = run(problem, DualFL(), rounds=4, threads=1)
    monkeypatch.setattr(inprocess, "WORTH_A_THREAD", 0.0)
    same(alone, run(problem, DualFL(), rounds=4, threads=3))


@pytest.mark.parametrize(("algorithm", "options"), EVERYTHING)
def test_a_run_can_be_repeated(algorithm, options):
    problem = Problem(toys.logistics())
    same(run(problem, algorithm, rounds=5, **options), run(problem, algorithm, rounds=5, **options))


def test_the_order_of_clients_is_kept(monkeypatch):
    """Uploads are added in client order, whoever finishes first."""
    from time import sleep

    def slow_first(f, at, x):
        sleep(0.002 * (at.N - at.j))
        return f.gradient(x)

    monkeypatch.setattr(inprocess, "WORTH_A_THREAD", 0.0)
    problem = Problem(QUADS, sizes=[1, 20, 300, 4000, 50000])
    shuffled = run(problem, toys.Calls(action=slow_first), rounds=3, threads=5)
    plain = run(problem, toys.Calls(action=lambda f, at, x: f.gradient(x)), rounds=3, threads=1)
    np.testing.assert_array_equal(shuffled.theta, plain.theta)


def test_points_of_the_round_before_do_not_matter(monkeypatch):
    """A resumed run remembers no points, and a gradient after a value differs in its bits from both at once."""
    problem = Problem(toys.logistics(N=3)).regularised(0.3)  # a view on a view
    blind = run(problem, toys.Toy(), rounds=8, evaluate=False)
    seen = run(problem, toys.Toy(), rounds=8)
    np.testing.assert_array_equal(blind.state.x, seen.state.x)
    engine = InProcess(problem, toys.Toy())
    f = engine.costs[0]
    x = np.full(6, 0.37)
    f.value(x)
    assert f.objective.base._recent
    silo = ClientMemory()
    answer(engine.algorithm, f, silo, Envelope(0, 0, "gradient", {"x": x}), engine.place, 0, 1.0, None)
    assert f.objective.cost.passes == 1.5  # half for the value, and a whole one: nothing was remembered


# -- one client ---------------------------------------------------------------------------------------


def exchange(engine, silo, request, after):
    return answer(engine.algorithm, engine.costs[0], silo, request, engine.place, 0, 0.2, after)


def test_a_repeated_request_gets_the_same_reply():
    engine = InProcess(Problem(QUADS), DualFL())
    request = Envelope(0, 0, "solve", {"theta": np.zeros(6)})
    reply, silo = exchange(engine, ClientMemory(), request, None)
    again, unchanged = exchange(engine, silo, request, None)
    assert again is reply and unchanged is silo
    later, _ = exchange(engine, silo, Envelope(1, 0, "solve", {"theta": np.ones(6)}), (0, 0))
    assert (later.wire["theta"] != reply.wire["theta"]).any()
    recomputed, _ = exchange(engine, ClientMemory(), request, None)  # pure: from the state before, the same again
    np.testing.assert_array_equal(recomputed.wire["theta"], reply.wire["theta"])


def test_a_missed_request_is_noticed():
    engine = InProcess(Problem(QUADS), DualFL())
    _, silo = exchange(engine, ClientMemory(), Envelope(0, 0, "solve", {"theta": np.zeros(6)}), None)
    with pytest.raises(
        OutOfSync, match=r"Client 0 has answered exchange \(0, 0\), and the server thinks it was \(1, 0\)"
    ):
        exchange(engine, silo, Envelope(2, 0, "solve", {"theta": np.zeros(6)}), (1, 0))


def test_only_client_steps_can_be_asked_for():
    engine = InProcess(Problem(QUADS), DualFL())
    for name in ("model", "no_such_thing"):
        with pytest.raises(InputError, match=f"'{name}' is not a client step of dualfl"):
            exchange(engine, ClientMemory(), Envelope(0, 0, name, {}), None)


def test_a_step_cannot_write_into_its_message():
    def greedy(f, at, x):
        x -= 1
        return x

    with pytest.raises(ValueError, match="read-only"):
        run(Problem(QUADS), toys.Calls(action=greedy), rounds=1)


# -- asks ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Extremes(toys.Toy):
    """Asks one client, and for maxima."""

    to: tuple[int, ...] = (2,)
    name = "extremes"

    def round(self, s, at):
        m = yield ask(self.number, reduce="max")
        assert m.number == at.N - 1
        one = yield ask(self.number, to=self.to)
        return toys.Server(x=np.full(at.d, one.number / one.mass))

    @client_step
    def number(self, f, c, at):
        return at.send(number=float(at.j)), c


def test_maxima_and_one_distinguished_client():
    result = run(Problem(QUADS, sizes=[1, 2, 3, 4, 5]), Extremes(), rounds=1)
    np.testing.assert_allclose(result.state.x, 2.0)
    assert result.history[-1].exchanges == 2 and result.history[-1].floats_up == 6
    assert [silo.answered for silo in result.silos] == [(0, 0), (0, 0), (0, 1), (0, 0), (0, 0)]


@pytest.mark.parametrize("to", [(), (5,), (-1, 0)])
def test_clients_that_do_not_exist(to):
    with pytest.raises(InputError, match="there are 5, numbered from 0"):
        run(Problem(QUADS), Extremes(to=to), rounds=1)


def test_a_codec_needs_everybody():
    @dataclass(frozen=True)
    class Some(toys.Sampled):
        compresses = True

    with pytest.raises(NotSupported, match="asks 2 of 5 clients, and compressed uploads are differences"):
        run(Problem(QUADS), Some(), rounds=1, codec=TopK(2))
    with pytest.raises(NotSupported, match="toy does not support a codec"):
        run(Problem(QUADS), toys.Toy(), rounds=1, codec=TopK(2))


def test_a_round_without_an_exchange():
    @dataclass(frozen=True)
    class Hermit(toys.Toy):
        def round(self, s, at):
            return toys.Server(x=s.x + 1)
            yield

    result = run(Problem(QUADS), Hermit(), rounds=3)
    np.testing.assert_array_equal(result.state.x, 3.0)
    assert result.history[-1].exchanges == 0


# -- other starts -------------------------------------------------------------------------------------


def test_the_origin_is_shifted_for_algorithms_that_know_nothing_of_starts():
    problem = Problem(QUADS, sizes=[1, 2, 3, 4, 5])
    start = np.linspace(-1, 2, 6)
    result = run(problem, toys.Toy(), rounds=4, start=start)
    L, x = max(f.L for f in QUADS), start
    for row in result.history:
        assert row.energy == pytest.approx(problem.value(x), rel=1e-12)
        x = x - sum(w * f.gradient(x) for w, f in zip(problem.weights, QUADS)) / L
    for a in (0.0, 2.0):
        cost = InProcess(problem, toys.Toy(), start=start).costs[1]
        c = np.arange(6.0)
        y = cost.local(a, c)
        f = QUADS[1]
        exact = np.linalg.solve(f.A + a * np.eye(6), f.b + c + a * start) - start  # f(start + x) + (a/2)|x|^2 - <c, x>
        np.testing.assert_allclose(y.x, exact, rtol=0, atol=1e-7)
        np.testing.assert_allclose(y.subgradient, f.gradient(y.x + start), rtol=0, atol=1e-12)
        assert y.value == pytest.approx(f.value(y.x + start), rel=1e-12)


def test_starts_that_are_none():
    for start, sentence in (
        (np.zeros(3), r"a flat vector of 6 numbers, but its shape is \(3,\)"),
        (np.full(6, np.nan), "finite"),
    ):
        with pytest.raises(InputError, match=sentence):
            run(Problem(QUADS), DualFL(), start=start)


# -- errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_client_that_breaks_down_is_named(monkeypatch, bad, threads):
    monkeypatch.setattr(inprocess, "WORTH_A_THREAD", 0.0)

    def breaks(f, at, x):
        return f.gradient(x) * (bad if at.j == 3 and at.round == 2 else 1.0)

    with pytest.raises(InputError, match="Client 3 answered with NaN or infinity in 'g' in round 2; its data"):
        run(Problem(QUADS), toys.Calls(action=breaks), rounds=5, threads=threads)


def test_a_compressor_does_not_hide_it():
    """The largest entries of an upload with NaN in it are not NaN."""

    @dataclass(frozen=True)
    class Compressed(toys.Calls):
        compresses = True

    def breaks(f, at, x):
        return np.where((np.arange(6) == 4) & (at.j == 1), np.nan, f.gradient(x))

    with pytest.raises(InputError, match="Client 1 answered with NaN or infinity in 'g' in round 0"):
        run(Problem(QUADS), Compressed(action=breaks), rounds=3, codec=TopK(2))


def test_a_solver_that_breaks_down_is_named():
    bad = Function(2, lambda x: np.nan, lambda x: np.full(2, np.nan), mu=1.0, L=1.0)
    good = Quadratic(np.eye(2), np.ones(2))
    with pytest.raises(Diverged, match="Client 1, round 0 of dualfl: The local solver met NaN or infinity"):
        run(Problem([good, bad]), DualFL(), rounds=3, evaluate=False)


@pytest.mark.parametrize("evaluate", [True, False])
def test_divergence_is_reported_and_the_history_kept(evaluate):
    problem = Problem(QUADS)
    step = 10 / max(f.L for f in QUADS)
    result = run(problem, toys.Toy(step=step), rounds=2000, evaluate=evaluate)
    assert result.stopped == "diverged"
    assert 3 < result.rounds < 1000 and len(result.history) == result.rounds + 1
    if evaluate:
        assert result.energy == result.history[0].energy  # the best model is kept, and here it was the first


def test_a_trial_is_not_judged_as_a_result():
    class Tries(toys.Toy):
        """Goes twelve orders too far in round 2, and takes that back."""

        tries = True

        def model(self, s):
            return super().model(s) + (1e12 if len(seen) == 2 else 0.0)

    seen = []
    step = 1 / max(f.L for f in QUADS)
    result = run(Problem(QUADS), Tries(step=step), rounds=5, stop=lambda row, theta: seen.append(row) is not None)
    assert result.history[2].energy > 1e10 * (1 + abs(result.history[0].energy))
    assert result.stopped == "rounds" and result.rounds == 5


def test_an_infeasible_start_is_no_divergence():
    problem = Problem(QUADS, penalty=BoxConstraint(0.5, 2.0))
    result = run(problem, DualFL(), rounds=30)
    assert result.history[0].energy == np.inf and result.stopped == "rounds"
    assert (result.theta >= 0.5).all() and result.certificate < 1e-3


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Problem([]), "at least one client, and the list is empty"),
        (lambda: Problem([QUADS[0], Quadratic(np.eye(2), np.ones(2))]), r"client 0 has \(6,\) and client 1 has \(2,\)"),
        (lambda: Problem(QUADS, sizes=[1, 2]), "5 clients and 2 sizes; give one each"),
        (lambda: Problem(QUADS, sizes=[1, 2, 0, 4, 5]), "finite and positive"),
        (lambda: Problem(QUADS, sizes=[1, 2, np.nan, 4, 5]), "finite and positive"),
        (lambda: Problem(QUADS, solvers=[LBFGS()]), "5 clients and 1 solvers"),
        (lambda: run(Problem(QUADS), "dualf"), "There is no algorithm 'dualf'; did you mean dualfl"),
        (lambda: run(Problem(QUADS), DualFL), "algorithm must be an Algorithm or a text, but it is"),
        (lambda: run(Problem(QUADS), DualFL(), rounds=-1), "rounds must be >= 0, but it is -1"),
        (lambda: run(Problem(QUADS), DualFL(), tol=0.0), "tol must be positive"),
        (lambda: run(Problem(QUADS), DualFL(), seconds=0), "seconds must be positive"),
        (lambda: run(Problem(QUADS), DualFL(), threads=0), "threads must be from 1 to 4,096"),
        (lambda: run(Problem(QUADS), DualFL(), checkpoint_every=0), "checkpoint_every must be at least 1"),
        (lambda: run(Problem(QUADS), DualFL(), resume=True), "resume needs a checkpoint file"),
        (lambda: run(Problem(QUADS), DualFL(), reference=np.nan), "reference must be a finite energy"),
        (lambda: run(Problem(QUADS), toys.Toy(step=np.nan)), "toy: step = nan is not allowed"),
        (lambda: run(Problem(QUADS), toys.Toy(), tol=0.1), "toy has none: this algorithm gives no lower bound"),
    ],
)
def test_bad_input_is_one_sentence(make, sentence):
    with pytest.raises(InputError, match=sentence):
        make()


def test_algorithms_and_costs_that_do_not_fit():
    hinge = LinearModel(np.eye(6), [1, -1, 1, -1, 1, -1], Hinge(), ridge=1.0)
    with pytest.raises(NotSupported, match=r"toy is not compatible with client 0's Hinge: it must offer a gradient"):
        run(Problem([hinge]), toys.Toy(), rounds=1)
    with pytest.raises(NotSupported, match="toy is for smooth problems, and this one has the penalty"):
        run(Problem(QUADS, penalty=L1(0.1)), toys.Toy(), rounds=1)
    with pytest.raises(NotSupported, match="carries a penalty already"):
        run(Problem([f + L1(0.1) for f in QUADS], penalty=L1(0.1)), DualFL(), rounds=1)
    with pytest.raises(NotSupported, match="SDCA takes a linear model"):
        run(Problem(QUADS, solvers=SDCA()), DualFL(), rounds=1)


def test_all_that_algorithms_need_has_words():
    needed = set().union(*(algorithm.needs for algorithm in ALGORITHMS.values())) - {"local"}
    assert needed <= set(OFFERS)


def test_a_default_that_theory_does_not_give():
    hinge = LinearModel(np.eye(2), [1, -1], Hinge(), ridge=1.0)

    @dataclass(frozen=True)
    class Wishful(toys.Toy):
        needs = frozenset({"local"})

    with pytest.raises(InputError, match=r"toy: the default step = 1 / L is 0 for mu = 1, L = inf; give step yourself"):
        run(Problem([hinge]), Wishful(), rounds=1)


def test_an_algorithm_with_a_field_named_twice_is_a_type_error():
    with pytest.raises(TypeError):
        DualFL(eta=1.0)
    assert isinstance(DualFL(), Algorithm)


@pytest.mark.parametrize("solver", [GradientDescent(), Nesterov(), SGD(), SVRG()])
def test_time_is_looked_at_inside_a_clients_own_solve(solver, tmp_path):
    """A solve of months ends with the time of the run, as if its exchange had not begun; another run goes on there."""
    problem, path = Problem(toys.logistics(), solvers=solver), tmp_path / "run.npz"
    began = time.perf_counter()
    result = run(problem, toys.Endless(), rounds=9, seconds=0.3, checkpoint=path)
    assert time.perf_counter() - began < 5
    first = run(problem, DualFL(), rounds=1)
    assert result.stopped == "time" and result.rounds == 1 and result.theta.tobytes() == first.theta.tobytes()
    assert [row._replace(seconds=0) for row in result.history] == [row._replace(seconds=0) for row in first.history]
    more = run(problem, toys.Endless(), rounds=1, checkpoint=path, resume=True)
    assert more.stopped == "rounds" and more.theta.tobytes() == first.theta.tobytes()


def test_a_run_in_time_is_measured_even_if_time_ends_then():
    class Late(Function):
        """Measured late: values take their time, gradients do not."""

        def _value(self, x):
            time.sleep(0.2)
            return super()._value(x)

    f = Late(value=lambda x: float(x @ x) / 2, gradient=lambda x: x, d=2, L=1.0, mu=1.0)
    result = run(Problem([f]), toys.Toy(step=0.5), start=np.ones(2), rounds=1, seconds=0.15, threads=1)
    assert result.stopped == "rounds" and result.rounds == 1 and result.energy == 0.25


# -- limits, rows, progress ---------------------------------------------------------------------------


def test_no_rounds_at_all():
    result = run(Problem(QUADS), DualFL(), rounds=0)
    assert result.rounds == 0 and len(result.history) == 1 and result.energy == 0.0


def test_seconds_and_stop():
    problem = Problem(QUADS, solvers=DampedNewton())
    timed = run(problem, DualFL(), rounds=10**6, seconds=0.2)
    assert timed.stopped == "time" and timed.rounds > 0 and timed.history[-2].seconds < 0.2
    seen = []
    stopped = run(problem, DualFL(), rounds=50, stop=lambda row, x: seen.append(x) or row.round == 3)
    assert stopped.stopped == "tol" and stopped.rounds == 3
    np.testing.assert_array_equal(seen[-1], stopped.state.theta)


def test_relative_errors():
    instance = problems.logit()
    history = run(instance.problem, DualFL(), rounds=60, reference=instance.energy).history
    errors = history.column("relative_error")
    np.testing.assert_allclose(errors, history.column("energy") / instance.energy - 1, atol=1e-13)
    first = int(np.argmax(errors <= 1e-4))
    assert history.rounds_to(1e-4) == first > 0 and history.rounds_to(1e-4, "exchanges") == first
    assert history.rounds_to(-1) == np.inf
    zero = run(Problem([Quadratic(np.eye(2), np.zeros(2))]), DualFL(), rounds=2, reference=0.0)
    assert zero.history[-1].relative_error == 0.0


def test_the_history_goes_to_files(tmp_path):
    problem = Problem(QUADS, penalty=BoxConstraint(0.5, 2.0))  # begins with an infinite energy
    history = run(problem, DualFL(), rounds=3).history
    table = list(csv.DictReader(io.StringIO(history.to_csv(tmp_path / "h.csv"))))
    assert (tmp_path / "h.csv").read_text() == history.to_csv()
    assert [int(row["round"]) for row in table] == [0, 1, 2, 3]
    assert float(table[3]["energy"]) == history[3].energy  # to the last bit
    assert table[0]["certificate"] == ""
    lines = [json.loads(line, parse_constant=pytest.fail) for line in history.to_jsonl().splitlines()]
    assert lines[2]["energy"] == history[2].energy and lines[0]["certificate"] is None and lines[0]["energy"] is None
    assert len(history) == 4 and [row.round for row in history] == [0, 1, 2, 3]


def test_the_history_goes_to_pandas():
    pytest.importorskip("pandas")
    frame = run(Problem(QUADS), DualFL(), rounds=3).history.to_pandas()
    assert list(frame["round"]) == [0, 1, 2, 3] and frame.shape == (4, 13)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("options", [{"reference": 1.0}, {}, {"evaluate": False}])
def test_the_progress_bar(monkeypatch, options):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    run(Problem(QUADS), DualFL(), rounds=3, progress=True, **options)
    assert "dualfl" in terminal.getvalue()


def test_nothing_is_printed_where_nobody_watches(capfd):
    run(Problem(QUADS), DualFL(), rounds=3, progress=True)
    assert capfd.readouterr() == ("", "")


def test_what_a_row_of_a_bar_says():
    from dualfl.engines.progress import describe

    row = run(Problem(QUADS), DualFL(), rounds=1, reference=-1.0).history[-1]
    assert describe(row).startswith("error ")
    assert describe(row._replace(relative_error=None)).startswith("certified ")
    assert describe(row._replace(relative_error=None, certificate=None)).startswith("energy ")
    assert describe(row._replace(relative_error=None, certificate=None, energy=None)) == ""


def test_the_driver_opens_rounds_lazily_and_replays_them():
    engine = InProcess(Problem(toys.logistics()), toys.Newtonish())
    driver = Driver(engine.algorithm, engine.place)
    assert not driver.started and driver.between_rounds
    assert driver.ask() is None and driver.started and driver.round == 0
    asks = []
    for _ in range(5):
        asked = driver.ask()
        assert driver.ask() is asked  # as often as one likes
        rebuilt = Driver(engine.algorithm, engine.place, driver.saved).ask()
        assert rebuilt.step == asked.step
        for name, value in asked.message.items():
            np.testing.assert_array_equal(rebuilt.message[name], value)
        asks.append(asked.step)
        driver.tell(engine.exchange(engine.algorithm, driver, asked))
    assert asks == ["remember", "direction", "energies", "remember", "direction"]
    assert driver.round == 1 and driver.exchange == 2


def test_results_say_how_many_solves_ended_at_their_cap():
    @dataclass(frozen=True)
    class Hasty(DualFL):
        def stop_rule(self, *where):
            return replace(super().stop_rule(*where), cap=1)

    result = run(Problem(toys.logistics(), solvers=LBFGS()), Hasty(G0=1e-6), rounds=4)
    assert result.capped == sum(row.capped for row in result.history) > 4
    assert run(Problem(QUADS, solvers=DampedNewton()), DualFL(), rounds=4).capped == 0


def test_time_is_looked_at_inside_an_exchange():
    """Twenty slow clients: a run ends before the first that would begin too late, as if the exchange had not begun."""
    answered = []

    class Slow(toys.Toy):
        @client_step
        def gradient(self, f, c, at, x):
            answered.append(at.j)
            time.sleep(0.02)
            return at.send(g=f.gradient(x)), c

    result = run(Problem([QUADS[0]] * 20), Slow(), rounds=50, seconds=0.1, threads=1)
    assert result.stopped == "time" and len(answered) < 20
    assert result.rounds == 0 and len(result.history) == 1 and result.energy == result.history[0].energy
