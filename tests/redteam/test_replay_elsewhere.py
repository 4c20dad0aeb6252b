"""Honest coordinators are not refused: a silo on another processor, with another BLAS kernel, follows the same plan."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hostile import Hostile, fit, make_homes

pytestmark = pytest.mark.unrefused("honest coordinators")


FOLLOW = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from dualfl.federation.experiment import Experiment
from dualfl.federation.line import Standing, read_totals
from dualfl.federation.chain import Chain
from dualfl.federation.replica import Replica
from dualfl.federation.silo_folder import SiloFolder
from dualfl.federation.wire import decode

folder = Path(sys.argv[2])
experiment = Experiment(SiloFolder(folder), "e")
replica = Replica(experiment.plan, "e", decode((experiment.path / "met").read_bytes()))
asked = sorted((folder / "asked").iterdir())
for number, path in enumerate(asked, 1):
    content = decode(path.read_bytes())
    replica.check(content["asks"], content["ended"])
    if number < len(asked):
        kept = decode((experiment.path / "opened" / f"{number:06d}").read_bytes())
        replica.told(read_totals(kept["opened"], Standing(Chain(""), fields=tuple(kept["fields"]))))
print(len(asked))
"""


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3"},
        {"OPENBLAS_CORETYPE": "Haswell"},
    ],
)
def test_a_silo_with_other_kernels_follows_without_a_refusal(elsewhere, tmp_path):
    homes = make_homes(tmp_path)
    transport = Hostile(homes)
    fit(homes, transport=transport)
    from dualfl.federation.wire import decode

    (homes[0] / "asked").mkdir()
    asked = [message for message, _ in transport.heard if decode(message)["kind"] != "open"]
    for number, message in enumerate(asked):
        (homes[0] / "asked" / f"{number:06d}").write_bytes(message)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FOLLOW, str(Path(__file__).parent), str(homes[0])],
        env=os.environ | elsewhere,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(asked)


def test_runs_are_followed_with_other_kernels_too():
    """A sample of `python -m benchmarks.trust replay`, which has all algorithms and more processors."""
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from benchmarks.trust import ELSEWHERE, replay

    where = {name: ELSEWHERE[name] for name in ("Prescott, no AVX2", "kernels twin")}
    *lines, last = replay(["dualfl", "sketched-newton", "disco"], where)
    assert len(lines) == 2 and all(
        "2 of 2 algorithms followed to the end" in line and "MISSED" not in line for line in lines
    )
    assert "disco (disco asks 1 of 3 silos at a time)" in last
