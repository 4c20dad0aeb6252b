"""What is measured, one module a question: `python -m benchmarks.NAME`, and `--help` says what NAME is about."""

import ast
import sys
from pathlib import Path


def _help() -> None:
    """For `python -m benchmarks.NAME --help`: what the module says of itself."""
    words = sys.orig_argv
    module = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
    file = Path(__file__).parent / f"{module.removeprefix('benchmarks.')}.py"
    if module.startswith("benchmarks.") and {"-h", "--help"} & set(sys.argv[1:]) and file.is_file():
        print(f"python -m {module}\n\n{ast.get_docstring(ast.parse(file.read_text(encoding='utf-8')))}")
        sys.exit()


_help()
