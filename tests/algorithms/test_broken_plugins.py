"""A plug-in that is broken gets one sentence, with its file and line, and never a verdict that all is well."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from dualfl.algorithms import plugins
from dualfl.algorithms.registry import ALGORITHMS
from dualfl.cli.commands import main

EXAMPLE = (Path(__file__).parents[2] / "examples" / "own_algorithm.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "    @client_step\n",
            "",
            "'slope' is not a client step of broken-ball; if it should be",
        ),
        ("m.g +", "m.gg +", "has no attribute 'gg' (line "),
    ],
)
def test_one_sentence(old, new, sentence, tmp_path, monkeypatch):
    monkeypatch.setattr(ALGORITHMS, "plugins", {})
    monkeypatch.setattr(plugins, "_files", {})
    assert old in EXAMPLE
    file = tmp_path / "mine.py"
    file.write_text(EXAMPLE.replace(old, new).replace('"heavy-ball"', '"broken-ball"'), encoding="utf-8")
    done = CliRunner().invoke(main, ["algorithms", "broken-ball", "--check", "--plugin", str(file)])
    assert done.exit_code == 2 and sentence in done.stderr and done.stderr.startswith("Error: ")
    assert len(done.stderr.splitlines()) == 1 and "as it should be" not in done.output
