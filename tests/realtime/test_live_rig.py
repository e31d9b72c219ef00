"""Live changes of the rig: they take effect at once, refused ones change nothing, and all can be saved."""

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pythonosc.osc_bundle import OscBundle
from support.models import another_checkpoint
from support.playing import Playing
from support.wire import udp

from pyanticip.controls import Range, Smoothing
from pyanticip.errors import CheckpointError, MotionError, OptionError, RigError
from pyanticip.vocabulary import PARAMETERS
from realtime.bench.performer import mocopi_datagrams
from realtime.control.folder import inside, listing, unused
from realtime.control.rig_keys import with_part
from realtime.oscquery.offer import controls
from realtime.pipeline import Pipeline
from realtime.rig import Rig, load_rig, template
from realtime.sinks.base import ControlFrame
from realtime.sinks.config import PARTS
from realtime.step.base import StepResult
from realtime.step.open import open_backend

PAN, LOUDNESS = PARAMETERS.index("pan"), PARAMETERS.index("loudness")
Play = Callable[..., Playing]
QUIET = {"model": {"enabled": False}, "memory": {"enabled": False}}


def step(level: float) -> StepResult:
    return StepResult(np.full((8, 5), level), np.zeros((2, 25)), np.zeros(7), 0.0)


@pytest.fixture
def ear() -> Iterator[socket.socket]:
    with udp(5) as sock:
        yield sock


def rig_of(tree: dict[str, Any]) -> Rig:
    return Rig.model_validate({**QUIET, "performer": {"enabled": False}, **tree})


def heard(pipeline: Pipeline, ear: socket.socket) -> dict[str, list[Any]]:
    """The messages that a receiver gets for a frame whose parameters are all 0.25."""
    for sink in pipeline.sinks:
        sink.send(ControlFrame(3, 0.06, [0.5] * 7, [0.25] * 8, [("onset", 0.5, 0.1)], limbs=[0.5] * 12))
    return {message.address: list(message.params) for message in OscBundle(ear.recv(65536))}


def test_shapes_and_smoothing_change_while_playing(play: Play) -> None:
    show = play(rig_of({"osc": []}))
    mixer = show.pipeline.mixer

    def pan(level: float, frames: int = 60) -> list[float]:
        return [mixer.play(step(level), [0.5] * 7, 0.02)[0][PAN] for _ in range(frames)]

    assert pan(0.25)[-1] == pytest.approx(0.25)
    show.do("rig/shape/pan/in", 0.0, 0.5)
    assert pan(0.25)[-1] == pytest.approx(0.5)
    show.do("rig/shape/pan/invert", True)
    show.do("rig/shape/pan/threshold", 0.4)
    assert pan(0.25)[-1] == 1.0
    # Between threshold and hysteresis an open gate stays open, also when edited.
    show.do("rig/shape/pan/threshold", 0.52)
    assert pan(0.25)[-1] == 1.0
    show.do("rig/shape/pan")
    assert pan(0.25)[-1] == pytest.approx(0.25)
    show.do("rig/smoothing/pan/kind", "none")
    assert pan(0.75, 1) == [0.75]
    show.do("rig/smoothing/pan/kind", "spring")
    show.do("rig/smoothing/pan/half_life", 1.0)
    assert 0.3 < min(pan(0.25, 20)) < 0.75
    assert show.rig.smoothing["pan"].half_life == 1.0
    show.do("rig/smoothing/default/kind", "one-euro")
    show.do("rig/smoothing/density/beta", 1.0)
    assert show.rig.smoothing["density"] == Smoothing(kind="one-euro", beta=1.0)
    show.do("rig/smoothing/density")
    assert "density" not in show.rig.smoothing


def test_receivers_use_the_changed_table(play: Play, ear: socket.socket) -> None:
    port = ear.getsockname()[1]
    show = play(rig_of({"osc": [{"port": port}]}))
    assert heard(show.pipeline, ear)["/anticip/param/pitch"] == [0.25]
    for key, *values in (
        ("osc/0/ranges/pitch/low", 100.0),
        ("osc/0/ranges/pitch/high", 500.0),
        ("osc/0/addresses/pitch", "/synth/freq"),
        ("osc/0/addresses/loudness", "/n_set", 1000, "amp"),
        ("osc/0/send/pan", False),
        ("osc/0/send/limbs", 0.0),
        ("osc/0/send/onset", 0),
    ):
        show.do(f"rig/{key}", *values)
    lines = heard(show.pipeline, ear)
    assert lines["/synth/freq"] == [200.0]
    assert lines["/n_set"] == [1000, "amp", 0.25]
    assert not {"/anticip/param/pan", "/anticip/limbs", "/anticip/event/onset"} & lines.keys()
    assert "/anticip/param/space" in lines
    show.do("rig/osc/0/send/pan", 1)
    assert "param" in show.rig.osc[0].send
    assert heard(show.pipeline, ear)["/anticip/param/pan"] == [0.25]


@pytest.mark.parametrize(
    ("name", "values", "says"),
    [
        ("rig/shape/pan/in", (0.8, 0.2), "rig: shape.pan.in: expected 0 <= low < high <= 1, got 0.8, 0.2"),
        ("rig/shape/pan/in", (float("nan"), 1.0), "shape.pan.in.0: input should be a finite number"),
        ("rig/shape/pann/steps", (3,), "shape.pann: unknown name; did you mean pan?"),
        ("rig/shape/pan/stepz", (3,), "shape.pan.stepz: unknown key; did you mean steps?"),
        ("rig/shape/taught/a/stepz", (3,), "shape.taught/a.stepz: unknown key; did you mean steps?"),
        ("rig/smoothing/pan/knd", ("none",), "smoothing.pan.knd: unknown key; did you mean kind?"),
        ("rig/osc/0/send/limbz", (0,), "limbz: unknown name; did you mean limbs?"),
        ("rig/smoothing/pan/kind", ("soft",), "smoothing.pan.kind: input should be 'spring'"),
        ("rig/osc/0/ranges/pitch/curve", ("exponential",), "exponential range: expected both ends > 0"),
        ("rig/osc/0/addresses/pitch", ("synth",), "expected an address that starts with '/'"),
        ("rig/osc/0/addresses/pitch", ("/a", "b\0c"), "expected an address that starts with '/'"),
        ("rig/osc/0/addresses/pitch", ("/a", 1 << 70), "expected numbers of 32 bits"),
        ("rig/osc/0/send/pich", (1,), "pich: unknown name"),
        ("rig/osc/3/send/pitch", (1,), "send/pitch: 1 receiver, counted from 0"),
        ("rig/osc/one/send/pitch", (1,), "rig/osc/one/send/pitch: no such key"),
        ("rig/osc/0/port", (9001,), "osc.0.port: needs a restart"),
        ("rig/source/kind", ("vmc",), "source: needs a restart"),
        ("rig/gian", (1.0,), "rig: gian: unknown key; did you mean gain?"),
        ("rig/", (), "no such key"),
        ("rig/merge", ("[",), "expected JSON"),
        ("rig/merge", ('"a"',), "expected an object"),
        ("rig/merge", ('{"shape": {"taught/\\ud800": {"steps": 3}}}',), "expected JSON"),
        ("rig/merge", ('{"gain": 0.5, "osc": []}',), "another number of receivers needs a restart"),
        ("learn/pann", (1,), "no output 'pann'; did you mean pan?"),
        ("learn/pan", (0,), "learn/pan: not begun"),
    ],
)
def test_a_refused_change_is_one_line_and_changes_nothing(play, ear, name, values, says):
    show = play(rig_of({"osc": [{"port": ear.getsockname()[1]}]}))
    show.do("rig/shape/pan/steps", 3)
    before, sent = show.rig, heard(show.pipeline, ear)
    with pytest.raises(MotionError) as caught:
        show.do(name, *values)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert show.rig == before
    assert show.pipeline.mixer.gain == 1.0
    assert heard(show.pipeline, ear) == sent


def test_a_range_is_learned_by_moving(play: Play) -> None:
    show = play(rig_of({"osc": [], "smoothing": {"default": {"kind": "none"}}}))
    mixer = show.pipeline.mixer

    def move(*levels: float) -> list[float]:
        # Long enough for a change of shape to end.
        frames = [mixer.play(step(level), [0.5] * 7, 0.02)[0] for level in levels for _ in range(15)]
        return [frame[PAN] for frame in frames[14::15]]

    show.do("rig/shape/density/in", float(np.float32(0.1)), 0.9)
    assert show.rig.shape["density"].span == (0.1, 0.9)
    assert show.do("learn/pan", True) == "move"
    # While learning, it plays as before.
    assert move(0.3, 0.30625, 0.7002) == pytest.approx([0.3, 0.30625, 0.7002])
    begun_now = play(rig_of({"osc": []}))
    begun_now.replays(show.commands.state_as_commands(0))
    assert show.do("learn/pan", False) == begun_now.do("learn/pan", False) == "0.3 0.701"
    assert show.rig.shape["pan"].span == (0.3, 0.701)
    assert move(0.3, 0.701, 0.9) == pytest.approx([0.0, 1.0, 1.0], abs=1e-6)
    # Learning again measures the input, not the shaped output.
    show.do("learn/pan", 1)
    move(0.1, 0.9)
    assert show.do("learn/pan", 0) in ("0.1 0.9", "0.099 0.9", "0.1 0.901", "0.099 0.901")
    show.do("learn/pan", 1)
    move(0.5, 0.51)
    for _ in range(2):
        with pytest.raises(OptionError, match="moved too little"):
            show.do("learn/pan", 0)
    move(0.9)
    assert show.do("learn/pan", 0).startswith("0.5 0.9")
    # Another client removes its shape meanwhile: what was measured still counts.
    show.do("learn/pan", 1)
    move(0.2, 0.6)
    show.do("rig/shape/pan/in")
    assert move(0.4) == [pytest.approx(0.4)]
    assert show.do("learn/pan", 0) in ("0.2 0.6", "0.199 0.6", "0.2 0.601", "0.199 0.601")


def test_a_group_is_split_and_joined() -> None:
    without = with_part(PARTS, "pan", False)
    assert "param" not in without
    assert [name for name in without if name in PARAMETERS] == [p for p in PARAMETERS if p != "pan"]
    assert set(with_part(without, "pan", True)) == set(PARTS)
    assert with_part(["pitch"], "pitch", True) == ["pitch"]


def test_every_listed_key_accepts_its_value(play: Play) -> None:
    rig = rig_of({"osc": [{"port": 9001}, {"transport": "tcp", "port": 9002}]})
    show = play(rig)
    for key, takes, value in show.commands.live_rig.settable():
        show.do(f"rig/{key}", *value)
        # An address may be followed by any number of arguments.
        assert key.startswith("osc") or len(value) in (0, len(takes.types)), key
    assert show.rig.osc[0].send == rig.osc[0].send
    nodes = controls(
        (), {"learn/": show.commands.live_rig.outputs()}, None, show.commands.live_rig.settable()
    )
    assert nodes["/anticip/control/rig/shape/pan/in"]["VALUE"] == [0.0, 1.0]
    assert nodes["/anticip/control/learn/pan"]["TYPE"] == "T"
    assert all(len(node.get("VALUE", node["TYPE"])) == len(node["TYPE"]) for node in nodes.values())


UNIT = st.floats(0.0, 1.0)
WORDS = st.one_of(
    UNIT, st.floats(), st.integers(), st.booleans(), st.text(max_size=5), st.sampled_from(["/a"])
)
KEYS = [
    *(f"shape/{n}/{f}" for n in ("pan", "taught/x") for f in ("in", "invert", "threshold", "steps")),
    *(f"smoothing/{n}/{f}" for n in ("pan", "default") for f in ("kind", "half_life", "beta")),
    *(f"osc/0/{f}" for f in ("prefix", "send/pan", "send", "max_rate", "addresses/pan", "schedule")),
    *(f"osc/0/ranges/pan/{f}" for f in ("low", "high", "curve", "exponent")),
    "gain", "lead_ms", "osc", "osc/0", "shape", "", "osc/1/send/pan",
]  # fmt: skip
EDITS = st.lists(st.tuples(st.sampled_from(KEYS), st.lists(WORDS, max_size=3)), max_size=25)


@settings(
    max_examples=min(60, settings().max_examples), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    edits=EDITS,
    text=st.sampled_from(["", template(), "shape.pan = {steps = 3}\n[[osc]]\nranges.pan.low = 2\n"]),
)
def test_any_changed_rig_can_be_saved_and_read(play, tmp_path, edits, text):
    file = tmp_path / "rig.toml"
    file.write_text(text)
    rig = load_rig(file, QUIET)
    show = play(rig, tmp_path)
    for key, values in edits:
        before = show.rig
        try:
            show.do(f"rig/{key}", *values)
        except (MotionError, TypeError):
            assert show.rig == before
    show.do("rig/save")
    again = load_rig(file, QUIET)
    playing_now = show.rig
    for name in ("gain", "lead_ms", "smoothing"):
        assert getattr(again, name) == getattr(playing_now, name)
    for read, played in zip(again.osc, playing_now.osc, strict=True):
        plain = {"pan": Range()}
        assert {**plain, **read.ranges} == {**plain, **played.ranges}
        assert read.model_copy(update={"ranges": {}}) == played.model_copy(update={"ranges": {}})
    assert again.shape == playing_now.shape


def test_saving_keeps_comments_and_needs_a_name_without_a_rig(play, tmp_path):
    file = tmp_path / "stage.toml"
    file.write_text(
        "# The tour.\ngain = 1.0  # not louder\n\n[shape.pan]\nin = [0.2, 0.8]  # of the left arm\n\n"
        "[[osc]]\nport = 9001  # the lights\nranges.pan = { low = -1.0, high = 1.0 }  # both sides\n"
    )
    rig = load_rig(file, QUIET)
    show = play(rig, tmp_path)

    show.do("gain", float(np.float32(0.7)))
    show.do("rig/shape/pan/in", 0.1, 0.9)
    show.do("rig/osc/0/ranges/pan/low", -0.5)
    show.do("preset", "choir")
    assert show.do("rig/save") == str(file)
    text = file.read_text()
    for line in (
        "# The tour.",
        "gain = 0.7  # not louder",
        "in = [0.1, 0.9]  # of the left arm",
        "port = 9001  # the lights",
        "ranges.pan = { low = -0.5, high = 1.0 }  # both sides",
        'preset = "choir"',
    ):
        assert line in text
    # Other changes of the file meanwhile are kept.
    file.write_text(text + "\n[silence]\nhold = 3.0\n")
    show.do("rig/shape/pan/steps", 3)
    assert show.do("rig/save", "second") == str(tmp_path / "second.toml")
    again = load_rig(tmp_path / "second.toml")
    assert (again.silence.hold, again.shape["pan"].steps, again.gain) == (3.0, 3, 0.7)
    with pytest.raises(OptionError, match="already exists"):
        show.do("rig/save", "stage")
    for name in ("../out", "/elsewhere/out", ".out", "a/b", "a\nb", [0.1, 0.2], (0, 144, 60, 1), b"x", True):
        with pytest.raises(OptionError, match="expected a plain file name"):
            show.do("rig/save", name)

    alone = rig_of(
        {"source": {"kind": "vmc", "port": 39999}, "record": "take.anticip", "osc": [{"port": 9005}]}
    )
    show = play(alone, tmp_path)
    show.do("rig/shape/density/steps", 5)
    with pytest.raises(OptionError, match="expected a name for its file"):
        show.do("rig/save")
    show.do("rig/save", "new")
    found = load_rig(tmp_path / "new.toml")
    assert found.model_dump() == show.rig.model_copy(update={"record": None}).model_dump()
    show.do("rig/shape/density/steps", 7)
    assert show.do("rig/save") == str(tmp_path / "new.toml")
    assert load_rig(tmp_path / "new.toml").shape["density"].steps == 7
    (tmp_path / "new.toml").write_text("gain = [")
    with pytest.raises(RigError, match="not valid TOML"):
        show.do("rig/save")
    # If the file was emptied or deleted, everything that plays is written, not just changes.
    for spoil in (lambda: (tmp_path / "new.toml").write_text(""), (tmp_path / "new.toml").unlink):
        spoil()
        show.do("rig/save")
        found = load_rig(tmp_path / "new.toml")
        assert found.model_dump() == show.rig.model_copy(update={"record": None}).model_dump()


def test_paths_outside_the_show_s_folder_are_refused(tmp_path: Path) -> None:
    show, secret = tmp_path / "show", tmp_path / "secret.toml"
    (show / "mine").mkdir(parents=True)
    secret.write_text("")
    (show / "mine" / "a.toml").write_text("")
    (show / ".hidden").write_text("")
    (show / "link.toml").symlink_to(secret)
    (show / "up").symlink_to(tmp_path)
    (show / "near.toml").symlink_to(show / "mine" / "a.toml")
    assert inside(show, "mine/a.toml", "load").is_file()
    assert inside(show, "near.toml", "load").is_file()
    assert inside(show, "near", "rig/load", ".toml") == show / "near.toml", "the name it was saved under"
    (show / "mine.toml").touch()
    assert inside(show, "mine", "rig/load", ".toml") == show / "mine.toml", "beside a folder, too"
    for name in (
        "../secret.toml", "mine/../../secret.toml", str(secret), "link.toml", "up/secret.toml", ".hidden",
        "", ".", "..", "nothing.toml", "a\0b", "~/x", "mine/./../../secret.toml", "x" * 5000,
    ):  # fmt: skip
        for written in (name, name.removesuffix(".toml")):
            with pytest.raises(OptionError):
                inside(show, written, "load", ".toml")


def test_a_name_made_of_the_time_is_free_within_the_same_second(tmp_path: Path) -> None:
    for name in ("piece.memory", "piece-2.memory"):
        assert unused(tmp_path / "piece.memory").name == name
        (tmp_path / name).touch()


def test_a_merge_patch_sets_many_keys_at_once(play: Play) -> None:
    show = play(rig_of({"osc": [], "shape": {"pan": {"steps": 3}}}))
    patch = {"shape": {"pan": None, "density": {"in": [0.1, 0.5]}}, "gain": 0.5, "lead_ms": 120.0}
    assert show.do("rig/merge", json.dumps(patch)) == "shape, gain, lead_ms"
    assert set(show.rig.shape) == {"density"}
    assert (show.pipeline.mixer.gain, show.pipeline.mixer.lead_ms) == (0.5, 120.0)


def test_a_loaded_rig_is_applied_as_far_as_possible(play: Play, tmp_path: Path) -> None:
    first = tmp_path / "begun.toml"
    first.write_text("[shape.pan]\nsteps = 3\n[model]\nenabled = false\n[memory]\nenabled = false\n")
    other = tmp_path / "other.toml"
    other.write_text(
        "# Mine.\ngain = 0.5\n[shape.density]\ninvert = true\n[smoothing.pan]\nkind = 'none'\n"
        "[[osc]]\nranges.pan = { low = -1.0, high = 1.0 }  # both sides\n"
        "[source]\nkind = 'vmc'\n[synth]\npreset = 'choir'\n[silence]\nhold = 9.0\n"
        "[model]\nenabled = false\n[memory]\nenabled = false\n"
    )
    (tmp_path / "wrong.toml").write_text("gain = 9")
    (tmp_path / "more.toml").write_text(first.read_text() + "[[osc]]\nport = 9001\n[[osc]]\nport = 9002\n")
    rig = load_rig(first)
    show = play(rig, tmp_path)

    assert show.do("rig/load", "other.toml") == (
        "shape, smoothing, osc, gain, lead_ms; preset choir; needs a restart: source, silence"
    )
    now = show.rig
    assert (set(now.shape), now.smoothing["pan"].kind, now.gain) == ({"density"}, "none", 0.5)
    assert (now.osc[0].ranges["pan"].low, show.commands.preset, now.source.kind) == (-1.0, "choir", "mocopi")
    with pytest.raises(RigError, match=r"wrong\.toml: gain"):
        show.do("rig/load", "wrong.toml")
    for name in ("../begun.toml", str(first), "nothing.toml"):
        with pytest.raises(OptionError):
            show.do("rig/load", name)
    assert show.rig.gain == 0.5
    assert show.do("rig/load", "more.toml").endswith("needs a restart: osc")
    assert show.rig.osc[0].ranges["pan"].low == -1.0
    with pytest.raises(MotionError):
        show.do("memory/load", "other.toml")


def test_a_model_is_loaded_during_the_show(play: Play, tmp_path: Path) -> None:
    another_checkpoint(tmp_path / "other")
    first = tmp_path / "begun.toml"
    first.write_text("# Mine.\n[memory]\nenabled = false\n")
    (tmp_path / "next.toml").write_text("[memory]\nenabled = false\n")
    rig = load_rig(first)
    show = play(rig, tmp_path)
    skeleton, frames = mocopi_datagrams(80)

    def feed(some: range) -> StepResult:
        for n in some:
            show.pipeline.feed(frames[n], n * 20_000_000)
        assert show.pipeline._step is not None
        return show.pipeline._step

    show.pipeline.feed(skeleton, 0)
    feed(range(40))
    packaged = show.pipeline.backend
    assert show.do("model/load", "other").startswith("model ")
    assert show.pipeline.backend is not packaged
    assert show.rig.model.checkpoint == str(tmp_path / "other")
    # It begins as a new stream.
    own = open_backend("rust", tmp_path / "other")
    after = feed(range(40, 41))
    np.testing.assert_array_equal(
        np.asarray(after.params),
        np.asarray(own.step(show.pipeline._front_output.features[-1:]).params),  # type: ignore[union-attr]
    )
    for name in ("../other", "begun.toml", "nothing"):
        with pytest.raises(MotionError):
            show.do("model/load", name)
    assert show.pipeline.backend.manifest == own.manifest
    show.do("rig/save")
    assert load_rig(first).model.checkpoint == str(tmp_path / "other")
    # A rig that does not name a model means the packaged one.
    assert "needs a restart" not in show.do("rig/load", "next.toml")
    assert show.pipeline.backend.manifest == packaged.manifest
    assert show.rig.model.checkpoint is None
    assert feed(range(41, 80)).finite


def test_a_mapping_is_not_used_with_another_model(play: Play, tmp_path: Path) -> None:
    another_checkpoint(tmp_path / "other")
    show = play(rig_of({"model": {"enabled": True}}), tmp_path)
    packaged = show.pipeline.backend
    mapping = SimpleNamespace(needs_model=True, check_model=Mock(side_effect=CheckpointError("taught on it")))
    show.pipeline.live_mapping = SimpleNamespace(mapping=mapping)  # type: ignore[assignment]
    with pytest.raises(CheckpointError, match="taught on it"):
        show.do("model/load", "other")
    assert show.pipeline.backend is packaged
    assert show.rig.model.checkpoint is None


def test_the_files_of_the_show_s_folder_are_listed_and_none_outside(tmp_path: Path) -> None:
    show, away = tmp_path / "show", tmp_path / "away"
    for path in (
        "show/a.toml", "show/b.toml", "show/deep/er/c.toml", "show/piece.memory",
        "show/mine/mapping.safetensors",
        "show/mine/mappings/old.safetensors", "show/model/model.json", "show/model/model.safetensors",
        "show/.x/d.toml", "show/notes.txt", "away/e.toml", "away/f.memory",
    ):  # fmt: skip
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("gain = 0.5\n")
    (show / "b.toml").write_text("[tool.other]\n")
    (show / "link.toml").symlink_to(away / "e.toml")
    (show / "there").symlink_to(away)
    (show / "round").symlink_to(show)
    assert listing(show) == {
        "rigs": ["a.toml", "deep/er/c.toml"],
        "mappings": ["mine/mapping.safetensors", "mine/mappings/old.safetensors"],
        "memories": ["piece.memory"],
        "models": ["model"],
    }
    assert all(inside(show, name, "load") for names in listing(show).values() for name in names)
    assert listing(tmp_path / "nowhere") == {"rigs": [], "mappings": [], "memories": [], "models": []}
