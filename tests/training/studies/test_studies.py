"""Every study runs from its command to its tables, on next to nothing; a command that is gone names it."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from pyanticip.cli import cli
from pyanticip.cli.generate import SUCCESSORS
from pyanticip.errors import OptionError
from training.run.settings import seed_list
from training.studies import page
from training.studies.__main__ import main, names, parser_of, study_of
from training.studies.engine import read
from training.studies.page import report

PUBLISHED = Path(__file__).resolve().parents[3] / "docs" / "experiments"


def run(name, out, *words):
    main([name, "--out", str(out), "--seeds", "0", *map(str, words)])
    return read(out, study_of(name))


def test_the_study_on_tokens(texts, tmp_path, capsys):
    name, arms = "geometric-bias", "geometric-self,plain"
    words = ("--tokens", 600, "--batch-tokens", 512, "--windows", 4, "--d-model", 16, "--ff", 16)
    lines = run(name, tmp_path, *words, "--train", texts[0], "--test", texts[1], "--arms", arms)
    assert [(line["case"], line["arm"]) for line in lines] == [
        (case, arm) for case in ("text", "synthetic") for arm in arms.split(",")
    ]
    for line in lines:
        assert 1.0 < line["figures"]["full"] < 6.0
    assert "**Synthetic**" in capsys.readouterr().out
    with pytest.raises(OptionError, match="give train and test"):
        run(name, tmp_path / "none", "--cases", "text")
    assert not (tmp_path / "none").exists()


def test_every_study_can_be_listed(capsys):
    assert names()
    for name in names():
        study = study_of(name)
        main([name, "--list"])
        shown = capsys.readouterr().out
        assert all(f"  {arm} " in shown for arm in study.arms)
        assert {arm for pair in study.pairs for arm in pair} <= set(study.arms)


def published():
    """The pages of runs, and the study that made them, of those that there still are."""
    folders = sorted(file.parent for file in PUBLISHED.glob("*/runs.jsonl"))
    return [(folder, folder.name) for folder in folders if folder.name in names()]


@pytest.mark.parametrize(("folder", "name"), published(), ids=lambda each: getattr(each, "name", each))
def test_published_runs_say_what_their_page_says(folder, name, monkeypatch):
    monkeypatch.setattr(page, "DRAWS", 10)
    tables = report(study_of(name), folder, page=False)["tables"]
    shown = (folder / "page.md").read_text()
    cells = re.findall(r"-?\d+\.\d+ ± \d+\.\d+", tables)
    known = [cell for cell in cells if cell in shown]
    assert len(known) >= 0.5 * len(cells) > 0, sorted(set(cells) - set(known))[:20]


def commands():
    """Every ``python -m training.studies NAME ...`` of the pages, without its comment."""
    pages = [*PUBLISHED.parent.glob("*.md"), *PUBLISHED.glob("*/page.md")]
    found = [
        re.findall(r"^ *python -m training\.studies ([^#\n]+)", p.read_text(), re.MULTILINE) for p in pages
    ]
    return sorted({line.strip() for lines in found for line in lines})


@pytest.mark.parametrize("line", commands())
def test_the_commands_of_the_pages_parse(line):
    name, *words = line.split()
    study = study_of(name)
    given = parser_of(name, study).parse_args(words)
    assert seed_list(given.seeds)
    assert set(filter(None, given.arms.split(","))) <= set(study.arms)


@pytest.mark.parametrize("command", SUCCESSORS)
def test_a_command_that_is_gone_names_its_successor(command: str) -> None:
    done = CliRunner().invoke(cli, [*command.split(), "--out", "somewhere"])
    assert done.exit_code == 2
    assert f"is no command any more, but: {SUCCESSORS[command]}" in done.output
