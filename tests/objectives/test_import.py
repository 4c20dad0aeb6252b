"""What an import brings along, in a process of its own."""

import json
import subprocess
import sys

import pytest

HEAVY = ("torch", "jax", "matplotlib", "plotly", "sklearn")
CODE = """
import json, sys, time
start = time.perf_counter()
import {module}
seconds = time.perf_counter() - start
print(json.dumps([seconds, sorted(set(sys.modules) & set({heavy!r}))]))
"""


@pytest.mark.parametrize("module", ["dualfl", "dualfl.objectives"])
def test_import_is_light(module):
    code = CODE.format(module=module, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, heavy = json.loads(done.stdout)
    print(f"import {module}: {seconds:.2f} s")
    assert heavy == []


@pytest.mark.parametrize(
    ("library", "build", "sentence"),
    [
        ("torch", "TorchFunction(None, None)", "TorchFunction needs PyTorch, which is not installed; "),
        ("jax", "JaxFunction(None, 2)", "JaxFunction needs JAX, which is not installed; "),
    ],
)
def test_a_missing_library_is_named(library, build, sentence):
    code = (
        f"import sys; sys.modules[{library!r}] = None\n"
        "from dualfl.errors import NotSupported\n"
        "from dualfl.objectives import TorchFunction, JaxFunction\n"
        f"try: {build}\n"
        "except NotSupported as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{sentence}pip install dualfl[{library}]."
