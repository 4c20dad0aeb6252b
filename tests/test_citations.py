"""Whoever uses an algorithm can cite it: every card has its paper, and the documents name the same one."""

import re
from pathlib import Path

import pytest

import dualfl
from dualfl.algorithms.registry import ALGORITHMS

ROOT = Path(__file__).parent.parent
OWN = {"auto", "sketched-newton", "fedipm", "one-shot", "local-secants"}  # not published, or older than papers
DEPENDENCIES = re.search(
    r"^dependencies = \[(?:.*)\n(.*?)^\]",
    (ROOT / "pyproject.toml").read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)[1]
PAPER = re.compile(r"arXiv:\d{4}\.\d{4,5}|doi:10\.\d{4,}/\S+|https://jmlr\.org/papers/\S+")


@pytest.mark.parametrize("name", list(ALGORITHMS.own))
def test_every_card_has_its_paper(name):
    card = ALGORITHMS.own[name].card
    assert bool(PAPER.fullmatch(card.paper)) != (name in OWN), card.paper
    assert card.link.startswith("https://") or name in OWN


def test_a_link_is_an_address():
    assert dualfl.DualFL.card.link == "https://arxiv.org/abs/2305.10294"
    assert ALGORITHMS.own["lbfgs"].card.link == "https://doi.org/10.1007/BF01589116"
    assert ALGORITHMS.own["auto"].card.link == ""


def test_the_documents_cite_the_same_paper():
    for file in ("CITATION.cff", "docs/cite.md", "docs/duality.md"):
        assert dualfl.DualFL.card.paper.removeprefix("arXiv:") in (ROOT / file).read_text(encoding="utf-8")


def test_the_recipe_asks_for_what_the_package_asks_for():
    wanted = {line.split("#")[0].strip(' ",') for line in DEPENDENCIES.splitlines()} - {""}
    recipe = (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8").replace("matplotlib-base", "matplotlib")
    for each in wanted:
        assert f"- {each.replace('>=', ' >=')}\n" in recipe, each
