"""How much is theory's momentum worth? DualFL with and without it, in one picture.

python examples/compare_momentum.py
"""

from dualfl import DualFL, convergence_figure, make_problem, reference, run

problem = make_problem("digits", clients=8, ridge=1e-2)
minimum = reference(problem)
histories = {}
for name, algorithm in {
    "rho = nu/L (theory)": DualFL(),
    "rho = 0 (no smoothness used)": DualFL(rho=0.0),
}.items():
    result = run(problem, algorithm, rounds=100, reference=minimum, progress=True)
    histories[name] = result.history
    print(f"{name:<30} error {result.history[-1].relative_error:.1e} after {result.rounds} rounds")

convergence_figure(histories, "digits, 8 clients").savefig("momentum.png", dpi=160)
print("picture: momentum.png")
