"""Three small hospitals with invented patients, for `dualfl fit`, and new patients to predict:
python examples/make_hospitals.py

Readmission within 30 days depends on age, on earlier admissions, on smoking and a little on the ward; the hospitals
differ in size and in their patients, some entries are missing, and each has columns in an order of its own.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

HOSPITALS = {"north": (240, 66.0), "river": (160, 58.0), "hill": (60, 74.0)}  # rows, mean age
NEW = (40, 65.0)
WARDS = ("general", "heart", "surgery")


def patients(rows: int, age: float, rng: np.random.Generator) -> list[dict[str, str]]:
    made = []
    for _ in range(rows):
        years = float(np.clip(rng.normal(age, 11), 18, 98))
        pressure = 95 + 0.55 * years + rng.normal(0, 14)
        earlier = int(rng.poisson(0.4 + 0.012 * years))
        smoker = str(rng.choice(["never", "former", "current"], p=[0.5, 0.3, 0.2]))
        ward = str(rng.choice(WARDS, p=[0.5, 0.25, 0.25]))
        z = -3.6 + 0.025 * years + 0.45 * earlier + {"never": 0, "former": 0.3, "current": 0.9}[smoker]
        z += 0.4 * (ward == "heart") + 0.004 * (pressure - 130)
        again = rng.random() < 1 / (1 + np.exp(-z))
        days = rng.gamma(2.0, np.exp(0.4 + 0.012 * years + 0.3 * (ward == "surgery")) / 2)
        row = {
            "age": f"{years:.0f}",
            "blood_pressure": f"{pressure:.0f}" if rng.random() > 0.06 else "",
            "earlier_admissions": str(earlier),
            "smoker": smoker if rng.random() > 0.04 else "",
            "ward": ward,
            "days": f"{days:.1f}",
            "readmitted": ("yes" if again else "no") if rng.random() > 0.01 else "",
        }
        made.append(row)
    return made


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, (name, (rows, age)) in enumerate({**HOSPITALS, "new": NEW}.items()):
        rng = np.random.default_rng([14, number])
        made = patients(rows, age, rng)
        columns = list(rng.permutation(list(made[0])))
        with open(folder / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(made)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "hospitals")
