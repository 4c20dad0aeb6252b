"""`dualfl theory` on bad input; what it measures is tested in tests/theory."""

import pytest
from click.testing import CliRunner

from dualfl.cli import main


@pytest.mark.parametrize("only", ["", "  "])
def test_a_blank_name_is_refused_at_once(only):
    result = CliRunner().invoke(main, ["theory", "--only", only])
    assert result.exit_code == 2
    assert "is blank; give a part of a statement's name" in result.stderr
