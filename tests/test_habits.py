"""What people expect to find in a repository: it is there, it is well formed, and it says what is done."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from dualfl.version import __version__

ROOT = Path(__file__).parent.parent
WORKFLOW = ROOT / ".github" / "workflows" / "tests.yml"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
TITLE = (
    "DualFL: A Duality-based Federated Learning Algorithm with Communication Acceleration in the General Convex Regime"
)
schemas = pytest.mark.skipif(
    find_spec("check_jsonschema") is None and os.environ.get("CI") != "true",
    reason="needs check-jsonschema: pip install 'dualfl[dev]'",
)


def yaml(path):
    from ruamel.yaml import YAML  # comes with check-jsonschema

    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


def check(schema, path):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(path)]
    return subprocess.run(command, capture_output=True, text=True)


@schemas
@pytest.mark.parametrize(
    ("schema", "path"),
    [
        *(("github-workflows", path) for path in sorted((ROOT / ".github" / "workflows").iterdir())),
        ("citation-file-format", ROOT / "CITATION.cff"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_files_have_the_form_that_others_expect(schema, path, tmp_path):
    done = check(schema, path)
    assert done.returncode == 0, done.stdout + done.stderr
    text = path.read_text(encoding="utf-8")
    broken = tmp_path / path.name
    broken.write_text(text.replace("runs-on:", "run-on:").replace("authors:", "author:"), encoding="utf-8")
    assert check(schema, broken).returncode == 1  # the check sees what it is for


@schemas
def test_the_workflow_runs_on_linux_what_ci_runs():
    jobs = yaml(WORKFLOW)["jobs"]
    assert [step["run"] for step in jobs["linux"]["steps"] if "run" in step] == [".ci/run"]
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100, ".ci/run can be executed"


@schemas
def test_the_workflow_covers_every_python_and_every_system():
    jobs = yaml(WORKFLOW)["jobs"]
    assert PROJECT["project"]["requires-python"] == f">={PYTHONS[0]}"
    assert jobs["linux"]["strategy"]["matrix"]["python"] == PYTHONS
    assert jobs["elsewhere"]["strategy"]["matrix"] == {"system": ["macos-latest", "windows-latest"], "python": PYTHONS}
    names = [f"cp{python.replace('.', '')}" for python in PYTHONS]
    oldest = names[0]  # its stable ABI serves all later ones, which test the wheel that it built
    assert PROJECT["tool"]["cibuildwheel"]["build"] == " ".join(f"{name}-*" for name in names)
    assert f'"py_limited_api": "{oldest}"' in (ROOT / "setup.py").read_text(encoding="utf-8")
    systems = " ".join(jobs["wheels"]["strategy"]["matrix"]["system"])
    assert all(system in systems for system in ("ubuntu", "macos", "windows"))


@schemas
def test_hooks_are_the_commands_of_make():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^(?:lint|types):.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    made = [
        line.strip().removeprefix("$(VENV)/bin/").removesuffix(" .") for lines in targets for line in lines.splitlines()
    ]
    repositories = yaml(ROOT / ".pre-commit-config.yaml")["repos"]
    assert [repository["repo"] for repository in repositories] == ["local"], "nothing is fetched"
    hooks = repositories[0]["hooks"]
    assert {hook["language"] for hook in hooks} == {"system"}
    hooked = [hook["entry"].removesuffix(" --force-exclude") for hook in hooks]
    assert sorted(hooked) == sorted(made) and len(made) >= 4


@schemas
def test_the_citation_is_of_the_paper():
    cited = yaml(ROOT / "CITATION.cff")
    paper = cited["preferred-citation"]
    assert paper["title"] == TITLE
    assert [author["family-names"] for author in paper["authors"]] == ["Park", "Xu"]
    assert paper["year"] == 2023 and cited["license"] == PROJECT["project"]["license"]
    assert "version" not in cited, "the version stands in src/dualfl/version.py alone"


def test_the_version_stands_in_one_place():
    """Not in a file that was written by an earlier version, and not in the changelog, which names all of them."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode or not listed.stdout:
        pytest.skip("this is no clone of the repository")
    assert PROJECT["project"]["dynamic"] == ["version"]
    holders = []
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if not path.is_file() or path.suffix in (".zip", ".npz", ".png") or name.startswith(("results/", "CHANGELOG")):
            continue
        if re.search(
            rf"(?<![\d.]){re.escape(__version__)}(?![\d.])", path.read_text(encoding="utf-8", errors="ignore")
        ):
            holders.append(name)
    assert holders == ["src/dualfl/version.py"]


def test_links_of_the_pages_at_the_root_lead_somewhere():
    for page in ("README.md", "CONTRIBUTING.md", "SECURITY.md"):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text(encoding="utf-8")):
            assert (ROOT / target).exists(), f"{page} points to {target}"
