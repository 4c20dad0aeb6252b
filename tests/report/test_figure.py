"""Pictures: what is drawn, that lines can be told apart without colour, and that no global state is touched."""

import subprocess
import sys

import numpy as np
import pytest

from dualfl.engines.history import History, Row
from dualfl.errors import InputError
from dualfl.report import convergence_figure, save_png


def history(rounds=20, error=True, certificate=True):
    rows = []
    for n in range(rounds):
        e = 2.0 * 0.5**n
        proven = 10 * e if certificate and n else None
        rows.append(Row(n, n, n, n, float(n), 0.1 * n, 1.0 + e, e if error else None, proven, 1, 0))
    return History(rows)


def lines(figure):
    return figure.axes[0].get_lines()


def test_error_and_certificate_on_a_log_scale():
    figure = convergence_figure({"DualFL": history()}, "digits")
    axes = figure.axes[0]
    assert axes.get_yscale() == "log"
    assert [line.get_label().split(":")[0] for line in lines(figure)] == ["DualFL", "DualFL"]
    np.testing.assert_allclose(lines(figure)[0].get_ydata(), 2.0 * 0.5 ** np.arange(20))
    proven = lines(figure)[1].get_ydata()
    assert np.isnan(proven[0]) and (proven[1:] > lines(figure)[0].get_ydata()[1:]).all()


def test_runs_differ_in_more_than_colour():
    figure = convergence_figure({str(i): history(certificate=False) for i in range(7)})
    assert len({line.get_color() for line in lines(figure)}) == 7
    assert len({line.get_marker() for line in lines(figure)}) == 7


def test_what_is_not_known_is_not_drawn():
    assert len(lines(convergence_figure({"a": history(error=False)}))) == 1
    assert len(lines(convergence_figure({"a": history(error=False, certificate=False)}))) == 0


def test_rounding_does_not_break_the_log_scale():
    rows = [Row(n, n, n, n, 0.0, 0.0, 1.0, e, None, 1, 0) for n, e in enumerate([1.0, 1e-17, 0.0, -2e-16])]
    assert (lines(convergence_figure({"a": History(rows)}))[0].get_ydata() >= 1e-16).all()


def test_nothing_to_draw_is_a_sentence():
    with pytest.raises(InputError, match="nothing to draw"):
        convergence_figure({"a": History()})


def test_a_png_is_written_the_same_twice(tmp_path):
    for name in ("a", "b"):
        save_png(convergence_figure({"DualFL": history()}), tmp_path / f"{name}.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_pyplot_stays_out(tmp_path):
    code = """
import sys
from dualfl.report import convergence_figure, save_png
from pathlib import Path
from dualfl.engines.history import History, Row
assert "matplotlib" not in sys.modules
save_png(convergence_figure({"a": History([Row(0, 0, 0, 0, 0.0, 0.0, 1.0, 0.5, None, 1, 0)])}), Path(sys.argv[1]))
assert "matplotlib" in sys.modules and "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.png")], check=True)
