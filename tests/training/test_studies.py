"""A study runs from its command to its tables; runs are done once, never mixed, and compared pair by pair."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from pyanticip.cli import cli
from pyanticip.cli.generate import SUCCESSORS
from pyanticip.errors import FormatError, OptionError
from training.run.settings import seed_list
from training.studies import __main__ as studies
from training.studies.__main__ import RUNS, main, parser, perform, read, tables
from training.studies.geometric_bias import ARMS, CASES, Case

PUBLISHED = Path(__file__).resolve().parents[2] / "docs" / "experiments"


@pytest.fixture(scope="session")
def texts(tmp_path_factory):
    """A text to learn from and one to test on."""
    lines = (
        "the quick brown fox jumps over the lazy dog and runs to the river\n"
        "a child throws the ball and the dog catches it near the old tree\n"
        "foxes come back again as foxes do when the night is quiet and cold\n"
    )
    folder = tmp_path_factory.mktemp("texts")
    for name, repeats in (("learn.txt", 16), ("test.txt", 6)):
        (folder / name).write_text(lines * repeats)
    return folder / "learn.txt", folder / "test.txt"


class Dice:
    """A trial that costs nothing, and is interrupted at a seed."""

    def __init__(self, source="dice", stop=9):
        self.case, self.source, self.stop = "synthetic", source, stop

    def run(self, arm, seed):
        if seed == self.stop:
            raise KeyboardInterrupt
        return float(np.random.default_rng(seed).random()) + 1.0 - 0.5 * seed * (arm == "random"), 7


@pytest.fixture
def two(monkeypatch):
    """Two arms alone, one of each kind."""
    monkeypatch.setattr(studies, "ARMS", {name: ARMS[name] for name in ("geometric-self", "random")})
    monkeypatch.setattr(studies, "PAIRS", [("geometric-self", "random")])


def test_the_study_on_tokens(texts, tmp_path, capsys, monkeypatch, two):
    for name, case in CASES.items():
        monkeypatch.setitem(CASES, name, Case(case.length, 600, 4))
    words = ["geometric-bias", "--out", str(tmp_path / "runs"), "--seeds", "0"]
    with pytest.raises(OptionError, match="give --train and --test"):
        main([*words, "--train", str(texts[0])])
    assert not (tmp_path / "runs").exists()
    main(words)
    main([*words, "--train", str(texts[0]), "--test", str(texts[1])])
    lines = read(tmp_path / "runs")
    assert [(line.case, line.arm) for line in lines] == [
        (case, arm) for case in ("synthetic", "text") for arm in ("geometric-self", "random")
    ]
    for line in lines:
        assert 1.0 < line.figures["full"] < 6.0
    capsys.readouterr()
    main(words)
    assert capsys.readouterr() == (tables(lines) + "\n", "")


def test_runs_come_seed_by_seed_and_are_not_repeated(tmp_path, two):
    said = []
    with pytest.raises(KeyboardInterrupt):
        said.extend(perform(Dice(stop=1), tmp_path, [0, 1]))
    assert len(read(tmp_path)) == 2
    said = list(perform(Dice(), tmp_path, [0, 1]))
    assert [line.partition(":")[0] for line in said] == [
        "3/4 synthetic geometric-self seed 1", "4/4 synthetic random seed 1",
    ]  # fmt: skip
    found = read(tmp_path)
    assert len(found) == 4
    with pytest.raises(OptionError, match="other data"):
        list(perform(Dice(source="cards"), tmp_path, [3]))
    assert read(tmp_path) == found


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"arm": "plain"}',
        '{"case": "text", "arm": "odd", "seed": 0, "source": "", "figures": {"full": 1}, "parameters": 1, '
        '"cpu_seconds": 1}',
    ],
)
def test_a_line_that_is_no_run_is_named(tmp_path, text, two):
    list(perform(Dice(), tmp_path, [0]))
    with (tmp_path / RUNS).open("a") as file:
        file.write(text + "\n")
    with pytest.raises(
        FormatError, match=r"runs\.jsonl, line 3: not a run of 'Does the geometric bias help\?'"
    ):
        read(tmp_path)


def test_the_tables_pair_by_seed(tmp_path, two):
    list(perform(Dice(), tmp_path, [2, 0, 1]))
    # Of 0, .5 and 1; Student's t with two degrees of freedom: 4.303 standard errors of .5 / sqrt(3).
    row = next(line for line in tables(read(tmp_path)).splitlines() if " less " in line)
    assert row.endswith(" | +0.5000 (-0.7421 to +1.7421) |")


def test_published_runs_say_what_their_page_says():
    folder = PUBLISHED / "geometric-bias"
    assert tables(read(folder)) in (folder / "page.md").read_text()


def commands():
    """Every ``python -m training.studies NAME ...`` of the pages, without its comment."""
    pages = [*PUBLISHED.parent.glob("*.md"), *PUBLISHED.glob("*/page.md")]
    found = [
        re.findall(r"^ *python -m training\.studies ([^#\n]+)", p.read_text(), re.MULTILINE) for p in pages
    ]
    return sorted({line.strip() for lines in found for line in lines})


@pytest.mark.parametrize("line", commands())
def test_the_commands_of_the_pages_parse(line):
    assert seed_list(parser().parse_args(line.split()).seeds)


@pytest.mark.parametrize("command", SUCCESSORS)
def test_a_command_that_is_gone_names_its_successor(command: str) -> None:
    done = CliRunner().invoke(cli, [*command.split(), "--out", "somewhere"])
    assert done.exit_code == 2
    assert f"is no longer a command; use: {SUCCESSORS[command]}" in done.output
