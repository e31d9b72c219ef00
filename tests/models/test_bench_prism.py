"""``bench prism`` on a small case: what it reports, not how fast it is."""

import json

import pytest
from click.testing import CliRunner

from pyanticip.cli import cli


@pytest.mark.slow
def test_the_forms_agree_and_are_timed():
    options = "--seconds 1 --batch 2 --length 12 --places 9 --cursors 5 --copy --threads 0"
    done = CliRunner().invoke(cli, ["bench", "prism", *options.split(), "--json"])
    assert done.exit_code == 0, done.output
    result = json.loads(done.output)
    slow = {"scan in a loop", "both in a loop", "all in a loop", "its loop"}
    assert set(result["forms"]) == {"fused", "the kernel alone", *slow}
    for times in result["forms"].values():
        assert times["training_ms"]["p50"] > 0
        assert times["forward_ms"]["p50"] > 0
    assert set(result["faster"]) == slow
    for name, found in result["differences"].items():
        bound = 1e-10 if name.endswith("double") and "loop" not in name else 1e-5
        assert found["values"] <= bound
        assert found["gradients"] <= bound
    assert result["cursors"] == 10
    assert result["runs"] >= 3


def test_a_table_is_shown_and_bad_sizes_are_refused():
    done = CliRunner().invoke(cli, ["bench", "prism", "--places", "2"])
    assert done.exit_code == 2
    assert "--places" in done.output
