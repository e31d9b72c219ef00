"""The command line names the study that took over from a command."""

import pytest
from click.testing import CliRunner

from pyanticip.cli import cli
from pyanticip.cli.generate import STUDIES


@pytest.mark.parametrize("command", STUDIES)
def test_a_command_that_became_a_study_says_which(command: str) -> None:
    done = CliRunner().invoke(cli, [*command.split(), "--out", "somewhere"])
    assert done.exit_code == 2
    assert f"is a study now: python -m training.studies {STUDIES[command]}" in done.output
