"""A study runs from its command to its tables; runs are done once, never mixed, and compared pair by pair."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from pyanticip.cli import cli
from pyanticip.cli.generate import SUCCESSORS
from pyanticip.errors import FormatError, OptionError
from training.run.settings import seed_list
from training.studies import runs
from training.studies.__main__ import main, parser
from training.studies.geometric_bias import ARMS, PAIRS, Options
from training.studies.runs import RUNS, perform, read, report

PUBLISHED = Path(__file__).resolve().parents[3] / "docs" / "experiments"
BOTH = {"cases": ["synthetic"], "arms": ["plain", "random"]}


class Dice:
    """A trial that costs nothing, and is interrupted where it is to learn no tokens at all."""

    def __init__(self, options, case, folder):
        self.tokens, self.source = options.tokens, str(options.train)

    def run(self, arm, seed):
        if not self.tokens:
            raise KeyboardInterrupt
        noise = float(np.random.default_rng(seed).random())
        return {"figures": {"full": noise + 1.0 - 0.5 * seed * (arm == "random")}, "parameters": 7}


@pytest.fixture
def dice(monkeypatch):
    monkeypatch.setattr(runs, "Trial", Dice)


def test_the_study_on_tokens(texts, tmp_path, capsys):
    words = ["geometric-bias", "--seeds", "0", "--tokens", "600", "--batch-tokens", "512", "--windows", "4"]
    words += ["--d-model", "16", "--ff", "16"]
    arms = "geometric-self,plain"
    of = ["--train", str(texts[0]), "--test", str(texts[1]), "--arms", arms]
    main([*words, *of, "--out", str(tmp_path)])
    lines = read(tmp_path)
    assert [(line["case"], line["arm"]) for line in lines] == [
        (case, arm) for case in ("text", "synthetic") for arm in arms.split(",")
    ]
    for line in lines:
        assert 1.0 < line["figures"]["full"] < 6.0
    assert "**Synthetic**" in capsys.readouterr().out
    with pytest.raises(OptionError, match="give train and test"):
        main([*words, "--out", str(tmp_path / "none"), "--cases", "text"])
    assert not (tmp_path / "none").exists()


def test_the_study_is_listed(capsys):
    main(["geometric-bias", "--list"])
    shown = capsys.readouterr().out
    assert all(f"  {arm} " in shown for arm in ARMS)
    assert {arm for pair in PAIRS for arm in pair} <= set(ARMS)


def test_runs_come_seed_by_seed_and_are_not_repeated(tmp_path, dice):
    said = []
    assert perform(Options(tokens=9), tmp_path, **BOTH, seeds=[0, 1], say=said.append) == {
        "done": 4,
        "kept": 0,
    }
    found = read(tmp_path)
    order = [("plain", 0), ("random", 0), ("plain", 1), ("random", 1)]
    assert [(line["arm"], line["seed"]) for line in found] == order
    assert {json.dumps(line["options"]) for line in found} == {'{"tokens": 9}'}
    assert said[0].startswith("1/4 synthetic plain seed 0: ")
    assert perform(Options(tokens=9), tmp_path, **BOTH, seeds=[0, 1, 2]) == {"done": 2, "kept": 4}
    assert read(tmp_path)[: len(found)] == found
    with pytest.raises(OptionError, match=r"done with tokens=9, not 1000000: use another folder"):
        perform(Options(), tmp_path, **BOTH)
    with pytest.raises(OptionError, match="other data"):
        perform(Options(train=Path("b"), tokens=9), tmp_path, **BOTH, seeds=[3])
    assert len(read(tmp_path)) == len(found) + 2


def test_a_study_that_never_ran_leaves_no_folder(tmp_path, dice):
    out, said = tmp_path / "runs", []
    with pytest.raises(KeyboardInterrupt):
        perform(Options(tokens=0), out, **BOTH, say=said.append)
    assert not out.exists()
    assert said == ["interrupted; runs that were finished are kept, and the same command goes on"]
    with pytest.raises(OptionError, match=r"arm: expected one of plain, alibi, .*, given 'magic'"):
        perform(Options(), out, arms=["magic"])
    with pytest.raises(FormatError, match="no runs of"):
        report(out)
    out.write_text("")
    with pytest.raises(OptionError, match="is a file; give a folder"):
        perform(Options(), out)


@pytest.mark.parametrize(
    "text", ["{", '{"arm": "plain"}', '{"case": "text", "arm": "odd", "seed": 0, "figures": {"full": 1}}']
)
def test_a_line_that_is_no_run_is_named(tmp_path, text, dice):
    perform(Options(), tmp_path, **BOTH)
    with (tmp_path / RUNS).open("a") as file:
        file.write(text + "\n")
    with pytest.raises(
        FormatError, match=r"runs\.jsonl, line 3: not a run of 'Does the geometric bias help\?'"
    ):
        read(tmp_path)


def test_the_report_pairs_by_seed(tmp_path, dice):
    perform(Options(), tmp_path, cases=["synthetic"], arms=["random", "none"], seeds=range(3))
    gap = report(tmp_path)["differences"]["synthetic"]["none less random"]["loss"]
    # Of 0, .5 and 1; Student's t with two degrees of freedom: 4.303 standard errors.
    assert gap["mean"] == pytest.approx(0.5)
    assert gap["high"] - gap["mean"] == pytest.approx(4.303 * 0.5 / 3**0.5, abs=1e-3)
    page = (tmp_path / "page.md").read_text()
    (tmp_path / "page.md").write_text(page + "\nwritten by hand\n")
    report(tmp_path)
    assert (tmp_path / "page.md").read_text() == page + "\nwritten by hand\n"
    assert (tmp_path / "page.png").read_bytes()[:4] == b"\x89PNG"


def test_published_runs_say_what_their_page_says():
    folder = PUBLISHED / "geometric-bias"
    assert report(folder, page=False)["tables"].strip() in (folder / "page.md").read_text()


def commands():
    """Every ``python -m training.studies NAME ...`` of the pages, without its comment."""
    pages = [*PUBLISHED.parent.glob("*.md"), *PUBLISHED.glob("*/page.md")]
    found = [
        re.findall(r"^ *python -m training\.studies ([^#\n]+)", p.read_text(), re.MULTILINE) for p in pages
    ]
    return sorted({line.strip() for lines in found for line in lines})


@pytest.mark.parametrize("line", commands())
def test_the_commands_of_the_pages_parse(line):
    given = parser().parse_args(line.split())
    assert seed_list(given.seeds)
    assert set(filter(None, given.arms.split(","))) <= set(ARMS)


@pytest.mark.parametrize("command", SUCCESSORS)
def test_a_command_that_is_gone_names_its_successor(command: str) -> None:
    done = CliRunner().invoke(cli, [*command.split(), "--out", "somewhere"])
    assert done.exit_code == 2
    assert f"is no command any more, but: {SUCCESSORS[command]}" in done.output
