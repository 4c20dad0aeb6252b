"""Small folders of results, as the commands write them, some with names that no page may take for HTML."""

import csv
import json

from dualfl.engines.history import History, Row

EVIL = "<b>&amp;</b><img src=x onerror=window.hacked=1><script>window.hacked=1</script>"


def row(n, rate, certificate=True, error=True, cost=1):
    e = 2.0 * rate**n
    proven = 10 * e if certificate and n else None
    spent = n, 2 * n, 30 * n, 10 * n, float(cost * n), 0.1 * n
    return Row(*spent, 1 + e, e if error else None, proven, 1, 0, contacts=4 * n, payload=20.0 * n)


def curve(rate=0.5, rounds=20, **options):
    return History([row(n, rate, **options) for n in range(rounds + 1)])


def write_run(folder, history=None, version="0.1.0", algorithm="dualfl"):
    """As `dualfl run` does."""
    folder.mkdir(parents=True, exist_ok=True)
    (history or curve()).to_csv(folder / "history.csv")
    record = {
        "command": f"dualfl run --out {folder.name}",
        "settings": {"dataset": "digits", "clients": 2, "partition": "even", "ridge": 0.01, "hyperparameters": {}},
        "algorithm": {"algorithm": algorithm, "nu": 0.01, "gamma": None},
        "results": {"round": 20, "best energy": 1.0, "certificate": 1e-5, "relative error of the model": 1e-6},
        "environment": {"dualfl": version, "python": "3.11.0"},
    }
    (folder / "run.json").write_text(json.dumps(record))
    return folder


def write_comparison(folder, curves):
    """As `dualfl compare` does, with a last algorithm that did not apply."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "history.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", *Row._fields])
        for name, history in curves.items():
            writer.writerows([name, *("" if v is None else v for v in each)] for each in history)
    with open(folder / "summary.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "hyperparameters", "status"])
        writer.writerows([name, json.dumps({"rho": 0.1, "word": EVIL}), "ok"] for name in curves)
        writer.writerow(["gd", "{}", "does not apply: it needs a smooth loss"])
    record = {
        "command": f"dualfl compare --algorithms '{EVIL}'",
        "settings": {"dataset": "digits", "clients": 2, "partition": "even", "ridge": 0.01},
        "environment": {"dualfl": "0.1.0"},
    }
    (folder / "comparison.json").write_text(json.dumps(record))
    return folder


def write_partition(folder):
    content = {"clients": ["a", EVIL], "labels": ["0", "1", "2"], "counts": [[5, 0, 7], [1, 9, 2]]}
    (folder / "partition.json").write_text(json.dumps({**content, "heterogeneity": 0.25}))


def write_coefficients(folder):
    with open(folder / "coefficients.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["feature", "class", "coefficient", "std_error", "low", "high"])
        writer.writerow(["age", "yes", 1.5, 0.25, 1.0, 2.0])
        writer.writerow([EVIL, "yes", -0.5, "", "", ""])
        writer.writerow(["age", "no", -3.0, 0.25, -3.5, -2.5])
        writer.writerow([EVIL, "no", 0.5, "", "", ""])


def write_everything(folder):
    """A comparison with a partition and coefficients, and a name that would be a script if it could."""
    fast, slow, dear = curve(0.5), curve(0.8, certificate=False), curve(0.7, cost=1000)
    write_comparison(folder, {"dualfl": fast, EVIL: slow, "lbfgs": dear})
    write_partition(folder)
    write_coefficients(folder)
    return folder


def write_fit(folder):
    """As `dualfl fit` does, with all that its page draws."""
    write_run(folder)
    (folder / "run.json").unlink()
    lines = ["feature,class,coefficient,std_error,low,high", "age,,0.5,0.1,0.3,0.7", f'"{EVIL}",,-2,0.5,-3,-1']
    (folder / "coefficients.csv").write_text("\n".join([*lines, "(intercept),,90,1,88,92"]) + "\n")
    (folder / "path.csv").write_text("alpha,held_out_loss,std_error,chosen\n1,0.7,0.1,0\n0.1,0.6,0.1,1\n")
    (folder / "influence.csv").write_text(f'silo,feature,class,change,in_std_errors\n"{EVIL}",{"wide" * 30},,1,2\n')
    model = {"columns": ["age", EVIL], "scaling": {"mean": [50, 0], "spread": [10, 0.25]}}
    (folder / "model.json").write_text(json.dumps(model))
    roc = {"false positives": [0, 0.2, 1], "true positives": [0, 0.7, 1]}
    shelves = {"predicted": [0.2, 0.6], "observed": [0.25, 0.5], "rows": [5, 5]}
    record = {
        "data": {"target": "ill", "silos": ["a", EVIL], "rows": 10},
        "fitted": {"silos": f"2: a, {EVIL}"},
        "side by side": [{"silo": EVIL, "rows": None, "loss": None}, {"silo": "all", "rows": 10, "loss": 0.5}],
        "curves": [{"class": EVIL, "auc": 0.75, **roc, **shelves}],
        "results": {"best energy": 1.0, "certificate": 1e-9},
    }
    (folder / "fit.json").write_text(json.dumps(record))
    return folder
