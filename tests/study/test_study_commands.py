"""What the commands of all studies share: folders, names with commas, seeds, devices, and what is said."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from pyanticip.cli import cli
from pyanticip.cli_runs import named
from pyanticip.errors import FormatError
from training.study.questions import QUESTIONS
from training.study.runs import folder_of, perform, seeds


def said(*words):
    result = CliRunner().invoke(cli, [str(word) for word in words])
    return result


@pytest.mark.parametrize(
    "command",
    [
        ("study-parts", "risk", "--data", "nowhere"),
        ("study-motion", "--data", "nowhere"),
        ("planning", "--train", "nowhere", "--test", "nowhere"),
        ("study", "--train", "nowhere", "--test", "nowhere"),
        ("patterns", "--patterns", "magic"),
    ],
)
def test_a_study_that_cannot_begin_leaves_no_folder(command, tmp_path):
    result = said("train", *command, "--out", tmp_path / "runs")
    assert result.exit_code != 0
    assert "nowhere" in str(result.exception) or "magic" in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_a_run_in_it_stays_and_a_file_is_refused(tmp_path):
    def fails(folder, file, content):
        with folder_of(tmp_path / folder):
            (tmp_path / folder / file).parent.mkdir(exist_ok=True)
            (tmp_path / folder / file).write_text(content)
            raise RuntimeError

    for folder, file, content in (("a", "run.json", "{}"), ("a", "lock", ""), ("b", "cache/lock", "")):
        with pytest.raises(RuntimeError):
            fails(folder, file, content)
    assert (tmp_path / "a" / "run.json").is_file()
    assert not (tmp_path / "b").exists()
    result = said("train", "patterns", "--out", tmp_path / "a" / "run.json", "--steps", 1)
    assert "is a file; give a folder" in str(result.exception)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("command", [("study-motion",), ("study-parts", "plan")])
def test_a_device_that_is_not_there_is_told_before_anything_is_read(command, tmp_path):
    result = said("train", *command, "--data", "nowhere", "--device", "cuda", "--out", tmp_path / "runs")
    assert "cuda is not available" in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_the_command_knows_every_question():
    text = said("train", "study-parts", "--help").output
    assert "{" + "|".join(QUESTIONS) + "}" in text
    for name in QUESTIONS:
        assert f"{name}: " in text


def test_seeds_and_names_are_taken_once_and_ranges_rise():
    assert seeds("3,0-1,3") == [3, 0, 1]
    with pytest.raises(ValueError, match="a range that rises"):
        seeds("4-2")
    assert named("b, a,b", {}) == ("b", "a")
    assert named("all", {"all": ["a", "b"]}) == ("a", "b")


def test_a_study_of_patterns_from_the_command_line(tmp_path):
    runs, page = tmp_path / "runs", tmp_path / "pages"
    words = ("train", "patterns", "--out", runs, "--patterns", "linear", "--seeds", "0", "--steps", 2)
    result = said(*words, "--variants", "rope, sinusoidal")
    assert result.exit_code == 0, result.output
    assert f"2 runs done, 0 kept; see them with:\n  pyanticip evaluate patterns {runs}" in result.output
    assert json.loads(said(*words, "--variants", "rope", "--json").stdout) == {"done": 0, "kept": 1}
    result = said("evaluate", "patterns", runs, "--report", page)
    assert result.exit_code == 0, result.output
    assert "| pattern | sinusoidal | rope |" in result.output
    assert f"wrote into {page}" in result.output
    # The runs of one study are not those of another.
    for other in (("study",), ("study-motion",), ("planning",), ("study-parts", "plan")):
        result = said("evaluate", *other, runs)
        assert isinstance(result.exception, FormatError), other


@pytest.mark.slow
def test_ctrl_c_stops_a_study_of_several_processes(tmp_path):
    """At once, and not after all the runs that wait."""
    out = tmp_path / "runs"
    words = ["patterns", "--out", out, "--patterns", "linear", "--steps", 200_000, "--processes", 2]
    command = [sys.executable, "-m", "pyanticip", "train", *map(str, words)]
    paths = os.pathsep.join(path for path in sys.path if path)
    child = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Where tests run in the background SIGINT may be ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    workers = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    while not out.is_dir() or (workers.exists() and len(workers.read_text().split()) < 3):
        assert child.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=60) == 130
    assert not out.exists()


def test_an_interrupted_study_says_how_to_go_on(tmp_path):
    class Run:
        file = "run.json"

    def stop(run):
        raise KeyboardInterrupt

    lines = []
    with pytest.raises(KeyboardInterrupt):
        perform(tmp_path / "out", [Run()], stop, kept=lambda run: False, line=str, say=lines.append)
    assert lines == ["interrupted; runs that were finished are kept, and the same command goes on"]
    assert not (tmp_path / "out").exists()
