"""Three small hospitals with invented survival times, for `dualfl fit --model cox`, and new patients to predict:
python examples/make_survival.py

The hazard of death depends on age, on the stage of the disease and on the treatment; every hospital has a baseline of
its own, and follows its patients for another time. Times are days since diagnosis. A nurse counted falls on days at
risk (`falls`, `days_at_risk`), for models of counts, and patients said how they felt (`quality`), for ordered levels.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

HOSPITALS = {
    "north": (220, 66.0, 900.0, 1400.0),
    "river": (150, 60.0, 1400.0, 1100.0),
    "hill": (60, 71.0, 600.0, 800.0),
}
NEW = (30, 65.0, 1000.0, 1000.0)  # rows, mean age, scale of the baseline, days of observation
STAGES = ("I", "II", "III")
LEVELS = ("poor", "fair", "good")


def patients(rows: int, age: float, scale: float, followed: float, rng: np.random.Generator) -> list[dict[str, str]]:
    made = []
    for number in range(rows):
        years = float(np.clip(rng.normal(age, 10), 25, 95))
        stage = str(rng.choice(STAGES, p=[0.45, 0.35, 0.2]))
        treated = rng.random() < 0.5
        z = 0.04 * (years - 65) + {"I": 0.0, "II": 0.6, "III": 1.3}[stage] - 0.5 * treated
        death = scale * (rng.exponential() / np.exp(z)) ** (1 / 1.3)  # Weibull's, with shape 1.3
        seen = rng.uniform(0.3, 1.0) * followed
        at_risk = min(death, seen) * rng.uniform(0.1, 0.4)
        falls = rng.poisson(rng.gamma(1.5, 1 / 1.5) * at_risk / 60 * np.exp(0.02 * (years - 65)))
        feels = rng.logistic() - 0.8 * z
        row = {
            "age": f"{years:.0f}",
            "stage": stage,
            "treatment": "new" if treated else "usual",
            "days": f"{max(round(min(death, seen)), 1)}",
            "died": str(int(death <= seen)),
            "falls": str(falls),
            "days_at_risk": f"{max(at_risk, 1.0):.0f}",
            "quality": LEVELS[int(np.digitize(feels, [-1.0, 0.7]))],
            "family": f"F{number // 2}",
        }
        made.append(row)
    return made


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, (name, how) in enumerate({**HOSPITALS, "new": NEW}.items()):
        rng = np.random.default_rng([28, number])
        made = patients(*how, rng)
        with open(folder / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(made[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(made)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "survival")
