"""The demo: DualFL on the digits of scikit-learn, split among 8 clients, with hyperparameters from theory."""

from __future__ import annotations

from dualfl.experiments.single import Settings

DEMO = Settings(dataset="digits", clients=8, ridge=1e-2, algorithm="dualfl", rounds=150)
