"""An algorithm has one colour, line and marker in all pictures and pages."""

from click.testing import CliRunner
from contrast import contrast

import dualfl
from dualfl.algorithms.registry import ALGORITHMS
from dualfl.cli import main
from dualfl.colours import COLOURS, DARK, LINES, MARKERS, MORE, ORDER, style_of, styles
from dualfl.experiments.compare import compare
from dualfl.report.comparison import comparison_figure
from dualfl.report.page import figure_data
from dualfl.report.results import read

BUILT_IN = [name for name, kind in ALGORITHMS.items() if kind.__module__.startswith("dualfl.")]


def test_every_algorithm_of_the_library_has_a_style_that_no_other_has():
    assert set(BUILT_IN) == set(ORDER) and len(set(ORDER)) == len(ORDER)
    assert len({style_of(name) for name in ORDER}) == len(ORDER)
    assert len({style_of(name).colour for name in ORDER[:12]}) == 12


def test_colours_are_seen_on_paper_and_on_a_dark_ground():
    for colour in COLOURS + MORE:
        assert contrast(colour, "#ffffff") >= 2 and contrast(DARK.get(colour, colour), "#16181c") >= 4


def test_a_style_depends_on_the_algorithm_alone():
    assert style_of("DualFL · run-2") == style_of("dualfl, rho = 1") == style_of("dualfl")
    few, many = styles(["lbfgs", "dualfl"]), styles([*reversed(ORDER), "my-own"])
    assert few == [style_of("lbfgs"), style_of("dualfl")]
    assert dict(zip([*reversed(ORDER), "my-own"], many))["dualfl"] == few[1]
    assert style_of("my-own") == style_of("My-Own") and style_of("my-own").line < LINES
    twice = styles(["dualfl · a", "auto · a", "dualfl · b"])
    assert twice[0].colour == twice[2].colour and twice[0] != twice[2]
    assert len({one.colour for one in styles(["dualfl 1", "dualfl 2", "dualfl 3"])}) == 3
    assert all(one.marker < MARKERS for one in many)


def test_two_pictures_and_a_page_agree(tmp_path):
    problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    names, star = ["gd", "dualfl", "lbfgs"], dualfl.reference(problem)
    found = compare(problem, [ALGORITHMS[name]() for name in names], rounds=8, reference=star)
    wanted = {name: style_of(name).colour for name in names}
    assert {text.get_text(): text.get_color() for text in comparison_figure(found).axes[0].texts} == wanted
    histories = {name: dualfl.run(problem, ALGORITHMS[name](), rounds=4, reference=star).history for name in names}
    lines = dualfl.convergence_figure(histories).axes[0].get_lines()
    assert {line.get_label().partition(":")[0]: line.get_color() for line in lines} == wanted
    words = f"compare --dataset iris --clients 3 --ridge 0.1 --rounds 4 --algorithms {','.join(names)} --out"
    assert CliRunner().invoke(main, [*words.split(), str(tmp_path / "compared")]).exit_code == 0
    assert {one["label"]: one["colour"][0] for one in figure_data([read(tmp_path / "compared")])["curves"]} == wanted
