"""Classes: which label is shown, how likely, and what that triggers."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clips import LEFT_ARM, SPINE, swing
from support.ear import Ear, listen
from support.mappings import rebuilt
from support.wire import heard_of

from pyanticip.errors import FormatError, OptionError
from pyanticip.motion.datagrams import datagrams
from pyanticip.teach.classifiers import compile_classifier, fit_classifier, sharpened
from pyanticip.teach.labels import NONE, parse_labels
from pyanticip.teach.mapping import load_mapping
from pyanticip.teach.options import FitOptions
from pyanticip.teach.outputs import Output
from pyanticip.teach.project import MANIFEST, MAPPING, Project
from realtime.mapping.labels import Labels
from realtime.mapping.live_mapping import open_mapping
from realtime.pipeline import Pipeline
from realtime.programs.render import render
from realtime.rig import Rig
from realtime.sinks.base import ControlFrame
from realtime.sinks.outlet import Outlet
from realtime.teaching.fitting import fit_project, input_blocks
from realtime.teaching.take_recorder import TakeRecorder

RIGHT = {"speed": 0.7}
LEFT = {"joint": LEFT_ARM, "level": 1.2}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Two arms, three takes each, of which one also wants a value."""
    made = Project.create(tmp_path_factory.mktemp("classes") / "mine", (Output("cutoff", 200, 8000),))
    for i in range(3):
        right, left = swing(2, seed=i, **RIGHT), swing(2, seed=i, **LEFT)  # type: ignore[arg-type]
        made.add_take(f"right {i}", right, labels={"arm": "right"}, values={"cutoff": 300})
        made.add_take(f"left {i}", left, labels={"arm": "left"}, values={"cutoff": 6000})
    return made


@pytest.fixture(scope="module")
def fitted(project: Project) -> Path:
    report = fit_project(project.folder, FitOptions(), model=False)
    part = next(part for part in report["parts"] if "class" in part)
    assert part["accuracy"] > 0.95
    assert [fold["whole"] for fold in part["folds"]] == [True] * 6
    return project.folder / MAPPING


def play(fitted: Path | None, *clips: object) -> tuple[Ear, Pipeline]:
    rig = Rig(
        mapping=None if fitted is None else str(fitted),
        model={"enabled": False},  # type: ignore[arg-type]
        performer={"steady": False},  # type: ignore[arg-type]
    )
    quats = np.concatenate([clip.quats for clip in clips])  # type: ignore[attr-defined]
    return listen(rig, datagrams(replace(swing(len(quats) / 50), quats=quats), "msgpack"))


def triggers(ear: Ear) -> list[str]:
    return [name for frame in ear.frames for name, *_ in frame.events if name.startswith("class/")]


def test_live_enters_and_leaves_once_each(fitted: Path) -> None:
    ear, pipeline = play(fitted, swing(2, seed=7, **RIGHT), swing(2, seed=8, **LEFT))  # type: ignore[arg-type]
    assert triggers(ear) == ["class/arm/enter:right", "class/arm/leave:right", "class/arm/enter:left"]
    assert ear.frames[-1].classes[0][:2] == ("arm", "left")
    assert ear.extras == ["cutoff", "class/arm/left", "class/arm/right", "class/arm/none"]
    for frame in ear.frames:
        assert sum(frame.extras[1:]) == pytest.approx(1.0, abs=1e-5)
    pipeline.set_mapping(None)
    pipeline.run_until(pipeline.fade_out(pipeline.due_ns))
    assert triggers(ear)[3:] == ["class/arm/leave:left"], "what plays no more is left"


def test_what_is_unlike_everything_shown_is_none_of_it(fitted: Path) -> None:
    ear, _ = play(fitted, swing(1, seed=7, **RIGHT), swing(2, joint=SPINE, level=1.2))  # type: ignore[arg-type]
    assert triggers(ear) == ["class/arm/enter:right", "class/arm/leave:right"]
    name, label, likely = ear.frames[-1].classes[0]
    assert (name, label) == ("arm", NONE)
    assert likely > 0.6


def test_what_differs_where_the_takes_do_not_is_new_as_well(fitted: Path) -> None:
    clip = swing(2, seed=7, **RIGHT)  # type: ignore[arg-type]
    quats = clip.quats.copy()
    quats[:, LEFT_ARM + 1] = swing(2, joint=LEFT_ARM + 1, level=1.2, speed=0.01).quats[:, LEFT_ARM + 1]
    told = load_mapping(fitted).apply_batch(input_blocks(replace(clip, quats=quats).features(), None))
    assert told[30:, -1].mean() > 0.5, "the right arm as it was shown, the left elbow bent as never"


def test_what_is_unfinished_does_not_stop_the_rest(tmp_path: Path) -> None:
    made = Project.create(tmp_path / "mine")
    for i in range(2):
        made.add_take(f"right {i}", swing(2, seed=i), labels={"arm": "right", "legs": "still"})
        made.add_take(
            f"left {i}", swing(2, seed=i, joint=LEFT_ARM), labels={"arm": "left", "gesture": "wave"}
        )
    report = fit_project(made.folder, FitOptions(), model=False)
    assert [part["class"] for part in report["parts"]] == ["arm"]
    assert [line.partition(":")[0] for line in report["warnings"][:3]] == [
        "gesture wave",
        "class legs",
        "class arm",
    ]
    assert "no take shows arm=none" in report["warnings"][2]
    assert tuple(load_mapping(made.folder / MAPPING).classes) == ("arm",)


def test_live_says_what_the_take_says_offline_and_a_replay_the_same_bits(project, fitted):
    clip = project.motion(project.state.take("left 1"))
    mapping = load_mapping(fitted)
    offline = mapping.apply_batch(input_blocks(clip.features(), None))
    first, again = (play(fitted, clip)[0] for _ in range(2))
    live = np.array([frame.extras[1:] for frame in first.frames])
    assert live[25:] == pytest.approx(offline[25:, 1:], abs=2e-3)
    assert [f.extras for f in first.frames] == [f.extras for f in again.frames]
    assert [f.events for f in first.frames] == [f.events for f in again.frames]


def test_a_silent_suit_shows_nothing(fitted: Path) -> None:
    ear, pipeline = play(fitted, swing(2, seed=7, **RIGHT))  # type: ignore[arg-type]
    pipeline.run_until(pipeline.due_ns + 20_000_000_000)
    assert triggers(ear) == ["class/arm/enter:right", "class/arm/leave:right"]
    assert ear.frames[-1].classes[0][:2] == ("arm", NONE)


def test_a_render_has_the_labels(project: Project, fitted: Path, tmp_path: Path) -> None:
    take = project.motion_path(project.state.take("right 1"))
    rig = Rig(mapping=str(fitted), model={"enabled": False})  # type: ignore[arg-type]
    render(take, tmp_path / "a.npz", rig=rig)
    with np.load(tmp_path / "a.npz") as made:
        assert made["outputs"].tolist()[1:] == ["class/arm/left", "class/arm/right", "class/arm/none"]
        assert made["taught"][-1, 2] > 0.9
        assert made["event_name"].tolist()[:1] == ["class/arm/enter:right"]
    render(take, tmp_path / "a.csv", rig=rig)
    assert "class/arm/right" in (tmp_path / "a.csv").read_text().splitlines()[0].split(",")


def test_osc_tells_label_likelihoods_and_triggers(fitted: Path) -> None:
    extras = open_mapping(fitted, None).extras
    frame = ControlFrame(1, 0.0, [0.0] * 7, [0.5] * 8, extras=[0.0, 0.125, 0.75, 0.125])
    frame.classes = [("arm", "right", 0.75)]
    frame.events = [("class/arm/leave:left", 0.25, 0.0), ("class/arm/enter:right", 0.75, 0.0)]
    heard = heard_of(frame, extras, prefix="/me")
    assert heard["/me/class/arm"] == ["right", 0.75]
    assert heard["/me/class/arm/right"] == [0.75]
    assert heard["/me/class/arm/none"] == [0.125]
    assert heard["/me/class/arm/enter"] == ["right", 0.75, 0.0]
    assert heard["/me/class/arm/leave"] == ["left", 0.25, 0.0]
    heard = heard_of(frame, extras, send=("param", "event"))
    assert heard["/anticip/param/cutoff"] == [200.0]
    assert not any("class" in address for address in heard)


@pytest.mark.parametrize("event", [("class/arm/enter:left", 0.9, 0.0), ("gesture/raise/leave", 1.0, 0.0)])
def test_a_loop_that_is_late_loses_a_beat_and_no_label_nor_gesture(event: tuple[str, float, float]) -> None:
    class Late:
        live, speed, now = True, 1.0, 1_000_000_000

        def now_ns(self) -> int:
            return self.now

    clock, ear, counts = Late(), Ear(), {"superseded": 0, "stale_events": 0}
    outlet = Outlet([ear], clock, counts)  # type: ignore[arg-type, list-item]
    late = ControlFrame(1, 0.0, [0.0] * 7, [0.5] * 8, t_ns=800_000_000)
    late.events = [("onset", 1.0, 0.05), event]
    outlet.send(late)
    outlet.send(ControlFrame(2, 0.0, [0.0] * 7, [0.5] * 8, t_ns=clock.now))
    (frame,) = ear.frames
    assert frame.events == [event]
    assert counts == {"superseded": 1, "stale_events": 1}


@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), max_size=80))
def test_a_label_is_entered_and_left_in_turn(rows: list[list[float]]) -> None:
    labels = Labels({"pose": ("a", "b", NONE)}, {"pose": 2})
    inside, last = NONE, -9
    for t, row in enumerate(rows):
        told, events = labels.step([0.0, 0.0, *row])
        for name, *_ in events:
            what, _, label = name.removeprefix("class/pose/").partition(":")
            assert (inside == label) == (what == "leave")
            inside = NONE if what == "leave" else label
        if events:
            assert t - last >= 3, "no label lasts shorter than it takes to be sure"
            last = t
        assert told == [("pose", inside, row[("a", "b", NONE).index(inside)])]


@pytest.mark.parametrize("kind", ["logit", "vote"])
@given(seed=st.integers(0, 50), labels=st.integers(2, 5))
def test_a_classifier_tells_what_it_was_shown(kind: str, seed: int, labels: int) -> None:
    random = np.random.default_rng(seed)
    shown = np.repeat(np.arange(labels), 20)
    places = 4.0 * np.eye(labels, 6)[shown] + 0.3 * random.normal(size=(len(shown), 6))
    y = np.eye(labels)[shown]
    setting = 0.1 if kind == "logit" else 4.0
    weight = np.full(len(shown), 1 / len(shown))
    arrays = fit_classifier(kind, setting, places.astype(np.float32), y, weight)
    told = compile_classifier(kind, arrays)(places.astype(np.float32))
    assert (told.argmax(1) == shown).all()
    assert told.sum(1) == pytest.approx(np.ones(len(shown)), abs=1e-5)
    softer = sharpened(told, 0.3)
    assert (softer.max(1) <= told.max(1) + 1e-6).all()
    alone = np.concatenate([compile_classifier(kind, arrays)(u[None].astype(np.float32)) for u in places])
    assert alone == pytest.approx(told, abs=1e-4)


@pytest.mark.parametrize("shown", [(900, 60), (1800, 120)])
@pytest.mark.parametrize(("kind", "setting"), [("logit", 0.1), ("vote", 16.0), ("vote", 48.0)])
def test_a_label_counts_alike_however_long_it_was_shown(
    kind: str, setting: float, shown: tuple[int, int]
) -> None:
    """Of two labels that overlap, few frames or thinned ones: neither is told at the other's cost."""
    random = np.random.default_rng(0)

    def frames(counts: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        label = np.repeat([0, 1], counts)
        return (random.normal(size=(len(label), 6)) + 0.9 * label[:, None]).astype(np.float32), label

    places, label = frames(shown)
    weight = np.full(len(label), 1 / len(label))
    arrays = fit_classifier(kind, setting, places, np.eye(2)[label], weight)
    judged, label = frames((1000, 1000))
    right = compile_classifier(kind, arrays)(judged).argmax(1) == label
    assert right[label == 0].mean() == pytest.approx(0.85, abs=0.1)
    assert right[label == 1].mean() == pytest.approx(0.85, abs=0.1)


def test_a_label_taught_as_none_is_none(tmp_path: Path) -> None:
    made = Project.create(tmp_path / "mine")
    for i in range(2):
        made.add_take(f"right {i}", swing(2, seed=i), labels={"arm": "right"})
        made.add_take(f"left {i}", swing(2, seed=i, joint=LEFT_ARM, level=1.0), labels={"arm": NONE})
    fit_project(made.folder, FitOptions(), model=False)
    mapping = load_mapping(made.folder / MAPPING)
    assert mapping.names == ("class/arm/right", "class/arm/none")
    told = mapping.apply_batch(input_blocks(made.motion(made.state.take("left 0")).features(), None))
    assert told[30:, 1].min() > 0.6


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    for text, says in (
        ("pose", "expected NAME=LABEL"),
        ("pose=a,pose=b", "given twice"),
        ("po/se=a", "class: expected a letter"),
        ("pose=", "label: expected a letter"),
        ("pose=enter", "name of a trigger"),
    ):
        with pytest.raises(OptionError, match=says):
            parse_labels(text)
    made = Project.create(tmp_path / "mine", (Output("cutoff"),))
    made.add_take("a", swing(2), labels={"pose": "up"})
    with pytest.raises(OptionError, match="class pose: all takes show up"):
        fit_project(made.folder, FitOptions(), model=False)
    with pytest.raises(OptionError, match="class cutoff: an output has that name"):
        made.add_take("b", swing(2), labels={"cutoff": "up"})
    for i in range(62):
        made.add_take(f"t{i}", swing(0.5), labels={"pose": f"p{i}"}) if i < 61 else None
    with pytest.raises(OptionError, match="at most 64 outputs and labels together"):
        made.add_take("more", swing(0.5), labels={"pose": "q"})


def test_a_manifest_of_before_is_read_and_a_garbled_one_refused(project: Project, tmp_path: Path) -> None:
    tree = json.loads((project.folder / MANIFEST).read_bytes())
    for take in tree["takes"]:
        assert take.pop("labels")
    (tmp_path / MANIFEST).write_text(json.dumps({**tree, "version": 1}))
    assert Project.open(tmp_path).state.classes == {}
    tree["takes"][0]["labels"] = {"pose": 3}
    (tmp_path / MANIFEST).write_text(json.dumps(tree))
    with pytest.raises(FormatError, match="label: expected a letter"):
        Project.open(tmp_path)


def shown(take_recorder: TakeRecorder, project: Project, name: str | None = None) -> str:
    """A take of a second, kept; its name."""
    said, clip = take_recorder.start(name), swing(1)
    for i in range(50):
        take_recorder.add_frame(
            SimpleNamespace(seq=i, reset=False, poses=clip.quats[i : i + 1], root=clip.root[i])
        )
    take_recorder.stop().store(project)
    return said


def test_a_recorder_keeps_the_label(tmp_path: Path) -> None:
    made = Project.create(tmp_path / "mine")
    take_recorder = TakeRecorder(made)
    take_recorder.set_labels({"pose": "up"})
    shown(take_recorder, made, "one")
    assert made.state.take("one").labels == {"pose": "up"}
    made.set_values("one", {}, {"pose": "down"})
    assert made.state.classes == {"pose": ("down",)}
    made.set_values("one", {"pose": None}, {"way": "walk"})
    assert made.history()[-1].description == "set pose=,way=walk in take one"
    with pytest.raises(OptionError, match="teaches nothing"):
        made.set_values("one", {"way": None})
    take_recorder.clear_targets()
    with pytest.raises(OptionError, match="nothing to record yet"):
        take_recorder.start("two")


def test_labels_that_are_set_during_a_take_are_those_of_the_next(tmp_path: Path) -> None:
    made = Project.create(tmp_path / "mine")
    take_recorder, clip = TakeRecorder(made), swing(1)
    take_recorder.set_labels({"pose": "up"})
    for name, change in (
        ("one", lambda: take_recorder.set_labels({"pose": "down"})),
        ("two", take_recorder.clear_targets),
    ):
        take_recorder.start(name)
        change()
        for i in range(50):
            take_recorder.add_frame(
                SimpleNamespace(seq=i, reset=False, poses=clip.quats[i : i + 1], root=clip.root[i])
            )
        take_recorder.stop().store(made)
    assert [take.labels for take in made.state.takes] == [{"pose": "up"}, {"pose": "down"}]


def test_the_first_take_that_is_played_makes_the_outputs(tmp_path: Path) -> None:
    made = Project.create(tmp_path / "mine")
    take_recorder = TakeRecorder(made)
    with pytest.raises(OptionError, match="mix: expected 0 to 1, got 2"):
        take_recorder.set_targets({"mix": 2.0})
    take_recorder.set_targets({"mix": 0.3})
    assert made.state.outputs == ()
    shown(take_recorder, made, "one")
    assert [output.describe() for output in made.state.outputs] == ["mix"]
    with pytest.raises(OptionError, match="no output 'miks'"):
        take_recorder.set_targets({"miks": 0.3})


def test_a_class_with_the_name_of_an_output_is_refused_before_the_take(tmp_path: Path) -> None:
    made = Project.create(tmp_path / "mine", [Output("mix")])
    take_recorder = TakeRecorder(made)
    with pytest.raises(OptionError, match="class mix: an output has that name"):
        take_recorder.set_labels({"mix": "up"})
    assert take_recorder.labels == {}
    take_recorder.set_labels({"pose": "up"})
    made.add_output(Output("pose"))
    with pytest.raises(OptionError, match="class pose: an output has that name"):
        take_recorder.start("one")
    assert not take_recorder.has_take


def test_what_is_wanted_and_no_output_is_refused_before_the_take(tmp_path: Path) -> None:
    made = Project.create(tmp_path / "mine")
    take_recorder = TakeRecorder(made)
    with pytest.raises(OptionError, match="render has a column of that name"):
        take_recorder.set_targets({"phrase_ahead": 0.2})
    take_recorder.set_targets({"glow": 0.2})
    made.add_output(Output("cutoff", 200, 8000))
    take_recorder.set_targets({"cutoff": 500})
    with pytest.raises(OptionError, match=r"^no output 'glow'; .* cutoff: teach/output NAME or teach/clear$"):
        take_recorder.start("low")
    made.add_output(Output("glow"))
    assert take_recorder.start("low") == "low"


@pytest.mark.parametrize("seconds", [None, 8.0])
def test_a_take_of_the_longest_length_is_stored_with_its_lead_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float | None
) -> None:
    for module in ("pyanticip.teach.project", "realtime.teaching.take_recorder"):
        monkeypatch.setattr(f"{module}.MAX_TAKE_FRAMES", 400)
    made, ended, clip = Project.create(tmp_path / "mine"), list[int](), swing(1)
    take_recorder = TakeRecorder(made, on_full=lambda: ended.append(n))
    take_recorder.set_labels({"pose": "up"})
    for n in range(600):
        if n == 100:
            take_recorder.start("long", seconds)
        i = n % len(clip)
        take_recorder.add_frame(SimpleNamespace(reset=False, poses=clip.quats[i : i + 1], root=clip.root[i]))
    assert ended == [399], "100 frames of lead-in and 300 of the take"
    take_recorder.stop().store(made)
    assert (made.state.take("long").begin, made.state.take("long").total) == (100, 400)


def test_takes_are_numbered_past_names_that_are_taken(tmp_path: Path) -> None:
    made = Project.create(tmp_path / "mine")
    take_recorder = TakeRecorder(made)
    take_recorder.set_labels({"pose": "up"})
    assert take_recorder.start() == "take-001"
    assert take_recorder.cancel() == "take-001"
    names = [shown(take_recorder, made, name) for name in (None, None, "take-004", None, None)]
    assert names == [f"take-00{number}" for number in (1, 2, 4, 5, 6)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("class", "../x"),
        ("outputs", ["left", "left"]),
        ("outputs", ["left", "enter"]),
        ("outputs", ["left"]),
        ("outputs", ["none", "left"]),
        ("kind", "ridge"),
        ("outputs", 3),
    ],
)
def test_a_garbled_class_is_no_mapping(fitted: Path, tmp_path: Path, key: str, value: object) -> None:
    def garble(tree: dict[str, Any]) -> None:
        next(part for part in tree["parts"] if part["class"])[key] = value

    file = tmp_path / "bad.safetensors"
    file.write_bytes(rebuilt(fitted.read_bytes(), garble))
    with pytest.raises(FormatError):
        load_mapping(file)
