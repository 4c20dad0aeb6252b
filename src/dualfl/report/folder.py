"""The folder of a run: its account, its model, its picture, and all it takes to repeat it."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from dualfl import kernels
from dualfl.engines.journal import history_beside
from dualfl.errors import InputError
from dualfl.experiments.settings import RunSettings
from dualfl.experiments.single_run import Finished
from dualfl.outputs import adding, check_folder
from dualfl.report.figure import convergence_figure, png
from dualfl.report.results import PARTITION, REPORT, THEORY, partition_file
from dualfl.report.run_summary import by_theory

HISTORY, RUN, MODEL, PICTURE, CHECKPOINT = "history.csv", "run.json", "model.npz", "convergence.png", "checkpoint.npz"
ROWS = history_beside(CHECKPOINT)
FILES = (HISTORY, RUN, MODEL, PICTURE, PARTITION, CHECKPOINT, ROWS, REPORT)


class Folder:
    """Where one run puts its files: all of them, or none. Who writes has the lock of `dualfl.outputs.alone`.

    Parameters
    ----------
    path : Path
        Where the files go.

    Examples
    --------
    >>> from pathlib import Path
    >>> import dualfl
    >>> folder = dualfl.report.Folder(Path("runs/first"))  # doctest: +SKIP
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def open(self, settings: RunSettings, *, force: bool = False, resume: bool = False) -> None:
        """Make sure that results can be written here, and that no other run's are lost by it."""
        check_folder(self.path)
        found = check_names(self.path, FILES)
        if force or resume or not found:
            return
        if found and set(found) <= {CHECKPOINT, ROWS}:
            raise InputError(
                f"{self.path} has the checkpoint of a run that did not end; go on with --resume, "
                "start afresh with --force, or give another --out."
            )
        if self._settings() != plain(settings):
            raise InputError(
                f"{self.path} has the results of another run ({', '.join(found)}); give another --out, "
                "or --force to replace them."
            )

    def _settings(self) -> Any:
        try:
            return json.loads((self / RUN).read_text())["settings"]
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, run: Finished, command: str, *, keep_checkpoint: bool = False, page: bool = False) -> None:
        """All files of the run, in place of those of another; `page`: also report.html."""
        figure = convergence_figure({run.result.algorithm.card.title: run.result.history}, picture_title(run))
        record = json.dumps(plain(describe(run, command)), indent=2, allow_nan=False) + "\n"
        kept = (CHECKPOINT, ROWS) if keep_checkpoint else ()
        with adding(self.path, RUN, set(FILES) - set(kept)) as folder:
            run.result.history.to_csv(folder / HISTORY)
            (folder / MODEL).write_bytes(model_file(run))
            (folder / PICTURE).write_bytes(png(figure))
            (folder / PARTITION).write_bytes(partition_file(run.mix))
            (folder / RUN).write_bytes(record.encode())
            if page:
                from dualfl.report.page import write_page

                write_page([folder])


def check_names(folder: Path, names: Iterable[str]) -> list[str]:
    """Those of our names that the folder has; one that is no file of ours is not to be lost."""
    found = [name for name in names if os.path.lexists(folder / name)]
    odd = [name for name in found if not (folder / name).is_file()]
    if odd:
        raise InputError(f"{folder / odd[0]} is not a file, and results have one of that name; give another --out.")
    return found


def picture_title(run: Finished) -> str:
    return f"{run.dataset.name}, {run.problem.N} clients, ridge {run.settings.ridge:g}"


def model_file(run: Finished) -> bytes:
    """theta and what it takes to use it on new rows: predictors are scale * x' theta[:-1] + theta[-1]."""
    data, buffer = run.dataset, io.BytesIO()
    arrays: dict[str, Any] = {
        "theta": run.result.model,
        "shape": np.array(run.result.shape),
        "classes": np.array(data.classes, dtype=np.str_),
        "scale": np.array(data.scale),
    }
    if data.center is not None and data.spread is not None:  # x = (raw - center) / spread
        arrays |= {"center": data.center, "spread": data.spread}
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def describe(run: Finished, command: str) -> dict[str, Any]:
    """Everything one needs to repeat the run, and what came of it."""
    result, last = run.result, run.result.history[-1]
    return {
        "command": command,
        "settings": run.settings,
        "algorithm": json.loads(result.algorithm.to_json()),
        THEORY: list(by_theory(run)),
        "constants": result.constants,
        "data": {
            "source": run.dataset.source,
            "rows": run.dataset.n,
            "features": run.dataset.features,
            "classes": list(run.dataset.classes),
            "scale": run.dataset.scale,
            "rows of each client": [f.n for f in run.problem.clients],
            "heterogeneity": run.mix.heterogeneity,
        },
        "local solver": solver_name(run),
        "results": {
            "stopped": result.stopped,
            **last._asdict(),
            "best energy": result.energy,
            "minimum": run.minimum,
            "minimum found by": run.reference,
            "relative error of the model": run.error,
            "certificate": result.certificate,
            "no certificate because": result.certificate_reason,
            "capped local solves": result.capped,
            "training accuracy": run.accuracy,
            "stages": list(run.stages),
        },
        "environment": environment(),
    }


def solver_name(run: Finished) -> str:
    from dualfl.solvers import default_solver

    given = run.problem.solvers[0]
    return repr(default_solver(run.problem.clients[0]) if given is None else given)


def environment() -> dict[str, Any]:
    packages = ("dualfl", "numpy", "scipy", "scikit-learn")
    return {
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in packages},
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "byte order": sys.byteorder,
        "kernels": kernels.describe(),
    }


def plain(value: Any) -> Any:
    """`value` as strict JSON has it: no dataclasses, no NumPy, null for what is not finite."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
