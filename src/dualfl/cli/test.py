"""`dualfl test`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from dualfl.errors import InputError

if TYPE_CHECKING:
    from dualfl.estimators.statistics import TestResult
    from dualfl.fits.kept import Kept


@click.command("test")
@click.argument("folders", nargs=-1, required=True, metavar="MODEL...", type=click.Path(path_type=Path))
@click.option("--terms", multiple=True, metavar="A,B", help="Test only these columns or coefficients; repeatable.")
@click.option("--together", is_flag=True, help="Test all of --terms jointly.")
def test_command(folders: tuple[Path, ...], terms: tuple[str, ...], together: bool) -> None:
    """Test models that `dualfl fit` wrote.

    With two folders, the smaller model first: the likelihood-ratio test.
    The models must be nested, and fitted without a penalty to the same rows.
    With one folder: for each column, Wald's test that all of its
    coefficients are zero.

    \b
    Examples:
      dualfl test crude adjusted
      dualfl test model
      dualfl test model --terms smoker,ward --together
    """
    from dualfl.fits.kept import kept

    found = [kept(folder) for folder in folders]
    if len(found) > 2:
        raise InputError(f"Give one model, or a smaller and a larger one; {len(found)} were given.")
    if len(found) == 2:
        if terms or together:
            raise InputError("--terms and --together are for one model; leave them out, or give one folder.")
        click.echo(ratio_text(*found))
        return
    click.echo(wald_text(found[0], [name.strip() for text in terms for name in text.split(",")], together))


def ratio_text(small: Kept, large: Kept) -> str:
    from dualfl.fits.testing_models import likelihood_ratio, number
    from dualfl.lines import p_value

    result = likelihood_ratio(small, large)
    more = [name for name in large.model.schema.names if name not in small.model.schema.names]
    lines = [f"likelihood ratio of {small.folder} and {large.folder}", ""]
    lines += [f"{one.folder}: log-likelihood {number(one, 'log-likelihood'):.8g}" for one in (small, large)]
    lines.append(f"{large.folder} has beside: {', '.join(more[:8])}{', ...' if len(more) > 8 else ''}")
    return "\n".join([*lines, "", f"chi-square {result.statistic:.6g} on {result.df} df, p {p_value(result.p)}"])


def wald_text(one: Kept, terms: list[str], together: bool) -> str:
    from dualfl.fits.testing_models import term_names, wald
    from dualfl.lines import table

    found = term_names(one, [term for term in terms if term])
    if together:
        names = tuple(dict.fromkeys(name for names in found.values() for name in names))
        found = {", ".join(found): names}
    rows = [[term, *numbers(wald(one, names))] for term, names in found.items()]
    law = "F" if np.isfinite(one.df) else "chi-square"
    return "\n".join([f"Wald tests of {one.folder}", "", *table(["term", law, "df", "p"], rows)])


def numbers(result: TestResult) -> list[str]:
    from dualfl.lines import p_value

    if np.isinf(result.df_error):
        return [f"{result.statistic:.4g}", f"{result.df}", p_value(result.p)]
    return [f"{result.statistic / result.df:.4g}", f"{result.df}, {result.df_error:.4g}", p_value(result.p)]
