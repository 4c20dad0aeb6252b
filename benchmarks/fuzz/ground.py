"""What the cases start from: small valid files, a model, a run with its checkpoint, a comparison; made once."""

from __future__ import annotations

import contextlib
import io
import random
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from click.testing import CliRunner

from dualfl.cli import main
from dualfl.errors import InputError
from dualfl.federation.consent import Consent
from dualfl.federation.silo_folder import SiloFolder

ROWS = 36


@dataclass
class Ground:
    """The folder of valid things. Cases read it and never write to it."""

    folder: Path
    files: dict[str, bytes] = field(default_factory=dict)  # of each format

    def __getitem__(self, name: str) -> Path:
        return self.folder / name


def command(*words: Any) -> Any:
    """A command in this process."""
    with contextlib.redirect_stdout(io.StringIO()):
        return CliRunner().invoke(main, [str(word) for word in words], prog_name="dualfl")


def prepare(folder: Path) -> Ground:
    """Make what is missing in the folder."""
    ground = Ground(folder)
    if not (folder / "ready").exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_files(folder)
        own = ("--data", folder / "a.csv", "--target", "sick")
        small = ("--clients", 3, "--rounds", 4, "--dataset", "iris", "--no-reference", "--no-report", "--force")
        fit = ("fit", folder / "a.csv", folder / "b.csv", "--target", "sick", "--model", "logistic", "--no-report")
        plain = (*fit, "--no-influence", "--penalty", "none")
        for words in (
            (*fit, "--out", folder / "model"),
            (*plain, "--columns", "age", "--out", folder / "smaller"),
            (*plain, "--columns", "age,dose", "--out", folder / "larger"),
            ("run", *small, "--checkpoint-every", 1, "--out", folder / "run"),
            ("compare", *small[:-2], "--algorithms", "dualfl,gd", "--force", "--out", folder / "comparison"),
            ("predict", folder / "model", folder / "a.csv", "--out", folder / "predictions.csv"),
            ("deploy", "init", folder / "project", "--silos", "a,b,c", "--host", "h", "--insecure", "--no-secure"),
            *(("deploy", "join", folder / "silo", "--name", "a", "--coordinator", "h:1", "--insecure", *own),),
        ):
            done = command(*(word for word in words if words[0] != "compare" or word != "--no-reference"))
            if done.exit_code:
                raise RuntimeError(f"{words}: {done.output} {done.exception!r}")
        a_plan_waits(folder / "silo")
        (folder / "ready").touch()
    for path in sorted(folder.glob("data.*")):
        ground.files[path.name] = path.read_bytes()
    return ground


def a_plan_waits(silo: Path) -> None:
    """For the operator's word."""
    home = SiloFolder(silo)
    plan = {"names": ["a", "b", "c"], "problem": {"loss": "logistic", "ridge": 0.1}, "algorithm": "auto"}
    with contextlib.suppress(InputError):  # it says that it waits
        Consent(home.path, home.policy, home.log).check(plan, "x", {"a": "key"}, ["age"])


def write_files(folder: Path) -> None:
    rng = random.Random(0)
    for name in ("s", "t"):
        lines = ["days,died,arm"]
        for _ in range(ROWS):
            lines.append(f"{rng.randint(1, 400)},{int(rng.random() < 0.7)},{rng.choice(['old', 'new'])}")
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    for name in ("a", "b"):
        lines = ["age,ward,dose,sick"]
        for _ in range(ROWS):
            age, ward = rng.randint(20, 90), rng.choice(["north", "south", "east"])
            lines.append(f"{age},{ward},{rng.uniform(0, 5):.3f},{'yes' if rng.random() < age / 110 else 'no'}")
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    X = np.random.default_rng(0).normal(size=(ROWS, 3))
    y = (X[:, 0] + 0.5 * np.random.default_rng(1).normal(size=ROWS) > 0).astype(int)
    table = "\n".join(",".join([*(f"{v:.4f}" for v in row), f"c{label}"]) for row, label in zip(X, y))
    (folder / "data.csv").write_text(f"u,v,w,target\n{table}\n")
    (folder / "data.tsv").write_text(f"u,v,w,target\n{table}\n".replace(",", "\t"))
    (folder / "data.libsvm").write_text(
        "".join(f"{label:+d} 1:{a:.4f} 3:{b:.4f}\n" for label, (a, _, b) in zip(2 * y - 1, X))
    )
    np.savez(folder / "data.npz", X=X, y=y)
    S = sp.csr_array(np.where(X > 0, X, 0))
    np.savez(folder / "data.sparse.npz", data=S.data, indices=S.indices, indptr=S.indptr, shape=S.shape, y=y)
    np.save(folder / "data.npy", np.c_[X, y])
    images = np.random.default_rng(2).integers(0, 256, (12, 3, 3), dtype=np.uint8)
    (folder / "data.images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, 12, 3, 3) + images.tobytes())
    (folder / "data.labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, 12) + bytes(i % 3 for i in range(12)))
    with contextlib.suppress(ImportError):
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = {name: X[:, i] for i, name in enumerate("uvw")} | {"target": [f"c{label}" for label in y]}
        pq.write_table(pa.table(columns), folder / "data.parquet")
