"""Every Python block of the README, of CONTRIBUTING and of every page in docs/ runs, page by page and in order."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from dualfl.algorithms import plugins
from dualfl.algorithms.registry import ALGORITHMS
from dualfl.cli import main
from dualfl.cli.commands import COMMANDS as COMMANDS_OF_HELP

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_snippets_run(page, tmp_path, monkeypatch):
    text = page.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)  # what a snippet writes is not for the repository
    monkeypatch.setattr(ALGORITHMS, "plugins", {})  # what it registers is not for other tests
    names = {"__name__": "__main__"}
    for block in BLOCK.finditer(text):
        above = text.count("\n", 0, block.start(1))  # so that a traceback shows the line of the page
        exec(compile("\n" * above + block.group(1), page.name, "exec"), names)
    assert text.count("```python") == len(BLOCK.findall(text)), "a block that does not end was left out"


def test_there_are_pages():
    assert PAGES


# -- the worked example of CONTRIBUTING -----------------------------------------------------------------------

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLE = Path("examples", "own_algorithm.py")
COMMANDS = re.findall(rf"^    (dualfl .*--plugin {EXAMPLE.as_posix()}.*)$", CONTRIBUTING, re.MULTILINE)


def test_the_worked_example_is_the_file():
    code = next(block.group(1) for block in BLOCK.finditer(CONTRIBUTING) if "class HeavyBall" in block.group(1))
    assert code in (ROOT / EXAMPLE).read_text(encoding="utf-8")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_worked_example_run(command, tmp_path, monkeypatch):
    monkeypatch.setattr(ALGORITHMS, "plugins", {})
    monkeypatch.setattr(plugins, "_files", {})
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / EXAMPLE, tmp_path / EXAMPLE)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, shlex.split(command)[1:], prog_name="dualfl")
    assert done.exit_code == 0, done.output
    assert "heavy-ball" in done.stdout or "Polyak" in done.stdout


def test_there_are_commands_of_the_worked_example():
    assert {command.split()[1] for command in COMMANDS} == {"run", "compare", "tune", "algorithms"}


# -- the page of commands -------------------------------------------------------------------------------------


def test_the_page_of_commands_has_every_command_in_the_order_of_help():
    page = (ROOT / "docs" / "reference" / "commands.rst").read_text(encoding="utf-8")
    shown = re.findall(r"^\.\. click:: (\S+)\n   :prog: dualfl (\S+)$", page, re.MULTILINE)
    assert shown == [(where, name) for name, (where, _) in COMMANDS_OF_HELP.items()]
