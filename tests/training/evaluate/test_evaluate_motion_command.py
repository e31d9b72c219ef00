"""``pyanticip evaluate motion``: the command, its report, and bad input."""

import errno
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from support.takes import pieces_of

from pyanticip.errors import CheckpointError, DeviceError, FormatError, OptionError
from pyanticip.models import load_motion_model
from pyanticip.models.checkpoint.manifest import SHIPPED
from training.data.examples import example_from_piece
from training.evaluate import beat, event_tuning, learned, motion, report, trackers
from training.evaluate.baselines import Baselines, Twins, answer, simple_forecasts
from training.evaluate.measures import LAGS_MS, beyond, interval, lag_profile, mean_error, ratio, tally
from training.evaluate.motion import evaluate
from training.evaluate.takes import Takes
from training.report import pages
from training.tasks.motion import baselines
from training.tasks.motion.scores import run_model


def once(draw):
    """Draw only once and reuse the picture, whose content is not tested here."""
    drawn = []
    return lambda *given: drawn[0] if drawn else drawn.append(draw(*given)) or drawn[0]


@pytest.fixture(autouse=True, scope="module")
def quick():
    """Few training steps, copies and bootstrap draws; pictures are drawn once."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("STEPS", 2), ("WINDOWS", 2), ("WINDOW", 60), ("COPIES", 1)):
            patch.setattr(learned, name, value)
        patch.setitem(interval.__kwdefaults__, "draws", 50)
        patch.setattr(beat, "DRAWS", 50)
        for name in ("ratios", "profiles"):
            patch.setattr(report, name, once(getattr(report, name)))
        yield


@pytest.fixture(scope="module")
def takes(piece_of, set_of, tmp_path_factory):
    """A set of synthetic pieces with descriptions."""
    sides = {
        "train": [piece_of(200, seed=s, subject=f"0{1 + s}") for s in range(2)],
        "validation": [piece_of(200, seed=7, subject="06"), piece_of(220, seed=8, subject="35")],
        "test": [piece_of(200, seed=n, subject="07") for n in (9, 10)],
    }
    words = {"m7": "walk", "m8": "dance - turn", "m9": "karate", "m10": "karate"}
    made = set_of(tmp_path_factory.mktemp("data") / "takes", sides, words)
    (made / "repeats.csv").write_text("person,a,b,ratio\n07,m9.bvh,m10.bvh,.2\n")
    return made


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def tested(takes, cache):
    """The report of the test split."""
    return evaluate(None, takes, "test", cache=cache)


SYSTEMS = ("without scalars", "mixed live, no memory", "mixed live with a memory", "memory without the model")


def named(found):
    return found | {"date": "2026-01-02", "command": "pyanticip evaluate motion", "looks": 3}


def test_a_report_holds_everything_and_stands_alone(tested, tmp_path):
    found = tested
    assert list(found["kinds"]) == ["martial art"]
    karate, again = found["kinds"]["martial art"], found["second_time"]["martial art"]
    assert (karate["people"], karate["clips"], again["clips"]) == (["07"], 2, 1)
    assert found["taught"] == ["01", "02"]
    assert len(found["simple"]) == 15
    assert found["learned"] == ["ridge", "autoregression", "GRU"]
    assert list(karate["rows"]) == ["ridge", "autoregression", "GRU", "model", *SYSTEMS]
    assert not any("held out" in line for line in found["warnings"])
    for row in karate["rows"].values():
        assert all(low <= high for low, high in zip(row["low"], row["high"], strict=True))
        assert all(0.0 <= value <= 1.0 for value in row["beyond"])
        assert set(row["verdict"]) <= {"ahead", "surer", "unclear", "no better", "worse"}
        assert all(count <= 2 for count in row["harmed"])
    assert again["rows"]["model"]["low"] is None  # of one clip
    assert {(row["who"], row["kind"]) for row in found["events"]} == {
        (who, "martial art") for who in ("model", "extrapolator")
    }
    files = report.write(named(found), tmp_path / "out")
    page = files[0].read_text()
    assert page.count("<img") == 2
    assert not re.search(r'(src|href)="(?!data:)', page)
    others = "learned from the training side of DATA (not those who taught this checkpoint)."
    titles = ("Harmed clips", "The second time through", "Events on the beat")
    counts = ("on 2 clips (8 s) of 1 person: 07.", "martial art: 1 person, 2 clips, 8 s")
    for words in ("looked at the test side 3 times", others, *titles, *counts):
        assert words in page, words
    assert json.loads((tmp_path / "out" / "report.json").read_text())["kinds"] == found["kinds"]
    pictures = list((tmp_path / "out").glob("*.png"))
    assert len(pictures) == 2
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)
    assert [path.name for path in report.write(named(found), tmp_path / "page.html")] == [
        "page.html",
        "page.json",
    ]
    written = report.write(named(found), tmp_path / "docs" / "results.md")
    assert [str(path.relative_to(tmp_path / "docs")) for path in written] == [
        "results.md",
        "results.json",
        "img/results-ratios.png",
        "img/results-lags.png",
    ]
    checkpoint = found["checkpoint"] | {"learned_from": ["01", "02"]}
    assert "which learned from the people that the model learned from." in report.markdown(
        named(found) | {"checkpoint": checkpoint}
    )
    links = re.findall(r"\]\((img/[^)]+)\)", written[0].read_text())
    assert all((tmp_path / "docs" / link).is_file() for link in links)
    assert len(links) == 2


def test_numbers_do_not_depend_on_the_run(takes, tested, cache):
    assert evaluate(None, takes, "test", cache=cache) == tested


def test_who_is_judged_does_not_teach_the_rivals(takes, cache):
    found = evaluate(None, takes, people=("01", "07"), cache=cache)
    assert found["split"] == "people"
    assert found["test_people"] == ["07"]
    assert found["taught"] == ["02"]
    expected = "this checkpoint learned from subject 01, who is judged here"
    assert found["warnings"][-1] == expected


def test_takes_at_a_wrong_rate_are_named_and_left_out(takes, monkeypatch, cache):
    monkeypatch.setattr(motion, "implausible", lambda quats, rate, kind: "too fast" * (len(quats) == 220))
    found = evaluate(None, takes, cache=cache)
    assert found["flagged"] == {"m8": "too fast"}
    assert list(found["kinds"]) == ["walking"]
    page = report.markdown(named(found))
    for words in (
        "Left out: m8: too fast",
        "on 1 clip (4 s) of 1 person: 06.",
        "walking: 1 person, 1 clip, 4 s",
    ):
        assert words in page
    for line in page.split("## By kind of movement")[1].splitlines():
        assert "[" not in line  # a single clip has no interval, of errors or events
    monkeypatch.setattr(motion, "implausible", lambda quats, rate, kind: "too fast")
    with pytest.raises(FormatError, match="nothing to evaluate: the longest clip has 220 frames"):
        evaluate(None, takes, cache=cache)


def test_a_set_without_a_training_side_has_no_rivals_that_learn(piece_of, set_of, cache, tmp_path):
    made = set_of(tmp_path / "set", {"validation": [piece_of(200, seed=7, subject="06")]})
    found = evaluate(None, made, cache=cache)
    assert found["learned"] == []
    unsaid, *others = found["warnings"]
    assert unsaid.startswith(f"{made}: says nothing of what the takes show: all are 'other'; ")
    assert others[0] == "nobody on the training side: no rival has learned"
    assert list(found["kinds"]) == ["other"]
    (tmp_path / "words.csv").write_text("file,kind\nm7.bvh,walk\n")
    said = Takes(made, manifest=tmp_path / "words.csv")
    assert ([clip.kind for clip in said.clips], said.warnings) == (["walking"], [])
    assert "No clip here repeats an earlier take" in report.markdown(named(found))


def test_rivals_are_tuned_on_the_training_subjects_and_kept(takes, monkeypatch, tmp_path):
    packaged = Baselines.load()
    asked = []
    # Each tuning has its own test; here only the clips and the saved files matter.
    for module, part in ((baselines, "plain"), (trackers, "trackers"), (event_tuning, "events")):

        def tune(examples, part=part):
            asked.append({example.subject for example in examples})
            return getattr(packaged, part)

        monkeypatch.setattr(module, "tune", tune)
    said = []
    tuned = motion.retune(takes, tmp_path / "tuned", say=lambda *told: said.append(told))
    assert asked == [{"01", "02"}] * 3
    assert len(said) == 3
    assert Baselines.load(tmp_path / "tuned") == tuned == packaged


def test_rivals_that_learned_from_copies_of_before_are_fitted_anew(takes, cache, monkeypatch):
    found = Takes(takes, cache)
    monkeypatch.setattr(learned, "fit", lambda examples, pieces, folder, **told: folder)
    folders = set()
    for version in (1, 1, 2):
        monkeypatch.setattr(motion, "VARY_VERSION", version)
        folders.add(motion._learned(found, found.training_clips(), cache, 1, print, print))
    assert len(folders) == 2


def test_rivals_do_not_learn_a_sound_from_copies_that_the_teacher_labels(takes, cache, monkeypatch):
    given, clips = [], Takes(takes, cache).training_clips()
    monkeypatch.setattr(learned, "fit", lambda *arguments, **told: given.append(arguments))
    found = Takes(takes, cache)
    motion._learned(found, clips, cache, 1, print, print)
    object.__setattr__(clips[0], "by_sound", True)
    motion._learned(found, clips, cache, 1, print, print)
    (examples, pieces, folder), (all_examples, fewer, other) = given
    assert len(examples) == len(all_examples) == len(clips)
    assert [len(pieces) - len(fewer), pieces[0] is clips[0].piece] == [1, True]
    assert all(piece is clip.piece for piece, clip in zip(fewer, clips[1:], strict=True))
    assert folder != other, "what was fitted before is not read"


def test_clips_that_are_taught_by_a_sound_are_told_of(takes, cache):
    clips = Takes(takes, cache).held_out_clips("validation")
    assert motion._warnings({"held_out": {"a": ["06", "35"]}, "teacher_version": 3}, clips, None)[1:] == []
    object.__setattr__(clips[0], "by_sound", True)
    told = motion._warnings({}, clips, None)
    assert told[1].startswith("the targets of 1 of 2 clips come from their sound")
    assert told[-1] == "the checkpoint does not say which subjects it was not trained on"


def test_the_command_counts_how_often_the_test_side_was_looked_at(
    takes, tested, monkeypatch, tmp_path, command
):
    page = tmp_path / "results.md"

    def judged(folder, data, split, *, people, **how):
        return tested | {"split": split, "test_people": ["07"] if split == "test" or "07" in people else []}

    monkeypatch.setattr(motion, "evaluate", judged)
    sides = ("--split", "validation"), ("--split", "test"), ("--subjects", "06"), ("--subjects", "06,07")
    for side, looks in zip(sides, (0, 1, 1, 2), strict=True):
        asked = ("--data", takes, *side, "--report", page)
        code, stdout, _ = command("evaluate", "motion", *asked)
        assert code == 0
        assert json.loads(page.with_suffix(".json").read_text())["looks"] == looks
    assert "looked at the test side 2 times" in page.read_text()
    assert "pyanticip evaluate motion --data" in page.read_text()
    assert "wrote" in stdout
    folder = tmp_path / "report.v2"
    for looks in (1, 2):
        command("evaluate", "motion", "--data", takes, "--split", "test", "--report", folder)
        assert json.loads((folder / "report.json").read_text())["looks"] == looks
    page.with_suffix(".json").write_text("[]")
    with pytest.raises(FormatError, match="not the figures of a motion report"):
        report.count_test_evaluations(page)


def test_figures_of_a_report_that_cannot_be_written_are_printed(
    takes, tested, monkeypatch, tmp_path, command
):
    def full(files):
        raise DeviceError("report.json: cannot be written (no space left on device)")

    monkeypatch.setattr(motion, "evaluate", lambda *what, **how: dict(tested))
    monkeypatch.setattr("training.report.pages.write_files", full)
    for option, begin in ((), "# "), (("--json",), "{"):
        asked = ("--data", takes, "--report", tmp_path / "report", *option)
        code, stdout, stderr = command("evaluate", "motion", *asked)
        assert code == 1
        assert stdout.startswith(begin)
        assert "karate" in stdout or "martial art" in stdout
        assert stderr == "pyanticip: report.json: cannot be written (no space left on device)\n"
    mkdir = Path.mkdir

    def full_folder(self, *how, **also):
        if self.name in ("report", "img"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))
        mkdir(self, *how, **also)

    monkeypatch.setattr(Path, "mkdir", full_folder)
    for name in ("report", "report.md"):
        code, stdout, stderr = command("evaluate", "motion", "--data", takes, "--report", tmp_path / name)
        assert (code, stdout[:2]) == (1, "# ")
        assert stderr.endswith("cannot be written (no space left on device)\n")


def test_bad_input_is_one_clear_error(takes, piece_of, set_of, cache, tmp_path):
    with pytest.raises(OptionError, match="no motion of subject 77"):
        evaluate(None, takes, people=("77",), cache=cache)
    with pytest.raises(FormatError, match="no such manifest"):
        evaluate(None, takes, manifest=tmp_path / "nowhere.csv", cache=cache)
    with pytest.raises(FormatError, match=r"rivals\.json: no such file"):
        evaluate(None, takes, settings=tmp_path, cache=cache)
    other = tmp_path / "other"
    shutil.copytree(SHIPPED, other)
    written = json.loads((other / "model.json").read_text())
    written["training"]["teacher_version"] = 99
    (other / "model.json").write_text(json.dumps(written))
    with pytest.raises(CheckpointError, match=r"taught by teacher 99, expected 3$"):
        evaluate(other, takes, cache=cache)
    short = set_of(tmp_path / "short", {"validation": [piece_of(80, subject="06")]})
    with pytest.raises(FormatError, match="longest clip has 80 frames, expected at least 86"):
        evaluate(None, short, cache=cache)
    with pytest.raises(FormatError, match="no test clip"):
        evaluate(None, short, "test", cache=cache)
    (tmp_path / "bad.csv").write_text("take,what\n")
    with pytest.raises(FormatError, match=r"bad\.csv: has no column 'file'"):
        evaluate(None, takes, manifest=tmp_path / "bad.csv", cache=cache)
    (tmp_path / "file.txt").write_text("x")
    with pytest.raises(OptionError, match=r"ends in \.html"):
        pages.report_paths(tmp_path / "file.txt")


def test_the_command_prints_one_line_for_a_users_mistake(tmp_path, command):
    (tmp_path / "file.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    (tmp_path / "take.bvh").touch()
    data = ["--data", tmp_path]
    inside = tmp_path / "file.json" / "in" / "page.html"
    for arguments, wanted, words in (
        (["--data", tmp_path / "empty"], 1, "no motion in it"),
        ([*data, "--seeds", "0"], 2, "--seeds"),
        ([*data, "--report", inside], 1, "file.json/in: not a directory"),
        (
            [*data, "--report", tmp_path / "x.pdf"],
            2,
            "x.pdf: expected a folder or a name that ends in .html or .md",
        ),
        ([*data, "--subjects", " ,"], 2, "option --subjects: expected names, like 02,05,09, got ' ,'"),
        ([*data, "--retune", tmp_path / "file.json"], 1, "file.json: not a directory"),
        ([*data, "--checkpoint", tmp_path], 1, "checkpoint"),
    ):
        code, _, stderr = command("evaluate", "motion", *arguments)
        assert code == wanted
        lines = stderr.strip().splitlines()
        assert words in lines[-1]
        assert lines[-1].startswith("pyanticip: ")


def test_the_shipped_checkpoint_is_ahead_where_people_walk(data_dir):
    model, tuned = load_motion_model(None), Baselines.load()
    files = sorted([*data_dir.glob("cmu/35_*.amc"), *data_dir.glob("cmu/43_*.amc")])
    walks = [example_from_piece(piece) for path in files for piece in pieces_of(path)]
    tallies = []
    for walk in walks[::2]:
        baselines = simple_forecasts(Twins(walk.quats), tuned)
        tallies.append(
            tally(walk.subject, walk.params, [*baselines.values(), answer(run_model(model, walk).params)])
        )
    assert [LAGS_MS[n] for n in lag_profile(tallies, 15).argmax(axis=-1)] == [100, 200, 400]
    assert max(ratio(mean_error(tallies), 15, range(15))) < 0.6
    assert min(beyond(tallies, 15, range(15))[:2]) >= 0.2
