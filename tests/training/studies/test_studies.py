"""Every study runs from its command to its tables, on next to nothing; a command that is gone names it."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from pyanticip.cli import cli
from pyanticip.cli.generate import SUCCESSORS
from pyanticip.errors import OptionError
from training.data.examples import Example
from training.data.glitches import KINDS
from training.run.settings import seed_list
from training.studies import commitment_gate, on_motion, page
from training.studies.__main__ import main, names, parser_of, study_of
from training.studies.engine import read
from training.studies.on_glitches import AFTERMATH, auc, corrupted
from training.studies.page import report

PUBLISHED = Path(__file__).resolve().parents[3] / "docs" / "experiments"
MOTION = ("geometry-motion", "motion-positions", "motion-risk", "motion-plan")


def run(name, out, *words):
    main([name, "--out", str(out), "--seeds", "0", *map(str, words)])
    return read(out, study_of(name))


@pytest.fixture
def small(monkeypatch):
    """Motion models of next to no size."""
    sizes = {"slow_layers": 1, "fast_layers": 1, "control_hidden": 16, "pools": 4}
    monkeypatch.setattr(on_motion, "SIZES", {**on_motion.SIZES, **sizes})


@pytest.mark.parametrize(
    ("name", "arms", "figures"),
    [
        ("geometry-motion", "trajectory,input", {"error", "event_nll", "onset"}),
        ("motion-positions", "none,prism", {"error", "scalar_error"}),
        ("motion-risk", "plain,risk", {"clean", *KINDS}),
        ("motion-plan", "plain,plan", {"error", "degrees.1000"}),
    ],
)
def test_a_study_on_motion(name, arms, figures, takes, tmp_path, small, capsys):
    words = ("--data", takes, "--steps", 2, "--batch-frames", 160, "--copies", 1, "--d-model", 28, "--ff", 24)
    lines = run(name, tmp_path, *words, "--arms", arms)
    shown = capsys.readouterr().out
    mine = {line["arm"]: line for line in lines if line["seed"] == 0}
    assert list(mine) == arms.split(",")
    for line in lines:
        assert set(line["figures"]) == {"validation", "test"}
        assert set(line["figures"]["validation"]) == {"06", "35"}
    for arm, line in mine.items():
        assert figures <= set(line["figures"]["validation"]["06"])
        assert f"| {arm} | 1 | {line['parameters']:,} |" in shown
    assert "nan" not in shown
    if name == "motion-plan":
        plan = mine["plan"]["figures"]["validation"]["35"]
        assert plan["kl"] > 0.0
        assert plan["error"] != plan["blind"]["error"] != plan["true"]["error"]
    if name == "motion-risk":
        told = {"steps": 2, "batch_frames": 160, "copies": 1, "d_model": 28, "ff": 24}
        assert all(line["options"] == told for line in lines)
        assert any(key.startswith("auc.") for key in mine["risk"]["figures"]["validation"]["06"])


@pytest.mark.parametrize("name", MOTION)
def test_arms_on_motion_have_as_many_parameters(name, takes, tmp_path):
    study = study_of(name)
    ground = object.__new__(on_motion.MotionGround)
    common = {"model": {"pose_horizons": [400, 1000]}} if name == "motion-plan" else {}
    ground.arms = study.arms
    ground.plain = study.options(data=takes).plain(tmp_path).but(**common)
    counts = {arm: on_motion.parameters(ground.options(arm, 3).config()) for arm in study.arms}
    assert max(counts.values()) == pytest.approx(min(counts.values()), rel=0.02)


@pytest.mark.parametrize(
    ("name", "arms"), [("geometric-bias", "geometric-self,plain"), ("slow-stride", "stride-2")]
)
def test_a_study_on_tokens(name, arms, texts, tmp_path, capsys):
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


def test_the_study_of_the_gate(tmp_path, monkeypatch, capsys):
    small = {"d_model": 16, "ff": 16, "fast_layers": 1, "slow_layers": 1, "window": 8}
    monkeypatch.setattr(commitment_gate, "MODEL", {**commitment_gate.MODEL, **small})
    words = ("--arms", "normal,shuffled", "--steps", 4, "--sequences", 32, "--windows", 6)
    first, second = run("commitment-gate", tmp_path, *words)
    assert 0.0 <= first["figures"]["std of the gate"] < 0.01, "a plain start is a constant"
    assert first["figures"] != second["figures"]
    assert "| normal less shuffled |" in capsys.readouterr().out


def test_every_study_can_be_listed(capsys):
    assert len(names()) == 7
    for name in names():
        study = study_of(name)
        main([name, "--list"])
        shown = capsys.readouterr().out
        assert all(f"  {arm} " in shown for arm in study.arms)
        assert {arm for pair in study.pairs for arm in pair} <= set(study.arms)


@pytest.fixture
def clip():
    """A clip whose joints turn at their own rates."""
    frames = 400
    angle = np.sin(np.arange(frames)[:, None] / (8.0 + np.arange(22)))
    quats = np.zeros((frames, 22, 4), dtype=np.float32)
    quats[..., 0], quats[..., 1] = np.cos(angle / 2), np.sin(angle / 2)
    features = np.ones((frames, 279), dtype=np.float32)
    params = np.linspace(0, 1, frames)[:, None].repeat(8, 1).astype(np.float32)
    none = np.array([], dtype=np.int64)
    return Example("clip", "06", quats, features, params, none, none)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_clip_is_always_the_same_and_is_taught_as_the_clean_one(clip, kind):
    root = np.zeros((len(clip), 3), dtype=np.float32)
    one, two = (corrupted(clip, root, kind) for _ in range(2))
    np.testing.assert_array_equal(one.example.features, two.example.features)
    np.testing.assert_array_equal(one.example.params, clip.params)
    np.testing.assert_array_equal(one.example.quats[~one.bad], clip.quats[~one.bad])
    assert one.bad.any()
    for frame in range(len(clip)):
        assert one.near[frame] == one.bad[max(frame - AFTERMATH, 0) : frame + 1].any()
    assert (corrupted(replace(clip, name="other"), root, kind).bad != one.bad).any()


def test_area_under_the_curve_is_the_chance_that_a_bad_frame_stands_out():
    rng = np.random.default_rng(0)
    values, bad = rng.integers(0, 6, 60).astype(float), rng.random(60) < 0.3
    pairs = values[bad][:, None] - values[~bad][None]
    assert auc(values, bad) == pytest.approx(((pairs > 0) + 0.5 * (pairs == 0)).mean())


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
    # These two pages show fewer columns, or other digits.
    least = {"commitment-gate": 0.09, "slow-stride": 0.14}.get(name, 0.5)
    assert len(known) >= least * len(cells) > 0, sorted(set(cells) - set(known))[:20]


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
