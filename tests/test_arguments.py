"""What a signature says is looked at before anything is computed, and a mismatch is one sentence."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import dualfl
from dualfl.algorithms.registry import ALGORITHMS, make
from dualfl.arguments import check, checked, conforms, in_words, shown
from dualfl.cli.reading import parts
from dualfl.errors import InputError
from dualfl.estimators import PoissonRegressor
from dualfl.objectives import Quadratic
from dualfl.problem import Problem
from dualfl.typing import Array

QUADS = [dualfl.Quadratic(np.eye(2), b) for b in np.eye(2)]


@pytest.mark.parametrize(
    ("hint", "right", "wrong"),
    [
        (int, [0, 3, np.int8(3), 10**30], [1.0, True, "3", None, np.nan, [1]]),
        (float, [0, 1.5, np.float32(2), np.inf, np.nan], [True, "1", 10**400, 1j, None, np.ones(1)]),
        (bool, [True, np.bool_(False)], [0, 1, "true", None]),
        (str, ["", "a"], [b"a", 3, None, Path("a")]),
        (float | None, [None, 1], ["x", [1.0]]),
        (Literal["a", "b"], ["a", "z"], [1, None]),  # which text it is, the function tells
        (Sequence[float], [[], [1, 2.0], np.ones(2), (1,)], ["12", 1.0, [None], np.ones((2, 2)), np.float64(1)]),
        (Iterable[int], [[1], iter([1])], [["a"], np.ones(2)]),
        (tuple[str, ...], [(), ("a",)], [["a"], ("a", 1)]),
        (Callable[[int], int], [len, lambda x: x, np.exp], [3, "len", int, lambda: 1, lambda x, y: x]),
        (Array, [np.ones(2), [1, 2], 3], ["a", [None], {1}, np.array(["2020"], dtype="datetime64[D]"), [[1], [1, 2]]]),
        (dualfl.Problem, [dualfl.Problem(QUADS)], [dualfl.Problem, None, QUADS]),
        (Callable[..., int], [int, len, lambda: 1], [3]),
        (Any, [None, object(), 3], []),
    ],
)
def test_what_conforms(hint, right, wrong):
    assert [value for value in right if not conforms(value, hint)] == []
    assert [shown(value) for value in wrong if conforms(value, hint)] == []
    assert "<" not in in_words(hint) and in_words(hint)


def test_the_sentence_names_the_argument_what_is_right_and_what_was_given():
    with pytest.raises(InputError, match=r"^rounds must be a whole number, but it is nan\.$"):
        dualfl.run(dualfl.Problem(QUADS), dualfl.DualFL(), rounds=float("nan"))
    with pytest.raises(InputError, match=r"^alpha must be a number, but it is 'x'\.$"):
        dualfl.L1("x")
    with pytest.raises(InputError, match="seconds must be a number or None"):
        dualfl.run(dualfl.Problem(QUADS), dualfl.DualFL(), seconds=10**400)
    with pytest.raises(InputError, match="problem must be a Problem, but it is 3"):
        dualfl.run(3, dualfl.DualFL())
    with pytest.raises(InputError, match="clients must be a list of which each is an Objective"):
        dualfl.Problem([1, 2])


def test_long_and_odd_values_fit_into_a_sentence():
    class Odd:
        def __repr__(self):
            raise RuntimeError

    assert len(shown("x" * 10_000)) <= 80 and "\n" not in shown("a\nb" * 50)
    with pytest.raises(InputError):
        check("x", Odd(), int)


def test_a_function_keeps_its_face_and_python_tells_what_is_missing():
    assert dualfl.run.__doc__.startswith("Run an algorithm on a problem")
    with pytest.raises(TypeError, match="missing"):
        dualfl.run()

    @checked
    @dataclass(frozen=True)
    class Pair:
        a: int
        b: float = 1.0

    assert Pair(1) == Pair(1, 1.0) and hash(Pair(2)) == hash(Pair(2))
    with pytest.raises(InputError, match="b must be a number"):
        Pair(1, b="x")


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_hyperparameters_of_the_wrong_kind_are_refused(name):
    from dataclasses import fields

    for field in fields(ALGORITHMS[name]):
        for value in (["x"], {"a": 1}, 10**400, b"x"):
            with pytest.raises(InputError, match=f"{name}: {field.name}|must be at most"):
                dualfl.run(dualfl.Problem(QUADS), make(name, **{field.name: value}), rounds=1)


@pytest.mark.parametrize("field", ["K"])
def test_more_local_steps_than_anybody_lives_to_see_are_refused(field):
    with pytest.raises(InputError, match="fedavg: K must be at most 10,000,000"):
        make("fedavg", **{field: 10**18})


def small_run(algorithm, **options):
    X, y = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.0], [2.0, 2.0]]), np.array([1.0, -1.0, 1.0, -1.0])
    clients = [dualfl.LinearModel(X[i::2], y[i::2], dualfl.Logistic(), ridge=0.1) for i in range(2)]
    return dualfl.run(dualfl.Problem(clients), algorithm, rounds=3, **options)


@pytest.mark.parametrize(
    "algorithm", [make("disco", mu_P=1e308), make("sketched-newton", widest=1), make("giant", accuracy=1e-308)]
)
def test_hyperparameters_at_the_ends_of_their_range_do_not_break_a_run(algorithm):
    result = small_run(algorithm)
    assert np.isfinite(result.theta).all() and result.history


def test_a_default_that_overflows_blames_what_it_was_computed_from():
    with pytest.raises(InputError, match=r"feddr: alpha = 1e\+308 is not allowed"):
        small_run(make("feddr", alpha=1e308))


@pytest.mark.parametrize("place", ["/", ""])
def test_a_checkpoint_that_is_no_file_is_refused(place):
    with pytest.raises(InputError, match="checkpoint must be a file"):
        small_run(make("gd"), checkpoint=place)


@pytest.mark.parametrize("threads", [0, -1, 10**20])
def test_a_number_of_threads_that_no_machine_has_is_refused(threads):
    with pytest.raises(InputError, match=f"threads must be from 1 to 4,096, but it is {threads}"):
        small_run(make("gd"), threads=threads)


def test_more_clients_than_rows_are_refused_before_they_are_counted_out():
    with pytest.raises(InputError, match="5 rows for 90,000,000 clients"):
        dualfl.data.even(5, 90_000_000)


def test_a_weight_that_is_no_float_is_named():
    with pytest.raises(InputError, match="A sample weight is too large for a float"):
        PoissonRegressor().fit(np.ones((2, 1)), np.array([1.0, 2.0]), sample_weight=[1, 10**400])


@pytest.mark.parametrize("text", ["a\nb", 'a,"b'])
def test_words_of_an_option_that_cannot_be_told_apart_are_refused(text):
    with pytest.raises(InputError, match="--columns takes words between commas, in one line, but it is"):
        parts("--columns", text)


def test_an_intercept_that_is_an_array_is_refused():
    with pytest.raises(InputError, match='intercept must be True, False or "free"'):
        dualfl.LinearModel(np.ones((2, 1)), np.ones(2), dualfl.Logistic(), intercept=np.array([]))


def test_a_whole_number_beyond_64_bits_is_a_number_like_any_other():
    problem = Problem([Quadratic(np.eye(2), np.ones(2)) for _ in range(2)])
    result = dualfl.run(problem, dualfl.DualFL(), rounds=2, reference=10**30)
    assert result.history[-1].relative_error == pytest.approx(-1.0)
