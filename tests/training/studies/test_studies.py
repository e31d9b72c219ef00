"""Every study runs from its command to its tables, on next to nothing; a command that is gone names it."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from pyanticip.cli import cli
from pyanticip.cli.generate import SUCCESSORS
from pyanticip.errors import OptionError
from training.run.settings import seed_list
from training.studies import body_forecast, geometry_motion, page
from training.studies.__main__ import main, names, parser_of, study_of
from training.studies.engine import read
from training.studies.page import report
from training.teacher.kinematics import positions

PUBLISHED = Path(__file__).resolve().parents[3] / "docs" / "experiments"


def run(name, out, *words):
    main([name, "--out", str(out), "--seeds", "0", *map(str, words)])
    return read(out, study_of(name))


@pytest.fixture
def small(monkeypatch):
    """Motion models of next to no size."""
    sizes = {"slow_layers": 1, "fast_layers": 1, "control_hidden": 16, "pools": 4}
    monkeypatch.setattr(geometry_motion, "SIZES", {**geometry_motion.SIZES, **sizes})


def test_the_study_on_motion(takes, tmp_path, small, capsys):
    words = ("--data", takes, "--steps", 2, "--batch-frames", 160, "--copies", 1, "--d-model", 28, "--ff", 24)
    lines = run("geometry-motion", tmp_path, *words, "--arms", "trajectory,input")
    shown = capsys.readouterr().out
    mine = {line["arm"]: line for line in lines if line["seed"] == 0}
    assert list(mine) == ["trajectory", "input"]
    told = {"steps": 2, "batch_frames": 160, "copies": 1, "d_model": 28, "ff": 24}
    for line in lines:
        assert line["options"] == told
        assert set(line["figures"]) == {"validation", "test"}
        assert set(line["figures"]["validation"]) == {"06", "35"}
    for arm, line in mine.items():
        assert {"error", "event_nll", "scalar_error", "onset"} <= set(line["figures"]["validation"]["06"])
        assert f"| {arm} | 1 | {line['parameters']:,} |" in shown
    assert "nan" not in shown


def test_arms_on_motion_have_as_many_parameters(takes, tmp_path):
    ground = object.__new__(geometry_motion.MotionGround)
    ground.plain = geometry_motion.MotionOptions(data=takes).plain(tmp_path)
    arms = geometry_motion.ARMS
    counts = {arm: geometry_motion.parameters(ground.options(arm, 3).config()) for arm in arms}
    assert max(counts.values()) == pytest.approx(min(counts.values()), rel=0.02)


def test_the_study_on_bodies_that_are_foreseen(takes, tmp_path, capsys):
    lines = run("body-forecast", tmp_path, "--data", takes, "--moments", 3)
    shown = capsys.readouterr().out
    errors = {line["arm"]: line["figures"] for line in lines}
    assert list(errors) == ["model", "body", "mixed", "later"]
    assert "| mixed | 1 |" in shown
    for unit, row in errors["model"].items():
        assert unit.rpartition(", ")[2] in ("06", "35")
        # Of the body foreseen in 100 ms the model says now what it says ahead of this one, by and by.
        assert errors["later"][unit]["100"] < row["100"] + errors["body"][unit]["100"]
        assert all(0.0 < error < 4.0 for arm in errors.values() for error in arm[unit].values())


def test_bodies_turn_to_where_their_joints_are():
    rng = np.random.default_rng(0)
    local = rng.normal(size=(5, 22, 4)) * 0.1 + (1.0, 0.0, 0.0, 0.0)
    local /= np.linalg.norm(local, axis=-1, keepdims=True)
    there = positions(local, upright=True)
    world = body_forecast.turned(there, np.broadcast_to((1.0, 0.0, 0.0, 0.0), local.shape))
    assert positions(body_forecast._local(world), upright=True) == pytest.approx(there, abs=1e-6)


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
    assert len(names()) == 3
    for name in names():
        study = study_of(name)
        main([name, "--list"])
        shown = capsys.readouterr().out
        assert all(f"  {arm} " in shown for arm in study.arms)
        assert {arm for pair in study.pairs for arm in pair} <= set(study.arms)


def published():
    """The pages of runs by the study that made them, of those that there still are."""
    folders = {file.parent for file in PUBLISHED.glob("*/runs.jsonl")}
    by = {folder: folder.name.removesuffix("-longer").removesuffix("-full") for folder in sorted(folders)}
    return [(folder, name) for folder, name in by.items() if name in names()]


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
