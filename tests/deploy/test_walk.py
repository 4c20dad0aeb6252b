"""The walk of docs/fit.md, word for word: three files, the same files at three silos, and the same table at the end.

The commands are real, and so are keys, approvals, masks and messages; only the network is left out: what Flower would
carry is handed to the silos' keepers in this process. tests/deploy/test_real_deployment.py has the network.
"""

import pickle
import re
import shlex
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "federation"))
from needs import need

need("flwr", "flower")
need("cryptography", "flower")

# ruff: noqa: E402 (nothing below can be imported without it)
from loopback import Loopback

from dualfl.cli.commands import main
from dualfl.deploy import study
from dualfl.federation.courier import Traffic
from dualfl.federation.flower.analysis_job import carry_out_analysis

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "fit.md").read_text(encoding="utf-8")
SERVICES = ("start", "serve")


def blocks():
    """The commands of the walk, block by block, lines that go on joined."""
    for block in re.findall(r"(?:^    .*\n)+", PAGE, re.MULTILINE):
        lines = re.sub(r"\\\n\s*", "", block).splitlines()
        if lines[0].split()[0] in ("cd", "dualfl"):
            yield [line.strip() for line in lines]


def in_this_process(project, work, bar, say, alive, at):
    """In the place of Flower: the same job, carried out by the same code."""
    homes = [project.folder.parent / f"at-{name}" for name in sorted(project.settings.silos)]
    job = pickle.loads((work / "job.pkl").read_bytes())
    lines = SimpleNamespace(say=say, waits=lambda *waiting: None, at=at)
    done = carry_out_analysis(job, work, Loopback(homes, resident=True), Traffic(), lines)
    (work / "result.pkl").write_bytes(pickle.dumps(done))


def dualfl(line):
    command, *words = shlex.split(line.removesuffix("&"))
    assert command == "dualfl"
    return CliRunner().invoke(main, words)


@pytest.fixture
def hospitals(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples" / "hospitals", tmp_path / "examples" / "hospitals")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(study, "submit_and_watch", in_this_process)
    return tmp_path


def test_three_files_and_the_same_files_at_three_silos_end_with_the_same_table(hospitals, monkeypatch):
    walk = [block for block in blocks() if any("dualfl fit" in line for line in block)]
    files, far = walk[0], next(block for block in walk if block[0].startswith("dualfl deploy init"))
    assert files[0] == "cd examples/hospitals"
    monkeypatch.chdir(files[0].split()[1])
    shown = dualfl(files[1]).stdout
    fits, services = [], []
    for line in far:
        if line.split()[2] in SERVICES:
            services.append(line.split()[3])
            continue
        result = dualfl(line)
        waits = "dualfl fit" in line and not fits
        assert (result.exit_code == 0) != waits, result.output
        if "dualfl fit" in line:
            fits.append(result)
    assert "the plan waits for this silo's operator" in fits[0].stderr
    assert services == ["study", "at-north", "at-river", "at-hill"] and all(Path(one).is_dir() for one in services)
    assert tables(fits[1].stdout) == tables(shown)
    assert Path("predictions.csv").read_text().count("\n") > 10
    printed = " ".join(fits[1].stdout.split())
    assert "3 silos; 456 rows" in printed and "the mean of all silos" in printed
    assert "10: 2 for columns and levels" in printed


def tables(text):
    """The coefficients and the silos: all that stands between the facts and the files, without the names' suffixes."""
    first, last = text.index("coefficient  "), text.index("files  ")
    return [line.split() for line in text[first:last].replace(".csv", "").splitlines() if "---" not in line]
