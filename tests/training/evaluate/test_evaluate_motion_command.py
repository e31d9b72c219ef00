"""From takes or a set to a report: the command, its page, and bad input."""

import json
import re
import shutil

import numpy as np
import pytest

from pyanticip.cli.terminal import run
from pyanticip.errors import CheckpointError, FormatError, OptionError
from pyanticip.models.checkpoint.manifest import SHIPPED
from training.evaluate import event_tuning, motion, report, trackers
from training.evaluate.motion import evaluate
from training.evaluate.rivals import AllRivals
from training.evaluate.source import Source
from training.report import pages
from training.tasks.motion import baselines


@pytest.fixture
def takes(piece_of, set_of, tmp_path):
    """A set of synthetic pieces, with a manifest in it."""
    sides = {
        "train": [piece_of(200, seed=s, subject=f"0{1 + s}") for s in range(2)],
        "validation": [piece_of(200, seed=7, subject="06"), piece_of(220, seed=8, subject="35")],
        "test": [piece_of(200, seed=9, subject="07")],
    }
    made = set_of(tmp_path / "takes", sides)
    (made / "MANIFEST.csv").write_text("file,description\nm7.bvh,walk\nm8.bvh,dance - turn\nm9.bvh,run\n")
    return made


LATENCY = {
    "rate": 50.0,
    "threads": 1,
    "cpu": "a processor",
    "steps_us": {"onnx": {"cold": {"all": {"p50": 500.0, "p90": 600.0, "p99": 700.0, "steps": 50}}}},
}


def test_a_report_holds_everything_and_stands_alone(takes, tmp_path):
    found, drawn = evaluate(None, takes, "held-out", joints=(22, 6), latency=LATENCY)
    assert found["subjects"] == ["06", "07", "35"]
    assert not any("held out" in line for line in found["warnings"])
    assert {row["who"] for row in found["events"]} == {
        "model, as it plays",
        "model, reach rule",
        "model, live rule",
        "model, window rule",
        "extrapolator",
        "detector",
        "detector, in hindsight",
    }
    assert {row["category"] for row in found["events"]} >= {"all", "walking", "dance", "running"}
    assert len(drawn.clips) == 3
    errors = [worst["mean_error"] for worst in found["worst"]]
    assert errors == sorted(errors, reverse=True)
    files = report.write(found, drawn, tmp_path / "out")
    assert files[0].name == "report.html"
    page = files[0].read_text()
    assert page.count("<img") == 6 + 3
    assert not re.search(r'(src|href)="(?!data:)', page)
    for words in ("Calibration", "Latency", "0.50 ms", "With fewer joints", "Worst clips", "met"):
        assert words in page, words
    assert json.loads((tmp_path / "out" / "report.json").read_text()) == json.loads(json.dumps(found))
    pictures = list((tmp_path / "out").glob("*.png"))
    assert len(pictures) == 9
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)
    alone = report.write(found, drawn, tmp_path / "page.html")
    assert [path.name for path in alone] == ["page.html", "page.json"]
    assert "walking (" in report.markdown(found)


def test_numbers_do_not_depend_on_the_run(takes):
    one, two = (evaluate(None, takes, "test")[0] for _ in range(2))
    assert one == two
    assert one["subjects"] == ["07"]


def test_subjects_that_taught_the_checkpoint_are_named(takes):
    found, _ = evaluate(None, takes, subjects=("01", "06"))
    assert found["split"] == "subjects"
    expected = "not held out of this checkpoint's training as far as it says: subject 01"
    assert found["warnings"][-1] == expected
    with pytest.raises(OptionError, match="no motion of subject 77"):
        evaluate(None, takes, subjects=("77",))


def test_rivals_are_tuned_on_the_training_subjects_and_kept(takes, monkeypatch, tmp_path):
    packaged = AllRivals.load()
    asked = []
    # Each tuning has its own test; here it is who is asked for and what is kept.
    for module, part in ((baselines, "plain"), (trackers, "trackers"), (event_tuning, "events")):

        def tune(examples, part=part):
            asked.append({example.subject for example in examples})
            return getattr(packaged, part)

        monkeypatch.setattr(module, "tune", tune)
    said = []
    tuned = motion.retune(takes, tmp_path / "tuned", on_part=said.append)
    assert asked == [{"01", "02"}] * 3
    assert len(said) == 3
    assert AllRivals.load(tmp_path / "tuned") == tuned == packaged


def test_takes_have_groups_and_masks(takes):
    held = Source(takes).judged("validation")
    assert [one.group for one in held] == ["walking", "dance"]
    # The manifest's folder or the manifest itself.
    assert [one.group for one in Source(takes, manifest=takes / "MANIFEST.csv").judged("test")] == ["running"]
    assert held[0].mask.all()


def test_a_set_can_be_judged_and_must_hold_somebody_out(move, tmp_path):
    import pyanticip as pa
    from pyanticip.motion.bvh_write import save_bvh
    from pyanticip.motion.canonical import canonical_skeleton
    from training.data.sets import build

    def take(name, seed):
        path = tmp_path / "takes" / name
        path.parent.mkdir(exist_ok=True)
        root = np.tile([0.0, 0.9, 0.0], (200, 1)).astype(np.float32)
        save_bvh(pa.Clip(move(200, seed).astype(np.float32), root, 50.0, canonical_skeleton()), path)

    take("06_01.bvh", 1)
    (tmp_path / "takes" / "MANIFEST.csv").write_text("file,description\n06_01.bvh,walk\n")
    build(tmp_path / "takes", tmp_path / "alone", split_file=_sides(tmp_path, {"06": "train"}))
    with pytest.raises(FormatError, match="no validation clip"):
        evaluate(None, tmp_path / "alone")
    take("35_01.bvh", 2)
    sides = _sides(tmp_path, {"06": "validation", "35": "train"})
    build(tmp_path / "takes", tmp_path / "set", split_file=sides)
    found, _ = evaluate(None, tmp_path / "set", manifest=tmp_path / "takes", joints=(10,))
    assert found["data"]["kind"] == "set"
    assert found["subjects"] == ["06"]
    assert found["suits"][0]["joints"] == 10
    held = Source(tmp_path / "set", manifest=tmp_path / "takes").judged("validation")
    assert [one.group for one in held] == ["walking"]


def test_clips_that_are_taught_by_a_sound_are_told_of(takes):
    found = Source(takes)
    one = found.set.clips[found.set.indices("validation")[0]]
    assert not any(held.by_sound for held in found.load("validation"))
    object.__setattr__(one, "targets", "audio")
    held = found.load("validation")
    assert [each.by_sound for each in held] == [True, False]
    assert motion._sounds(held)[0].startswith("1 of 2 clips are taught by their sound")
    assert motion._sounds(held[1:]) == []


def test_a_folder_of_takes_with_any_names_is_judged_as_it_is_trained_on(move, tmp_path):
    import pyanticip as pa
    from pyanticip.motion.bvh_write import save_bvh
    from pyanticip.motion.canonical import canonical_skeleton
    from training.tasks.motion.data import base_set
    from training.tasks.motion.options import DataOptions, MotionTrainOptions

    for seed, name in enumerate(("anna", "ben", "cleo")):
        (tmp_path / "takes" / name).mkdir(parents=True)
        root = np.tile([0.0, 0.9, 0.0], (100, 1)).astype(np.float32)
        clip = pa.Clip(move(100, seed).astype(np.float32), root, 50.0, canonical_skeleton())
        save_bvh(clip, tmp_path / "takes" / name / f"spin_{seed}.bvh")
    cache = tmp_path / "cache"
    data = DataOptions(path=str(tmp_path / "takes"), cache=str(cache), build_workers=1)
    trained = base_set(MotionTrainOptions(data=data))
    judged = Source(tmp_path / "takes", cache)
    assert judged.described()["digest"] == trained.digest
    assert {held.example.subject for held in judged.load("validation")} == {*trained.subjects("validation")}


def _sides(folder, sides):
    path = folder / "split.csv"
    path.write_text("subject,split\n" + "".join(f"{who},{side}\n" for who, side in sides.items()))
    return path


def test_bad_input_is_one_clear_error(takes, piece_of, set_of, tmp_path):
    with pytest.raises(OptionError, match="split is one of"):
        evaluate(None, takes, "everybody")
    with pytest.raises(OptionError, match="no clip 'x'"):
        evaluate(None, takes, clip="x")
    with pytest.raises(FormatError, match="no such manifest"):
        evaluate(None, takes, manifest=tmp_path / "nowhere.csv")
    with pytest.raises(FormatError, match="not a file of tuned rivals"):
        evaluate(None, takes, settings=tmp_path)
    other = tmp_path / "other"
    shutil.copytree(SHIPPED, other)
    written = json.loads((other / "model.json").read_text())
    written["training"]["teacher_version"] = 99
    (other / "model.json").write_text(json.dumps(written))
    with pytest.raises(CheckpointError, match="taught by teacher 99, expected 1 to "):
        evaluate(other, takes)
    short = set_of(tmp_path / "short", {"validation": [piece_of(70, subject="06")]})
    with pytest.raises(FormatError, match="longest has 70 frames, expected at least 75"):
        evaluate(None, short)
    (tmp_path / "bad.csv").write_text("take,what\n")
    with pytest.raises(FormatError, match=r"bad\.csv: has no column 'file'"):
        evaluate(None, takes, manifest=tmp_path / "bad.csv")
    (tmp_path / "file.txt").write_text("x")
    with pytest.raises(OptionError, match=r"ends in \.html"):
        pages.one_page(tmp_path / "file.txt")


def test_the_command_prints_one_line_for_a_users_mistake(tmp_path, capsys):
    from pyanticip.cli import cli

    (tmp_path / "bench.json").write_text("{}")
    (tmp_path / "other.json").write_text('{"steps_us": {}, "checkpoint": "motion-00000000"}')
    (tmp_path / "empty").mkdir()
    (tmp_path / "take.bvh").touch()
    data = ["--data", str(tmp_path)]
    inside = str(tmp_path / "bench.json" / "in" / "page.html")
    for arguments, code, words in (
        (["--data", str(tmp_path / "empty")], 1, "no motion in it"),
        ([*data, "--joints", "7"], 2, "22,10,6,1"),
        ([*data, "--bench", str(tmp_path / "bench.json")], 1, "bench step --json"),
        (
            [*data, "--bench", str(tmp_path / "other.json")],
            2,
            "measured checkpoint motion-00000000; this is ",
        ),
        ([*data, "--report", inside], 1, "bench.json/in: not a directory"),
        ([*data, "--checkpoint", str(tmp_path)], 1, "checkpoint"),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.argv", ["pyanticip", "evaluate", "motion", *arguments])
            assert run(cli) == code
        lines = capsys.readouterr().err.strip().splitlines()
        assert words in lines[-1]
        assert lines[-1].startswith("pyanticip: ")


@pytest.mark.slow
def test_the_shipped_checkpoint_beats_its_rivals_on_held_out_motion(data_dir):
    found, _ = motion.evaluate(None, data_dir, "validation")
    assert set(found["subjects"]) == {"06", "35", "43"}
    for i, ms in enumerate(found["horizons_ms"]):
        if ms >= 100:
            ours, *others = (found["mean"][who][i] for who in ("model", "hold", "linear", "tracker"))
            assert ours < min(others), f"at {ms} ms"
    assert found["gate"]["std"] > 0.05
    assert np.mean([row["skill"] for row in found["calibration"] if row["event"] == "onset"]) > 0.0
