"""The patients of examples/hospitals as three systems might export them, for `dualfl check`:
python examples/make_untidy.py

North writes 999 for a blood pressure that nobody measured; River writes decimal commas, wards in capitals, and 1 and 0
for yes and no; Hill writes Windows' own letters, and "unknown" where nobody asked. Each has a column that names the
patients. Options of `dualfl fit` mend all of it, and give the model of the tidy files.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

HERE = Path(__file__).parent
NAMES = {"north": "N", "river": "R", "hill": "Höhe "}


def untidy(name: str, row: dict[str, str]) -> dict[str, str]:
    changes: dict[str, dict[str, str]] = {
        "north": {"blood_pressure": row["blood_pressure"] or "999"},
        "river": {
            "days": row["days"].replace(".", ","),
            "ward": row["ward"].capitalize(),
            "readmitted": {"yes": "1", "no": "0", "": ""}[row["readmitted"]],
        },
        "hill": {"smoker": row["smoker"] or "unknown"},
    }
    return row | changes[name]


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, letter in NAMES.items():
        with open(HERE / "hospitals" / f"{name}.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        encoding, delimiter = ("cp1252", ",") if name == "hill" else ("utf-8", ";" if name == "river" else ",")
        with open(folder / f"{name}.csv", "w", newline="", encoding=encoding) as file:
            writer = csv.DictWriter(file, ["patient", *rows[0]], delimiter=delimiter, lineterminator="\n")
            writer.writeheader()
            for i, row in enumerate(rows, start=1):
                writer.writerow({"patient": f"{letter}{i:03d}"} | untidy(name, row))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "untidy")
