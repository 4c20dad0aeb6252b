"""`dualfl fit --study --model cox` over real Flower: TLS, keys, masks, three silos, and the table of the files.

Run by `make test-deploy`; tests/federation/test_families_far.py has all other models, without a network.
"""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "federation"))
from needs import need

need("flwr", "flower")
need("cryptography", "flower")

# ruff: noqa: E402 (nothing below can be imported without it)
from dualfl.cli.commands import main
from dualfl.deploy.trial import Deployment

pytestmark = pytest.mark.faults

NAMES = ["north", "river", "hill"]
FILES = [Path(__file__).parents[2] / "examples" / "survival" / f"{name}.csv" for name in NAMES]
COX = ["--model", "cox", "--time", "days", "--columns", "age,stage,treatment", "--no-report"]


def fitted(*words):
    done = CliRunner().invoke(main, ["fit", *map(str, words)], prog_name="dualfl", catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def coefficients(printed):
    lines = printed[printed.index("coefficient  ") :].splitlines()
    return [line.split() for line in lines[2 : lines.index("")]]


def test_cox_over_three_silos_is_one_command(tmp_path):
    here = fitted(*FILES, *COX, "--event", "died", "--out", tmp_path / "here")
    deployment = Deployment(tmp_path, FILES, "died", NAMES, secure=True)
    for name in NAMES:  # what the operators of the silos say
        path = tmp_path / name / "silo.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"roles": {"time": ["days"]}}))
    with deployment.running():
        far = fitted("--study", deployment.project.folder, *COX, "--event", "died", "--out", tmp_path / "far")
    assert len(coefficients(here)) == 4 and coefficients(far) == coefficients(here)
    assert "no row" in far and "3 silos; 430 rows" in " ".join(far.split())
    table = CliRunner().invoke(main, ["table", str(tmp_path / "far"), "--format", "md"], catch_exceptions=False)
    assert "HR (95% CI)" in table.output
