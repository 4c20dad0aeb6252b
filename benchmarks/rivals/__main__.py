"""dualfl against the best pooled solvers, in one run, as ratios of processor time.

    python -m benchmarks.rivals                     both tables
    python -m benchmarks.rivals a8a lasso-wide      these rows only
    python -m benchmarks.rivals --save              writes results/rivals.md too

Every program has one thread. The rivals (scikit-learn with its liblinear, skglm, celer, glum, statsmodels) take part
where they are installed: `pip install skglm celer glum statsmodels`. A rival gets the loosest tolerance whose true
error is at most 1e-6; dualfl's fits prove 1e-6, which is more to ask. MNIST and a8a lie where DUALFL_DATA says.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "DUALFL_THREADS"):
    os.environ[name] = "1"  # before NumPy is imported

import numpy as np  # noqa: E402

from benchmarks.rivals.contest import contest  # noqa: E402
from benchmarks.rivals.fits import FITS  # noqa: E402
from benchmarks.rivals.growth import CELLS, grow  # noqa: E402
from dualfl import kernels  # noqa: E402
from dualfl.errors import InputError  # noqa: E402

PLACE = Path(__file__).parents[2] / "results" / "rivals.md"
RIVALS = ("scikit-learn", "skglm", "celer", "glum", "statsmodels", "numpy", "scipy")
RATIO, MEAN = 1.5, 1.0
lines: list[str] = []


def say(text: str = "") -> None:
    print(text, flush=True)
    lines.append(text)


def versions() -> str:
    found = []
    for name in RIVALS:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} not installed")
    return ", ".join(found)


def clock(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def everyday(chosen: list[str]) -> None:
    say("## Fits of every day")
    say()
    say("| fit | program | tolerance | true error | CPU | ratio to the best rival | |")
    say("|---|---|---:|---:|---:|---:|---|")
    ratios = []
    for key in chosen:
        try:
            fit = FITS[key]()
        except InputError as missing:
            say(f"| {key} | left out: {missing} | | | | | |")
            continue
        results = contest(fit.contenders, fit.energy, fit.turns, patience=60)
        rivals = [r for r in results if not r.name.startswith("dualfl") and r.reached]
        best = min((r.cpu for r in rivals), default=np.nan)
        for i, r in enumerate(results):
            note = r.told
            if i == 0:
                ratios.append(r.cpu / best)
                note += "; " + verdict(r.cpu, r.cpu / best, r.reached, fit.milliseconds)
            error = f"{r.error:.0e}" if r.reached else f"**{r.error:.0e}**"
            say(f"| {fit.name} | {r.name} | {r.tol:.0e} | {error} | {clock(r.cpu)} | {r.cpu / best:.2g} | {note} |")
    mean = float(np.exp(np.mean(np.log(ratios)))) if ratios else np.nan
    say()
    say(
        f"Geometric mean of the ratios of the first line of each fit: {mean:.2f} "
        f"({'kept' if mean <= MEAN else 'missed'}: at most {MEAN:g})."
    )
    say()


def growing(chosen: list[str]) -> None:
    say("## Growth")
    say()
    say("Memory is what a fit takes beyond the program itself, the data included; the aim is twice the data + 200 MB.")
    say()
    say("| problem | program | tolerance | true error | CPU | ratio to the best rival | memory | |")
    say("|---|---|---:|---:|---:|---:|---:|---|")
    for key in chosen:
        for line in grow(key):
            say(line)
    say()


def verdict(cpu: float, ratio: float, reached: bool, milliseconds: float | None) -> str:
    if not reached:
        return "missed: the true error"
    if milliseconds is not None:
        return f"{'kept' if 1e3 * cpu <= milliseconds else 'missed'}: at most {milliseconds:g} ms"
    return f"{'kept' if ratio <= RATIO else 'missed'}: at most {RATIO:g}"


def main() -> None:
    asked = [word for word in sys.argv[1:] if not word.startswith("--")]
    say("# dualfl and its rivals")
    say()
    say(f"Printed by `{' '.join(['python -m benchmarks.rivals', *asked, '--save'])}`.")
    say()
    say(
        f"{kernels.describe()}; one thread each; {versions()}; "
        f"load of the machine when this began: {os.getloadavg()[0]:.1f}."
    )
    say()
    everyday([key for key in FITS if not asked or key in asked])
    growing([key for key in CELLS if not asked or key in asked])
    if "--save" in sys.argv[1:]:
        PLACE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
