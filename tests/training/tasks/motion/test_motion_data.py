"""Training data: sets, folders of takes, and unusable data."""

import dataclasses
import io
import multiprocessing
import subprocess
import sys
import threading

import numpy as np
import pytest
from rich.console import Console

from pyanticip.errors import DeviceError, FormatError, OptionError
from training.data.batches import HORIZONS
from training.tasks.motion.data import TrainingData, change_scale, error_weights, statistics, training_data


def test_statistics_are_those_of_all_frames_together(example_of):
    examples = [example_of(n, n, "01") for n in (90, 300, 131)]
    rows = np.concatenate([e.features for e in examples]).astype(np.float64)
    mean, std = statistics(examples)
    np.testing.assert_allclose(mean, rows.mean(axis=0), atol=1e-6)
    wanted = np.where(rows.std(axis=0) > 1e-4, rows.std(axis=0), 1.0)
    np.testing.assert_allclose(std, wanted, rtol=1e-5)


def test_the_scale_is_the_mean_change_within_a_horizon(example_of):
    examples = [example_of(n, n, "01") for n in (90, 300)]
    scale = change_scale(examples)
    for i, h in enumerate(max(step, 5) for step in HORIZONS):
        moved = [np.abs(e.params[h:].astype(np.float64) - e.params[:-h]) for e in examples]
        np.testing.assert_allclose(scale[:, i], np.concatenate(moved).mean(axis=0))
    assert error_weights(scale).mean() == pytest.approx(1.0)


def broken(example, name, frame):
    rows = np.array(getattr(example, name))
    rows[frame, 3] = np.nan
    return dataclasses.replace(example, **{name: rows})


def test_what_nothing_can_be_learned_from_is_said(example_of):
    good, judge = example_of(300, 1, "01"), example_of(200, 2, "06")
    short = example_of(79, 3, "02")

    def made(originals, validation, **more):
        return TrainingData("mine", originals, originals, validation, "x", **more)

    with pytest.raises(OptionError, match=r"mine: holds one subject only \(01\); training needs another"):
        made([good], [])
    with pytest.raises(OptionError, match="mine: no validation subject among 01, 07"):
        made([good], [], test_subjects=("07",))
    with pytest.raises(OptionError, match="mine: no training subject among 06, 07"):
        made([], [judge], test_subjects=("07",))
    with pytest.raises(OptionError, match="mine: subject 01 is on both sides"):
        made([good], [dataclasses.replace(judge, subject="01")], test_subjects=("07",))
    with pytest.raises(OptionError, match=r"none of its 2 training clips is as long as 80 frames \(1.6 s\)"):
        made([short, short], [judge])
    found = made([good, short], [judge])
    assert found.originals == [good]
    assert found.train == [good]
    assert found.warnings == (
        "mine: 1 of 2 training clips are shorter than 80 frames (1.6 s) and are left out",
    )
    for name, frame in (("features", 7), ("params", 150)):
        with pytest.raises(FormatError, match=f"mine: clip m1: {name} of frame {frame} are not finite"):
            made([broken(good, name, frame)], [judge])


def test_a_folder_of_takes_becomes_a_set_once(takes, tiny, tmp_path):
    options = tiny(data={"path": str(takes), "copies": 1, "cache": str(tmp_path), "build_workers": 1})
    found = training_data(options)
    assert len({e.subject for e in (*found.originals, *found.validation)} | set(found.test_subjects)) == 3
    assert len(found.train) == 2 * len(found.originals)
    assert sorted(path.name.split("-")[0] for path in tmp_path.iterdir()) == ["copies", "lock", "set"]
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.glob("copies-*/*")}
    again = training_data(options)
    assert again.digest == found.digest
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("copies-*/*")} == stamps
    # The set itself can be given as well, and other copies are other data.
    (built,) = tmp_path.glob("set-*")
    assert training_data(options.replace(data={"path": str(built)})).digest == found.digest
    assert training_data(options.replace(data={"copies_seed": 1})).digest != found.digest


def test_runs_that_start_together_take_turns(takes, tiny, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    options = tiny(data={"path": str(takes), "cache": str(tmp_path / "cache"), "build_workers": 1})
    (tmp_path / "cache").mkdir()
    said, found = io.StringIO(), []
    with (tmp_path / "cache" / "lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        console = Console(file=said, width=200)
        other = threading.Thread(target=lambda: found.append(training_data(options, console)))
        other.start()
        while "waiting for it" not in said.getvalue():
            assert other.is_alive()
        assert list((tmp_path / "cache").iterdir()) == [tmp_path / "cache" / "lock"]
    other.join()
    assert len(found) == 1


def test_paths_that_are_wrong(takes, tiny, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(
        DeviceError, match=r"file/pyanticip: cannot be written \(not a .*; --cache names another$"
    ):
        training_data(tiny(data={"path": str(takes)}))
    with pytest.raises(OptionError, match="give it with --data"):
        training_data(tiny())
    with pytest.raises(FormatError, match="nowhere: no such folder; expected a set, or a folder of takes"):
        training_data(tiny(data={"path": str(tmp_path / "nowhere")}))


def test_a_worker_that_runs_its_parents_script_builds_nothing(takes, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)
    with pytest.raises(OptionError, match="under if __name__ == '__main__'"):
        training_data(tiny(data={"path": str(takes), "cache": str(tmp_path / "cache")}))
    assert not (tmp_path / "cache").exists()


def test_a_script_without_a_guard_ends_with_a_sentence(tmp_path, environment):
    script = tmp_path / "run.py"
    script.write_text(
        "from pyanticip.workers import needs_guard, spread\nneeds_guard()\nlist(spread(abs, [1, 2], 2))\n"
    )
    line = [sys.executable, str(script)]
    found = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120.0)
    assert found.returncode == 1
    assert "under if __name__ == '__main__'" in found.stderr
    assert "a script without if __name__ == '__main__'?" in found.stderr.splitlines()[-1]
