"""Draws duality.png: what DualFL knows after each round, from above and from below.

python docs/images/duality.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import dualfl
from dualfl.colours import COLOURS

problem = dualfl.make_problem("digits", clients=8, partition="dirichlet:0.5", ridge=1e-2)
minimum = dualfl.reference(problem)
history = dualfl.run(problem, dualfl.DualFL(), rounds=40).history
rounds = [row.round for row in history if row.certificate is not None]
above = [row.energy for row in history if row.certificate is not None]
below = [row.energy - row.certificate for row in history if row.certificate is not None]

figure, axes = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
axes.fill_between(rounds, below, above, color=COLOURS[4], alpha=0.25, linewidth=0, label="the certificate")
axes.plot(rounds, above, color=COLOURS[0], label="energy of the model, $E(\\theta)$")
axes.plot(rounds, below, color=COLOURS[1], label="dual bound, $-E_d(\\xi)$")
axes.axhline(minimum, color="black", linestyle="--", linewidth=1, label="the minimum, $E^*$")
axes.set(xlabel="rounds", ylim=(minimum - 0.5, minimum + 0.5), xlim=(1, 40))
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
figure.savefig(Path(__file__).with_name("duality.png"), dpi=150)
