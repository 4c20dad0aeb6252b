"""dualfl against the best pooled solvers, in one run, as ratios of processor time.

    python -m benchmarks.rivals                     both tables
    python -m benchmarks.rivals a8a lasso-wide      these rows only
    python -m benchmarks.rivals --save              writes results/rivals.md too, the sections that were run

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
INTRODUCTION = """# dualfl and its rivals

Each section was printed by one run of its command; a ratio is one of its own run."""
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


def head(asked: list[str]) -> None:
    """What printed a section, and with what."""
    say(f"Printed by `{' '.join(['python -m benchmarks.rivals', *asked, '--save'])}`.")
    say()
    say(
        f"{kernels.describe()}; one thread each; {versions()}; "
        f"load of the machine when this began: {os.getloadavg()[0]:.1f}."
    )
    say()


def saved(new: list[str]) -> str:
    """The file with the sections that were run in the place of the old ones of the same title; others stay."""
    sections = {part.split("\n", 1)[0]: part for text in (kept(), "\n".join(new)) for part in cut(text)}
    return INTRODUCTION + "\n\n" + "\n\n".join(part.strip() for part in sections.values()) + "\n"


def kept() -> str:
    return PLACE.read_text() if PLACE.exists() else ""


def cut(text: str) -> list[str]:
    return [f"## {part}" for part in text.split("\n## ")[1:]]


def main() -> None:
    asked = [word for word in sys.argv[1:] if not word.startswith("--")]
    print(INTRODUCTION)
    for title, known, run in (("Fits of every day", FITS, everyday), ("Growth", CELLS, growing)):
        chosen = [key for key in known if not asked or key in asked]
        if chosen:
            say(f"\n## {title}")
            say()
            head(asked)
            run(chosen)
    if "--save" in sys.argv[1:]:
        PLACE.write_text(saved(lines))


if __name__ == "__main__":
    main()
