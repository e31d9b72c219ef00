import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from support.clips import swing
from support.full_disk import full_disk

from pyanticip.errors import CheckpointError, DeviceError, FormatError, OptionError
from pyanticip.motion.load import load_motion
from pyanticip.teach.options import FitOptions
from pyanticip.teach.outputs import Output
from pyanticip.teach.project import Project
from realtime.teaching.checking import check_project
from realtime.teaching.fitting import fit_project


def test_a_take_comes_back_as_it_was(project: Project) -> None:
    clip = swing(1.2, seed=9)
    curve = np.linspace(300, 5000, len(clip) - 10)
    project.add_take("bent", clip, begin=10, values={"brightness": 0.5}, columns={"cutoff": curve})
    again = Project.open(project.folder)
    take = again.state.take("bent")
    assert (take.frames, take.begin) == (50, 10)
    assert np.array_equal(again.motion(take).quats, clip.quats)
    wanted = again.targets(take)
    assert np.array_equal(wanted["cutoff"], curve)
    assert np.array_equal(wanted["brightness"], np.full(50, 0.5))
    assert load_motion(again.motion_path(take)).frames == 60, "a take is a motion file"
    assert again.problems() == []


def test_undo_goes_back_step_by_step(project: Project) -> None:
    at_first = project.state
    project.remove_take("left 0")
    project.rename_take("right 0", "east")
    assert project.undo() == "rename take right 0 to east"
    assert project.undo() == "remove take left 0"
    assert (project.state.takes, project.state.outputs) == (at_first.takes, at_first.outputs)
    for _ in range(4):
        project.undo()
    with pytest.raises(OptionError, match="nothing to undo"):
        project.undo()
    project.restore(at_first.revision)
    assert project.state.takes == at_first.takes
    assert project.undo() == f"go back to revision {at_first.revision}"
    assert project.state.takes == ()


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "teaches nothing"),
        ({"brigthness": 0.5}, "did you mean brightness"),
        ({"cutoff": 100}, "within 200..8000"),
        ({"cutoff": float("nan")}, "finite"),
    ],
)
def test_what_a_take_may_want(project: Project, values: dict[str, float], reason: str) -> None:
    before = project.state
    with pytest.raises(OptionError, match=reason):
        project.add_take("new", swing(1), values=values)
    assert Project.open(project.folder).state == before


@pytest.mark.parametrize(
    ("value", "reason"),
    [(100.0, "within 200..8000, got 100"), (9000.0, "got 9000"), (float("nan"), "must be 50 finite numbers")],
)
def test_a_curve_is_finite_and_within_its_output(project: Project, value: float, reason: str) -> None:
    curve = np.full(50, 500.0)
    curve[3] = value
    with pytest.raises(OptionError, match=reason):
        project.add_take("new", swing(1), columns={"cutoff": curve})


def test_names_and_lengths(project: Project) -> None:
    for name in ("", "../up", "a/b", " a", ".hidden", "x" * 65):
        with pytest.raises(OptionError, match="take name"):
            project.add_take(name, swing(1), values={"brightness": 0.5})
    for name in ("première prise", "ダンス 2", unicodedata.normalize("NFD", "über")):
        project.add_take(name, swing(1), values={"brightness": 0.5})
        assert Project.open(project.folder).state.take(name).name == name
        project.remove_take(name)
    with pytest.raises(OptionError, match="already exists"):
        project.add_take("left 0", swing(1), values={"brightness": 0.5})
    with pytest.raises(OptionError, match="no take 'none'; there are right 0"):
        project.remove_take("none")
    with pytest.raises(OptionError, match="'left 1' already exists"):
        project.rename_take("left 0", "left 1")
    with pytest.raises(OptionError, match="a sound parameter"):
        project.rename_output("cutoff", "brightness")
    with pytest.raises(OptionError, match="twice"):
        project.add_output(Output("cutoff"))
    with pytest.raises(OptionError, match="50 Hz"):
        project.add_take("slow", swing(2).resample(25), values={"brightness": 0.5})


def test_a_damaged_file_is_found(project: Project) -> None:
    take = project.state.take("left 1")
    path = project.motion_path(take)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(FormatError, match=r"take left 1: .* damaged.*; without it: .* remove .* 'left 1'$"):
        project.motion(take)
    (found,) = project.problems()
    assert found.startswith("take left 1: ")
    project.motion_path(project.state.take("left 0")).unlink()
    assert len(project.problems()) == 2


def test_a_damaged_take_can_be_added_again(tmp_path: Path) -> None:
    project = Project.create(tmp_path / "mine", (Output("mix"),))
    for _ in range(2):
        take = project.add_take("a", swing(1.0), values={"mix": 0.5})
        assert project.problems() == []
        project.motion_path(take).write_bytes(b"")
        project.remove_take("a")


def test_a_damaged_manifest_says_where_to_go_back_to(project: Project) -> None:
    manifest = project.folder / "project.json"
    whole = project.state
    manifest.write_bytes(manifest.read_bytes()[:100])
    with pytest.raises(FormatError, match=r"not valid JSON; go back: .* --to 4"):
        Project.open(project.folder)
    again = Project.restored(project.folder, 4)
    assert again.state.takes == whole.takes
    assert Project.open(project.folder).state.takes == whole.takes


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"version": 99},
        {"version": "1"},
        {"revision": "x"},
        {"revision": -3},
        {"outputs": [{"name": "x", "wide": 1}]},
        {"outputs": 5},
        {"takes": [{}]},
        {"takes": [5]},
    ],
)
def test_a_foreign_manifest_is_one_line(project: Project, change: dict[str, object]) -> None:
    path = project.folder / "project.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(FormatError) as told:
        Project.open(project.folder)
    assert "\n" not in str(told.value)


def test_a_project_begins_where_nothing_is(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="not a teaching project"):
        Project.open(tmp_path / "none")
    (tmp_path / "file.txt").write_text("mine")
    with pytest.raises(OptionError, match="already exists"):
        Project.create(tmp_path)
    with pytest.raises(OptionError, match="already exists"):
        Project.create(tmp_path / "file.txt")
    with pytest.raises(OptionError, match="mine: the folder "):
        Project.create(tmp_path / "missing" / "mine")
    assert not (tmp_path / "missing").exists()
    with full_disk(), pytest.raises(DeviceError, match="new: cannot be written"):
        Project.create(tmp_path / "new")
    Project.create(tmp_path / "new")


def test_two_writers_take_turns(project: Project) -> None:
    code = (
        "import sys, time, fcntl, os; from pathlib import Path\n"
        "handle = os.open(Path(sys.argv[1]) / '.lock', os.O_RDWR | os.O_CREAT)\n"
        "fcntl.flock(handle, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(project.folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert child.stdout.readline() == b"held\n"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("pyanticip.teach.project._LOCK_TIMEOUT_S", 0.1)
            with pytest.raises(DeviceError, match="another program"):
                project.remove_take("left 0")
    finally:
        child.communicate()
    project.remove_take("left 0")


def test_another_program_s_changes_are_kept(project: Project) -> None:
    other = Project.open(project.folder)
    other.add_output(Output("mix"))
    project.remove_take("left 0")
    assert [o.name for o in project.state.outputs] == ["brightness", "cutoff", "mix"]
    with pytest.raises(OptionError, match="no take 'left 0'"):
        other.remove_take("left 0")
    assert other.state == project.state, "what was refused shows what is there"
    project.rename_take("left 1", "west")
    aside = (project.folder / "project.json").rename(project.folder / "aside")
    other.refresh()
    assert other.state.take("left 1"), "what cannot be read now is left for later"
    aside.rename(project.folder / "project.json")
    other.refresh()
    assert other.state == project.state


def test_an_output_goes_nowhere_where_the_instrument_sends(project: Project) -> None:
    project.add_output(Output("a", address="/anticip/param/a"))
    for address in ("/anticip/frame", "/anticip/param/pitch", "/anticip/param/cutoff", "/anticip/class/pose"):
        with pytest.raises(OptionError, match=f"output b: {address} is the instrument's own"):
            project.add_output(Output("b", address=address))
    with pytest.raises(OptionError, match="output b: /anticip/param/a is"):
        project.rename_output("a", "b")
    manifest = project.folder / "project.json"
    manifest.write_text(manifest.read_text().replace("/anticip/param/a", "/anticip/frame"))
    stored = Project.open(project.folder)
    stored.remove_take("left 0")
    (line,) = check_project(project.folder)["warnings"][:1]
    assert line == "output a: /anticip/frame is the instrument's own; expected another address, as /synth/x"
    assert line in fit_project(project.folder, FitOptions(kind="ridge"), model=False)["warnings"]
    stored.change_output("a", address="/synth/a")
    assert not any(output.problem for output in stored.state.outputs)
    with pytest.raises(CheckpointError, match=r"model\.json: no such file"):
        check_project(project.folder, checkpoint=project.folder)


def test_a_column_of_render_is_no_new_output_and_an_old_one_can_be_renamed(project: Project) -> None:
    with pytest.raises(OptionError, match="render has a column of that name; rename it"):
        project.add_output(Output("onset_ahead"))
    with pytest.raises(OptionError, match="render has a column of that name"):
        Project.create(project.folder / "new", (Output("phrase_ahead"),))
    project.add_output(Output("early"))
    manifest = project.folder / "project.json"
    manifest.write_text(manifest.read_text().replace('"early"', '"onset_ahead"'))
    stored = Project.open(project.folder)
    stored.remove_take("left 0")
    assert "output onset_ahead: render has" in check_project(project.folder)["warnings"][0]
    stored.rename_output("onset_ahead", "early")
    assert not any(output.problem for output in stored.state.outputs)


def test_a_full_disk_leaves_the_revision_before(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    before = project.state
    real = os.replace

    def full(source: object, target: object, **more: object) -> None:
        if str(target).endswith("project.json"):
            raise OSError(28, "No space left on device")
        real(source, target)  # type: ignore[arg-type]

    monkeypatch.setattr("os.replace", full)
    monkeypatch.setattr("pathlib.Path.replace", lambda self, target: full(self, target))
    with pytest.raises(DeviceError, match="no space left"):
        project.remove_take("left 0")
    monkeypatch.undo()
    assert Project.open(project.folder).state == before
    assert not [p for p in project.folder.iterdir() if p.name.startswith(".project")]
    project.remove_take("left 1")
    assert Project.open(project.folder).state.revision == before.revision + 1
