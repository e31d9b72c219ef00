"""A mapping in the pipeline: its live output equals its offline output."""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.clips import LEFT_ARM, swing
from support.ear import Ear
from support.playing import Playing, outputs, replayed
from support.wire import heard_of

from pyanticip.errors import CheckpointError, FormatError, OptionError
from pyanticip.models import ModelConfig, MotionTransformer, save_checkpoint
from pyanticip.motion.datagrams import datagrams
from pyanticip.motion.recording import RecordingWriter
from pyanticip.teach.mapping import load_mapping
from pyanticip.teach.options import FitOptions
from pyanticip.teach.outputs import Output
from pyanticip.teach.project import MAPPING, Project
from pyanticip.vocabulary import PARAMETERS
from realtime.clock import OfflineClock
from realtime.control.commands import Commands
from realtime.mapping.live_mapping import LiveMapping, open_mapping
from realtime.mapping.mixer import Mixer
from realtime.pipeline import Pipeline
from realtime.programs.live import replay
from realtime.programs.render import render
from realtime.rig import Rig, load_rig
from realtime.sinks.base import ControlFrame
from realtime.sources.replay import Datagram, open_show, play_offline
from realtime.stage import assemble, recording_header
from realtime.step.base import StepResult
from realtime.step.open import open_backend, open_processor
from realtime.teaching.checking import check_project
from realtime.teaching.fitting import fit_project, input_blocks


def shown(pairs: Iterable[tuple[int, bytes]]) -> Iterator[Datagram]:
    return (Datagram(*pair) for pair in pairs)


@pytest.fixture(scope="module")
def taught_project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    outputs = (Output("brightness"), Output("cutoff", 200, 8000, "exponential", address="/synth/cutoff"))
    project = Project.create(tmp_path_factory.mktemp("teach") / "mine", outputs)
    for i in range(2):
        project.add_take(f"right {i}", swing(3, seed=i), values={"brightness": 0.9, "cutoff": 6000})
        left = swing(3, joint=LEFT_ARM, level=1.0, seed=i)
        project.add_take(f"left {i}", left, values={"brightness": 0.1, "cutoff": 300})
    return project


@pytest.fixture(scope="module")
def fitted(taught_project: Project) -> Path:
    report = fit_project(taught_project.folder, FitOptions(kind="mlp", inputs=("body", "hidden")))
    assert report["model"] is not None
    assert max(report["parts"][0]["error"].values()) < 0.1
    return taught_project.folder / MAPPING


def test_live_says_what_the_take_says_offline(taught_project: Project, fitted: Path) -> None:
    """Datagrams of a take through the live front-end, the model's steps and the mapping, frame by frame."""
    take = taught_project.state.take("left 1")
    clip = taught_project.motion(take)
    mapping = load_mapping(fitted)
    offline = mapping.apply_batch(input_blocks(clip.features(), open_processor()))

    ear, clock = Ear(), OfflineClock()
    pipeline = assemble(
        # A clip's features know no noise gate.
        Rig(mapping=str(fitted), model={"backend": "rust"}, performer={"steady": False}),  # type: ignore[arg-type]
        clock,
        kind="msgpack",
        sinks=[ear],  # type: ignore[list-item]
    )
    pipeline.mixer.smoothing = 0.0
    live: list[list[float]] = []
    step = pipeline.live_mapping.step

    def watched(*given: Any) -> list[float] | None:
        live.append(list(step(*given) or []))
        return live[-1]

    pipeline.live_mapping.step = watched  # type: ignore[method-assign]
    play_offline(shown(datagrams(clip, "msgpack")), clock, pipeline.feed)
    pipeline.close()
    assert len(live) == len(clip)
    assert np.array(live) == pytest.approx(offline, abs=1e-3)
    assert ear.extras == ["cutoff"]
    last = ear.frames[-1]
    assert last.params[PARAMETERS.index("brightness")] == pytest.approx(live[-1][0], abs=1e-6)
    assert list(last.extras) == pytest.approx([live[-1][1]], abs=1e-6)
    assert f"mapping={mapping.name}" in pipeline.status()


def test_a_render_has_the_taught_outputs_in_their_own_units(taught_project, fitted, tmp_path):
    take = taught_project.motion_path(taught_project.state.take("right 1"))
    render(take, tmp_path / "a.npz", rig=Rig(mapping=str(fitted)))
    with np.load(tmp_path / "a.npz") as made:
        assert made["outputs"].tolist() == ["cutoff"]
        assert made["taught"].shape == (150, 1)
        assert 3000 < made["taught"][-1, 0] <= 8000
        assert made["params"][-1, PARAMETERS.index("brightness")] > 0.7
    render(take, tmp_path / "a.csv", rig=Rig(mapping=str(fitted)))
    header, *rows = (tmp_path / "a.csv").read_text().splitlines()
    assert header.split(",")[9] == "cutoff"
    assert float(rows[-1].split(",")[9]) > 3000


def test_a_taught_output_has_an_address_and_a_range_of_its_own() -> None:
    taught = Output("cutoff", 200, 8000, "exponential", address="/synth/cutoff"), Output("mix")
    heard = heard_of(ControlFrame(1, 0.0, [0.0] * 7, [0.5] * 8, extras=[1.0, 0.25]), taught)
    assert heard["/synth/cutoff"] == [8000.0]
    assert heard["/anticip/param/mix"] == [0.25]
    assert len(heard["/anticip/params"]) == 8
    assert "/synth/cutoff" not in heard_of(ControlFrame(2, 0.0, [0.0] * 7, [0.5] * 8), before=taught)


class Paper:
    names = ("brightness", "cutoff")
    neutral = (0.5, 0.0)


def test_the_desk_keeps_taught_outputs_from_jumping() -> None:
    hazards, scalars_ahead = np.zeros((2, 25), np.float32), np.zeros(7, np.float32)
    step = StepResult(np.full((8, 5), 0.3, np.float32), hazards, scalars_ahead, 1.0)
    mixer, scalars, heard = Mixer(), [0.5, 0.5, 0.0, 0.5, 0.5, 0.5, 0.5], []

    def play(taught: list[float] | None, frames: int) -> None:
        for _ in range(frames):
            params, _ = mixer.play(step, scalars, 0.02, taught)
            heard.append([params[PARAMETERS.index("brightness")], *mixer.extras])

    play(None, 50)
    assert heard[-1] == pytest.approx([0.3])
    heard.clear()
    mixer.set_mapping(Paper())
    play([1.0, 1.0], 50)
    assert heard[0] == pytest.approx([0.3, 0.0], abs=0.05), "it begins where the model was, or at neutral"
    assert heard[-1] == pytest.approx([1.0, 1.0], abs=1e-3)
    play(None, 50)
    assert heard[-1] == pytest.approx([0.3, 1.0], abs=1e-3), "without the mapping its own output holds"
    mixer.set_mapping(Paper())
    play([1.0, 0.8], 30)
    assert heard[-30][1] == pytest.approx(1.0, abs=0.05), "a new mapping goes on from where the old one was"
    mixer.set_mode("panic")
    play([1.0, 0.8], 10)
    assert heard[-1] == pytest.approx([0.5, 0.0], abs=1e-6)
    mixer.set_mode("playing")
    play([1.0, 0.8], 60)
    mixer.silence(0.5)
    assert mixer.extras == pytest.approx([0.8], abs=1e-3)
    for _ in range(4):
        mixer.silence(1.0)
    assert mixer.extras == pytest.approx([0.0], abs=1e-6), "it fades in silence"
    assert max(np.abs(np.diff(np.array(heard[52:]), axis=0)).max(0)) < 0.5


def test_far_from_everything_shown_it_holds_or_goes_to_neutral(taught_project: Project) -> None:
    for beyond in ("hold", "neutral"):
        options = FitOptions(kind="ridge", inputs=("body",), beyond=beyond, novelty=1.5)
        fit_project(taught_project.folder, options, model=False)
        taught = open_mapping(taught_project.folder / MAPPING, None)
        known = taught_project.motion(taught_project.state.take("right 0")).features()
        for row in known[-40:]:
            said = taught.step(row, None, 0.02)
        strange = swing(1, joint=1, level=2.5, speed=0.1).features()
        far = [taught.step(row, None, 0.02) for row in np.repeat(strange[25:26], 40, 0)]
        assert taught.is_beyond
        assert taught.novelty > 1.5
        wanted = said if beyond == "hold" else taught.neutral
        assert far[-1] == pytest.approx(wanted, abs=0.05)
        back = [taught.step(row, None, 0.02) for row in known[-40:]]
        assert back[-1] == pytest.approx(said, abs=1e-3)
        assert not taught.is_beyond


def test_a_mapping_of_another_model_or_without_one_is_refused(taught_project, tmp_path):
    fit_project(taught_project.folder, FitOptions(kind="ridge", inputs=("hidden",)))
    file = taught_project.folder / MAPPING

    class Other:
        class manifest:
            name = "other-1"
            sha256: dict[str, str] = {"model.safetensors": "0" * 64}

        hidden = 128

    with pytest.raises(CheckpointError, match="this one is other-1: fit it again"):
        open_mapping(file, Other())
    with pytest.raises(CheckpointError, match="needs it; play with that model"):
        open_mapping(file, None)
    with pytest.raises(FormatError, match="no such file"):
        assemble(Rig(mapping=str(tmp_path / "none"), model={"enabled": False}), OfflineClock())  # type: ignore[arg-type]


def test_a_suit_that_lacks_joints_is_told_of(taught_project: Project) -> None:
    fit_project(taught_project.folder, FitOptions(kind="ridge", inputs=("body",)), model=False)
    ear, clock = Ear(), OfflineClock()
    rig = Rig(mapping=str(taught_project.folder / MAPPING), model={"enabled": False})  # type: ignore[arg-type]
    clip = swing(1)
    vmc = list(datagrams(clip, "vmc"))
    pipeline = assemble(rig, clock, kind="vmc", sinks=[ear])
    play_offline(shown(vmc), clock, pipeline.feed)
    assert pipeline.missing_joints == []
    pipeline.front = Sparse(pipeline.front)
    play_offline(shown(vmc), clock, pipeline.feed)
    assert pipeline.missing_joints == ["left_toes", "right_toes"]
    assert any(word == "lacking=left_toes,right_toes" for word in pipeline.status())


class Sparse:
    """A front-end whose source has no toes."""

    def __init__(self, front: Any) -> None:
        self._front = front

    @property
    def mask(self) -> Any:
        mask = np.array(self._front.mask)
        mask[[17, 21]] = False
        return mask

    def __getattr__(self, name: str) -> Any:
        return getattr(self._front, name)


def test_a_mapping_that_breaks_leaves_the_stage(taught_project: Project) -> None:
    fit_project(taught_project.folder, FitOptions(kind="ridge", inputs=("body",)), model=False)
    taught = open_mapping(taught_project.folder / MAPPING, None)
    clock = OfflineClock()
    pipeline: Pipeline = assemble(Rig(model={"enabled": False}), clock, kind="msgpack", sinks=[Ear()])  # type: ignore[arg-type]
    pipeline.set_mapping(taught)

    def broken(*_: Any) -> list[float]:
        raise RuntimeError("out of paper")

    taught.step = broken  # type: ignore[method-assign]
    play_offline(shown(datagrams(swing(1), "msgpack")), clock, pipeline.feed)
    assert pipeline.counts["frames"] == 50
    assert pipeline.live_mapping is None
    assert "out of paper" in pipeline.mapping_error
    assert any("mapping=failed" in word for word in pipeline.status())
    # What it told beside the eight can be taken away.
    assert pipeline.mixer.extras
    assert Commands(pipeline).obey("unload") == "the model plays alone"
    assert (pipeline.mixer.extras, pipeline.mapping_error) == ([], "")
    with pytest.raises(OptionError, match="no mapping plays"):
        Commands(pipeline).obey("unload")


def test_rehearsing_leaves_no_trace(taught_project: Project) -> None:
    fit_project(taught_project.folder, FitOptions(kind="knn", inputs=("body",)), model=False)
    one, two = (LiveMapping(load_mapping(taught_project.folder / MAPPING)) for _ in range(2))
    rows = swing(1, seed=4).features()
    for row in rows:
        two.preview(rows[3], None)
        assert one.step(row, None, 0.02) == two.step(row, None, 0.02)
    assert one.novelty == two.novelty


def test_a_recording_begun_after_a_mapping_was_unloaded_replays_without_it(fitted, tmp_path):
    """The rig names the mapping, and it played: what is recorded says what plays then."""
    sent = list(shown(datagrams(swing(6), "msgpack")))
    # A memory would know what was before the recording began.
    off = {"control": {"enabled": False}, "osc": [], "memory": {"enabled": False}}
    rig = load_rig(None, {"mapping": str(fitted), "model": {"backend": "rust"}, **off})
    clock = OfflineClock()
    pipeline = assemble(rig, clock, kind="msgpack", sinks=[])
    commands = Commands(pipeline)
    file = tmp_path / "late.anticip"
    for n, item in enumerate(sent):
        clock.advance_to(item.t_ns)
        if n == 0:
            commands.obey("unload")
            pipeline.tape = tape = RecordingWriter(file, recording_header(rig, pipeline))
            for command in commands.state_as_commands(item.t_ns):
                tape.control(*command)
        pipeline.feed(item.data, item.t_ns, item.sender)
    pipeline.tape = None
    tape.close()
    pipeline.close()
    assert load_rig(None, off, file).mapping is None
    played = outputs(file)
    assert len(played) > 200
    assert replayed(file)[: len(played)] == played


def test_a_mapping_that_was_unloaded_is_not_saved_and_comes_back_with_a_rig(fitted, tmp_path):
    file, other = tmp_path / "stage.toml", tmp_path / "other.toml"
    for path in (file, other):
        path.write_text(f"mapping = '{fitted}'  # mine\nmodel.backend = 'rust'\nmemory.enabled = false\n")
    show = Playing(load_rig(file))
    show.do("rig/save")
    assert load_rig(file).mapping == str(fitted)
    show.do("unload")
    show.do("rig/save")
    assert load_rig(file).mapping is None
    show.do("rig/load", "other.toml")
    assert show.pipeline.live_mapping is not None
    show.close()


def test_a_mapping_that_was_loaded_is_loaded_again_by_a_replay(fitted: Path, tmp_path: Path) -> None:
    """A command of the recording; the same bits, and a word where the file is another one now."""
    file = tmp_path / "mapping.safetensors"
    shutil.copy(fitted, file)
    rig = Rig.model_validate({"osc": [], "model": {"backend": "rust"}, "control": {"enabled": False}})
    clock = OfflineClock()
    pipeline = assemble(rig, clock, kind="msgpack", sinks=[])
    commands = Commands(pipeline)
    with RecordingWriter(tmp_path / "first.anticip") as tape:
        pipeline.tape = tape
        for n, item in enumerate(shown(datagrams(swing(4), "msgpack"))):
            clock.advance_to(item.t_ns)
            if n == 60:
                commands.play_mapping(open_mapping(file, pipeline.backend), file)
            if n == 150:
                assert commands.obey("unload") == "the model plays alone"
            pipeline.feed(item.data, item.t_ns, item.sender)
        pipeline.tape = None
    pipeline.close()

    said: list[str] = []
    for name, tampered in (("second.anticip", False), ("third.anticip", True), ("fourth.anticip", False)):
        if name == "fourth.anticip":
            # A fit that the project has kept.
            (tmp_path / "mappings").mkdir()
            shutil.copy(fitted, tmp_path / "mappings" / "r000001-001.safetensors")
        if tampered:
            project = Project.create(tmp_path / "other", (Output("brightness"),))
            project.add_take("still", swing(3), values={"brightness": 0.5})
            fit_project(project.folder, FitOptions(kind="mlp", inputs=("body",)))
            shutil.copy(project.folder / MAPPING, file)
        kind, items = open_show(tmp_path / "first.anticip")
        again = rig.model_copy(update={"record": str(tmp_path / name)})
        replay(items, kind, again, speed=None, say=said.append)
        first = outputs(tmp_path / "first.anticip")
        assert (outputs(tmp_path / name)[: len(first)] == first) is not tampered
    assert sum("is another mapping now" in line for line in said) == 1


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A little model with a control field, which torch alone steps."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "d_model": 32,
        "heads": 4,
        "fast_layers": 1,
        "slow_layers": 1,
        "ff": 24,
        "window": 12,
    }
    model = MotionTransformer(ModelConfig(**sizes, slow_stride=1, control_field=True, dropout=0.0)).eval()
    return save_checkpoint(tmp_path / "checkpoint", model)


def test_a_model_of_any_configuration_is_taught(tmp_path: Path, checkpoint: Path) -> None:
    project = Project.create(tmp_path / "mine", (Output("brightness"), Output("cutoff", 200, 8000)))
    project.add_take("right", swing(1), values={"brightness": 0.9, "cutoff": 6000})
    project.add_take("left", swing(1, joint=LEFT_ARM, level=1.0), values={"brightness": 0.1, "cutoff": 300})
    options = FitOptions(kind="ridge", inputs=("hidden",))
    report = fit_project(project.folder, options, checkpoint=checkpoint)
    assert report["model"] is not None
    assert check_project(project.folder, checkpoint=checkpoint)["fine"]
    backend = open_backend("torch", checkpoint)
    try:
        assert open_mapping(report["mapping"], backend).names == ["brightness", "cutoff"]
    finally:
        backend.close()
