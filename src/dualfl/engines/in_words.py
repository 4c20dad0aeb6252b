"""A result in words: what ran, what it cost, how good the model is, and why the run ended."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from dualfl.engines.history import Row
from dualfl.lines import titled

if TYPE_CHECKING:
    from dualfl.engines.result import Result

STOPPED = {
    "rounds": "that was the limit",
    "tol": "the tolerance is reached",
    "time": "the time was up",
    "interrupted": "interrupted",
    "diverged": "the iterates diverged",
    "contradiction": "the clients' answers contradict each other",
}


def result_in_words(result: Result) -> str:
    """What `print(result)` shows."""
    rounds = f"{result.rounds:,} round{'' if result.rounds == 1 else 's'}"
    energy = "not evaluated" if result.energy is None else f"E = {result.energy:.12g}"
    return titled(
        f"Result of {result.algorithm.name}: {rounds}, {STOPPED.get(result.stopped, result.stopped)}",
        [
            ("chosen", result.choice),
            ("parameters", parameters(result.algorithm)),
            *(work_lines(result.history[-1]) if len(result.history) else []),
            ("energy", energy),
            ("certificate", certificate_line(result.certificate, result.energy, result.certificate_reason)),
            ("model", f"{' x '.join(f'{n:,}' for n in result.shape)} coefficients: .model, and flat .theta"),
        ],
    )


def parameters(algorithm: Any) -> str:
    """Every hyperparameter that has a value."""
    given = {field.name: getattr(algorithm, field.name) for field in dataclasses.fields(algorithm)}
    shown = {k: f"{v:.4g}" if isinstance(v, float) else str(v) for k, v in given.items() if v is not None}
    return ", ".join(f"{name} = {text}" for name, text in shown.items())


def work_lines(last: Row) -> list[tuple[str, str]]:
    return [
        ("exchanges", f"{last.exchanges:,}, with {last.contacts:,} contacts of clients"),
        ("floats", f"{last.floats_up:,} up, {last.floats_down:,} down, all clients"),
        ("local work", f"{last.local_gradients:,.0f} gradients in {last.seconds:.2f} s"),
    ]


def certificate_line(certificate: float | None, energy: float | None, reason: str) -> str:
    if certificate is None:
        return f"none: {reason}"
    share = f" = {certificate / abs(energy):.1e} |E|" if energy else ""
    return f"E - E* <= {certificate:.2e}{share}, proven, without knowing E*"
