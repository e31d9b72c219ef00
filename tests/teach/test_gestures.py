"""Gestures: taught by a few takes, found while they last, with the moment they will end."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from click.testing import CliRunner
from safetensors.numpy import load
from support.clips import LEFT_ARM, RIGHT_ARM, SPINE, swing
from support.ear import Ear, listen
from support.wire import heard_of

from pyanticip import _core
from pyanticip.cli.teach import teach
from pyanticip.errors import FormatError, OptionError, ShapeError
from pyanticip.motion.clip import Clip
from pyanticip.motion.datagrams import datagrams
from pyanticip.motion.npz import save_npz
from pyanticip.teach.gestures import (
    Gesture,
    GestureExample,
    Verdict,
    fit_gestures,
    make_spotter,
    spot,
    verdict,
)
from pyanticip.teach.mapping import load_mapping, pack_mapping
from pyanticip.teach.options import FitOptions
from pyanticip.teach.outputs import Output
from pyanticip.teach.project import MAPPING, Project
from pyanticip.teach.state import read_state
from realtime.clock import OfflineClock
from realtime.control.commands import Commands
from realtime.oscquery.offer import outputs
from realtime.pipeline import Pipeline
from realtime.programs.artifact_info import describe_artifact
from realtime.rig import Rig
from realtime.sinks.base import ControlFrame
from realtime.sinks.config import PARTS
from realtime.stage import assemble
from realtime.teaching.adding import add_file
from realtime.teaching.checking import check_project
from realtime.teaching.fitting import fit_project
from realtime.teaching.remote import Loader

STILL, LASTS = 1.0, 1.4
Poses = npt.NDArray[np.float32]


def raised(
    *, joint: int = RIGHT_ARM, height: float = 2.0, lasts: float = LASTS, still: float = STILL
) -> Clip:
    """An arm that goes up and comes down again, in two strokes of unlike size, between two rests."""
    t = np.arange(round((lasts + 2 * STILL) * 50)) / 50.0
    share = np.clip((t - STILL) / lasts, 0.0, 1.0)
    angle = height * (np.sin(np.pi * share) + 0.4 * np.sin(3 * np.pi * share) * (share < 1))
    clip = swing(len(t) / 50)
    quats = np.zeros_like(clip.quats)
    quats[..., 0] = 1.0
    quats[:, joint] = np.stack([np.cos(angle / 2), 0 * angle, 0 * angle, np.sin(angle / 2)], 1)
    return replace(clip, quats=quats)


def breathing(clip: Clip, seed: int) -> Clip:
    """The clip as of a body, which is in no place twice."""
    noise = np.random.default_rng(seed).normal(scale=1e-5, size=clip.quats.shape)
    return replace(clip, quats=(clip.quats + noise).astype(np.float32))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = Project.create(tmp_path_factory.mktemp("gestures") / "mine", (Output("cutoff", 200, 8000),))
    for i, height in enumerate((1.8, 2.0, 2.2)):
        labels = {"gesture": "raise"}
        made.add_take(f"raise {i}", raised(height=height, lasts=1.3 + 0.1 * i), labels=labels)
    made.add_take("sway", swing(6, joint=SPINE), values={"cutoff": 300})
    made.add_take("other arm", swing(6, joint=LEFT_ARM), values={"cutoff": 6000})
    return made


@pytest.fixture(scope="module")
def fitted(project: Project) -> Path:
    report = fit_project(project.folder, FitOptions(), model=False)
    (told,) = report["gestures"]
    assert told["missed"] == []
    assert told["alarms"] == 0
    assert told["end_ms"] < 200
    assert "Gestures" in (project.folder / "report.html").read_text()
    return project.folder / MAPPING


def test_what_plays_is_told_with_its_gestures(fitted: Path) -> None:
    pipeline = assemble(Rig.model_validate({"osc": [], "model": {"enabled": False}}), OfflineClock())
    loader = Loader(pipeline, Commands(pipeline), fitted, fitted.parent)

    async def load() -> str:
        return await loader.load()

    assert asyncio.run(load()).endswith(": cutoff, gesture/raise")
    loader.close()


def play(fitted: Path, clip: Clip, lost: range = range(0)) -> tuple[Ear, Pipeline]:
    rig = Rig(mapping=str(fitted), model={"enabled": False})  # type: ignore[arg-type]
    return listen(rig, (sent for i, sent in enumerate(datagrams(clip, "msgpack")) if i not in lost))


def changes(ear: Ear) -> list[str]:
    return [name for frame in ear.frames for name, *_ in frame.events if name.startswith("gesture/")]


def test_live_a_gesture_is_told_while_it_lasts_and_its_end_ahead_of_it(fitted: Path) -> None:
    ear, _ = play(fitted, raised(height=1.9, lasts=1.45))
    assert changes(ear) == ["gesture/raise/enter", "gesture/raise/leave"]
    told = [(frame.seq / 50, *frame.gestures[0]) for frame in ear.frames if frame.gestures]
    begun, name, progress, seconds, likely = told[0]
    assert name == "raise"
    assert STILL < begun < STILL + 0.7
    assert begun + seconds == pytest.approx(STILL + 1.45, abs=0.25)
    assert all(0.0 <= p <= 1.0 and s >= 0.0 and 0.0 <= q <= 1.0 for _, _, p, s, q in told)
    assert told[-1][2] > 0.9
    event = next(e for frame in ear.frames for e in frame.events if e[0] == "gesture/raise/enter")
    assert event[1] == progress
    assert event[2] == pytest.approx(seconds, abs=0.1)
    assert likely > 0.5
    again, _ = play(fitted, raised(height=1.9, lasts=1.45))
    assert [f.gestures for f in again.frames] == [f.gestures for f in ear.frames], "a replay: the same bits"


def test_what_is_broken_off_is_left_and_what_pauses_as_it_was_taught_is_not(fitted: Path) -> None:
    def last(quats: Poses, gestures: Sequence[Gesture]) -> tuple[float, int]:
        told = spot(gestures, quats)[:, 0, 0]
        under_way = np.flatnonzero(~np.isnan(told))
        return float(told[under_way[-1]]), int(under_way[-1])

    def held(quats: Poses, at: int, frames: int) -> Poses:
        return np.insert(quats, [at] * frames, quats[at], axis=0)

    begin, whole = round(STILL * 50), raised(height=1.9, lasts=1.45).quats
    half = begin + 36
    taught = load_mapping(fitted).gestures
    assert last(whole, taught)[0] > 0.9
    progress, frame = last(held(whole[: half + 1], half, 100), taught)
    assert progress < 0.85
    assert frame < half + 20
    pausing = [held(raised(height=height, lasts=1.4).quats, half, 25) for height in (1.8, 2.0, 2.2)]
    shown = [("raise", GestureExample(str(i), quats, begin, begin + 95)) for i, quats in enumerate(pausing)]
    assert last(held(whole, half, 27), fit_gestures(shown))[0] > 0.9


def test_what_was_not_taught_is_not_told(fitted: Path) -> None:
    ear, _ = play(fitted, raised(joint=LEFT_ARM))
    assert changes(ear) == []
    assert not any(frame.gestures for frame in ear.frames)


def test_a_gap_a_silence_and_a_stop_end_it(fitted: Path) -> None:
    clip = raised()
    middle = round(50 * (STILL + 0.7))
    ear, pipeline = play(fitted, clip[:middle])
    assert changes(ear) == ["gesture/raise/enter"]
    pipeline.run_until(pipeline.due_ns + 20_000_000_000)
    assert changes(ear) == ["gesture/raise/enter", "gesture/raise/leave"]
    ear, _ = play(fitted, clip, range(middle, middle + 40))
    assert changes(ear) == ["gesture/raise/enter", "gesture/raise/leave"]
    assert not any(frame.gestures for frame in ear.frames[-30:])
    ear, pipeline = play(fitted, clip[:middle])
    pipeline.mixer.set_mode("panic")
    pipeline.run_until(pipeline.due_ns + 50_000_000)
    assert changes(ear)[-1] == "gesture/raise/leave"
    ear, pipeline = play(fitted, clip[:middle])
    pipeline.set_mapping(None)
    pipeline.run_until(pipeline.due_ns + 50_000_000)
    assert changes(ear)[-1] == "gesture/raise/leave", "what plays no more is left"


def test_the_stream_says_what_the_batch_says(fitted: Path) -> None:
    gestures = load_mapping(fitted).gestures
    poses = raised(height=2.1).quats
    one, many = make_spotter(gestures), make_spotter(gestures)
    batch = many.push_many(poses)
    for pose, row in zip(poses, batch[:, 0], strict=True):
        (told,) = one.push(pose)
        assert np.isnan(row[0]) if told is None else told == pytest.approx(row[:3])
    many.reset()
    assert np.array_equal(many.push_many(poses), batch, equal_nan=True)


def test_osc_and_oscquery(fitted: Path) -> None:
    frame = ControlFrame(1, 0.0, [0.0] * 7, [0.5] * 8, t_ns=1, wall_ns=1)
    frame.gestures = [("raise", 0.5, 0.75, 0.25)]
    frame.events = [("gesture/raise/enter", 0.5, 0.75), ("gesture/raise/leave", 1.0, 0.0)]
    for send in (PARTS, ("param", "gesture")):
        heard = heard_of(frame, prefix="/me", send=send, schedule=True)
        assert heard["/me/gesture/raise"] == [0.5, 0.75, 0.25]
        assert heard["/me/gesture/raise/enter"] == [0.5, 0.75], "with its frame, not when it ends"
        assert heard["/me/gesture/raise/leave"] == [1.0, 1.0], "it reached its end"
    heard = heard_of(replace(frame, events=[("gesture/raise/leave", 0.5, 0.0)]), send=("param", "gesture"))
    assert heard["/anticip/gesture/raise/leave"] == [0.5, 0.0], "it did not"
    assert not any("gesture" in address for address in heard_of(frame, send=("param", "event")))
    nodes = outputs("/me", ("gesture",), gestures=["raise"])
    assert nodes["/me/gesture/raise"]["TYPE"] == "fff"
    assert nodes["/me/gesture/raise/leave"]["TYPE"] == "ff"


def test_the_command_teaches_lists_fits_and_checks(tmp_path: Path) -> None:
    folder = str(tmp_path / "mine")
    files = []
    for i in range(4):
        files.append(str(tmp_path / f"up{i}.npz"))
        save_npz(raised(height=1.7 + 0.2 * i), files[-1])

    def run(*words: str, code: int = 0) -> str:
        result = CliRunner().invoke(teach, list(words))
        assert (result.exit_code != 0) == bool(code), result.output
        return f"{result.output}{result.exception}"

    run("add", folder, *files[:2], "--gesture", "raise")
    assert "gesture raise: expected 3 takes or more, got 2" in run("fit", folder, "--no-model", code=1)
    assert not (tmp_path / "mine" / MAPPING).exists()
    run("add", folder, files[2], "--gesture", "raise")
    assert "gesture raise" in run("list", folder)
    assert "gesture raise: found 3 of 3" in run("fit", folder)
    run("add", folder, files[3], "--gesture", "raise")
    assert "raise found after" in run("check", folder)
    run("set", folder, "up3", "gesture=lift")
    assert read_state(tmp_path / "mine" / "project.json").gestures == ("lift", "raise")
    assert "letter" in run("add", folder, files[0], "--gesture", "../x", code=1)
    found = check_project(tmp_path / "mine", model=False)
    assert found["played"][0]["gestures"]["raise"]["alarms"] == 0


def test_a_take_too_short_or_too_long_is_refused_in_one_line(tmp_path: Path) -> None:
    for name, clip in (("short", raised(lasts=0.04)), ("long", swing(12))):
        project = Project.create(tmp_path / name)
        for i in range(3):
            project.add_take(f"t{i}", clip, labels={"gesture": "g"})
        with pytest.raises(OptionError, match=r"gesture g: take t0 moves for .*; expected 0.3 to 10 s"):
            fit_project(project.folder, FitOptions(), model=False)


def test_info_tells_what_a_mapping_was_taught(fitted: Path) -> None:
    told = describe_artifact(fitted)
    found, lines = told
    assert found["gestures"] == {
        gesture.name: len(gesture.takes) for gesture in load_mapping(fitted).gestures
    }
    assert "  plays with every model, and without one" in lines


def test_the_active_part_is_what_moves() -> None:
    take = GestureExample.active("t", raised())
    assert abs(take.begin - 50 * STILL) < 15
    assert abs(take.end - 50 * (STILL + LASTS)) < 15


def test_a_gesture_is_found_where_it_is_shown_and_anywhere_else_an_alarm() -> None:
    take = GestureExample("take", np.zeros((200, 22, 4), np.float32), 50, 100)

    def told(*entered: int) -> np.ndarray:
        rows = np.full((200, 4), np.nan)
        for frame in entered:
            rows[frame : frame + 10, 0], rows[frame : frame + 10, 1] = 0.5, 0.5
        return rows

    def judged(*entered: int) -> Verdict:
        return verdict(told(*entered), take, ~take.covered, shows=True)

    # It is under way from its fifth part on, and said to end in half a second; it does in 39 frames.
    assert judged(60) == Verdict("take", 0.2, pytest.approx(-280.0), 0)
    assert judged(0, 60, 80, 150).alarms == 3
    elsewhere = np.arange(200) > 20
    assert verdict(told(0, 60), take, elsewhere | True, shows=False) == Verdict("take", None, None, 2)
    assert verdict(told(0, 60), take, elsewhere, shows=False) == Verdict("take", None, None, 1)
    for frame, found in ((37, False), (38, True), (111, True), (112, False)):
        assert (judged(frame).at is not None) == found, frame
    assert judged() == Verdict("take", None, None, 0)


def test_the_report_of_a_gesture_counts_what_was_looked_at() -> None:
    shown = [raised(height=height) for height in (1.8, 2.0, 2.2)]
    takes = [GestureExample.active(str(i), clip) for i, clip in enumerate(shown)]
    other = GestureExample.active("other", swing(6, joint=LEFT_ARM))
    (gesture,) = fit_gestures([*(("raise", take) for take in takes), (None, other)])
    report = gesture.report
    assert report["takes"] == report["found"] == ["0", "1", "2"]
    assert report["seconds"] == pytest.approx([(take.end - take.begin) / 50.0 for take in takes], abs=0.006)
    frames = len(other.quats) + sum(int((~take.covered).sum()) for take in takes)
    assert report["minutes"] == pytest.approx(frames / 3000.0, abs=0.001)
    assert 0.0 < report["at"] < 1.0
    assert (report["missed"], report["alarms"], report["alarmed_by"]) == ([], 0, [])


def test_a_gesture_in_a_lead_in_or_in_another_take_of_the_recording_is_no_false_alarm(tmp_path: Path) -> None:
    heights = (1.8, 1.9, 2.1, 2.2)
    recording = breathing(raised(), 1)
    quats = np.concatenate([breathing(raised(height=height), i).quats for i, height in enumerate(heights)])
    recording = replace(recording, quats=quats, root=np.zeros((len(quats), 3), np.float32))
    save_npz(recording, tmp_path / "evening.npz")
    length = len(quats) / 50 / len(heights)
    project = Project.create(tmp_path / "mine", (Output("cutoff"),))
    for i in range(1, len(heights)):  # the first one is in a lead-in alone
        start, end = i * length, (i + 1) * length
        labels = {"gesture": "raise"}
        add_file(project, tmp_path / "evening.npz", name=f"r{i}", labels=labels, start=start, end=end)
    add_file(
        project, tmp_path / "evening.npz", name="dim", values={"cutoff": 0.2}, start=length, end=3 * length
    )
    assert [take.begin > 150 for take in project.state.takes] == [True] * 4
    report = fit_project(project.folder, FitOptions(), model=False)
    (gesture,) = report["gestures"]
    assert (gesture["missed"], gesture["alarms"]) == ([], 0)
    assert not [line for line in report["warnings"] if "false alarms" in line]
    page = (project.folder / "report.html").read_text()
    assert (page.count("raise: found"), page.count("not judged")) == (3, 0)
    played = check_project(project.folder, model=False)["played"]
    assert [take["gestures"]["raise"]["alarms"] for take in played] == [0, 0, 0, 0]
    # The same movement in another recording is one: nothing says that it is shown there.
    save_npz(breathing(raised(), 9), tmp_path / "other.npz")
    add_file(project, tmp_path / "other.npz", values={"cutoff": 0.9})
    assert fit_project(project.folder, FitOptions(), model=False)["gestures"][0]["alarmed_by"] == ["other"]


def test_one_recording_three_times_is_one_take() -> None:
    def recorded(name: int, height: float) -> GestureExample:
        return GestureExample.active(str(name), breathing(raised(height=height), round(10 * height)))

    takes = [recorded(i, height) for i, height in enumerate((1.8, 1.8, 1.8, 2.0, 2.2))]
    with pytest.raises(OptionError, match=r"got 1 \(takes 0, 1, 2 show the same motion\)"):
        fit_gestures([("raise", take) for take in takes[:3]])
    (gesture,) = fit_gestures([("raise", take) for take in takes])
    assert gesture.report["same_motion"] == [["0", "1", "2"]]


def test_older_files_load_and_damaged_ones_are_refused(fitted: Path, tmp_path: Path) -> None:
    arrays = load(fitted.read_bytes())
    assert arrays["gesture.0.0"].shape[1:] == (22, 4)
    take = np.asarray(arrays["gesture.0.0"])

    def written(*gestures: Gesture) -> Path:
        path = tmp_path / "a.safetensors"
        told = {"name": "a"}
        path.write_bytes(
            pack_mapping([], (), FitOptions(), mask=[True] * 22, model=None, origin=told, gestures=gestures)
        )
        return path

    assert [g.name for g in load_mapping(written(Gesture("up", 0.1, (take,)))).gestures] == ["up"]
    for bad in (
        Gesture("up", 0.1, ()),
        Gesture("up", 1e9, (take,)),
        Gesture("a/b", 0.1, (take,)),
        Gesture("up", 0.1, (take[:3],)),
        Gesture("up", 0.1, (take[:, :5],)),
        Gesture("up", 0.1, (take * np.nan,)),
    ):
        with pytest.raises(FormatError):
            load_mapping(written(bad))
    with pytest.raises(FormatError, match="twice"):
        load_mapping(written(*[Gesture("up", 0.1, (take,))] * 2))
    with pytest.raises(FormatError, match="heads"):
        load_mapping(written())


def test_the_core_refuses_what_it_cannot_take() -> None:
    take = raised().quats
    with pytest.raises(ShapeError):
        _core.Spotter([(0, take[:5])], [0.1])
    with pytest.raises(OptionError):
        _core.Spotter([(0, take)], [-1.0])
    with pytest.raises(ShapeError):
        _core.Spotter([(3, take)], [0.1])
    with pytest.raises(ShapeError):
        _core.Spotter([(0, take * np.nan)], [0.1])
    with pytest.raises(ShapeError):
        _core.Spotter([(0, take)], [0.1]).push(take)
