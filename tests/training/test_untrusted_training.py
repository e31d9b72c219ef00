"""What training reads is as bounded as what plays: no pipe is waited for, nothing deep or endless read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pyanticip.errors import MotionError
from training.data.manifest import rows
from training.data.sets.format import read_index
from training.data.sets.prepare import read_parts
from training.data.sets.recipe import read_recipe
from training.data.sets.sounds import _read as read_sounds
from training.data.sets.splits import read_split_file
from training.evaluate.event_tuning import EventRivals
from training.evaluate.report import looks
from training.evaluate.trackers import load as load_trackers
from training.run.files import BEST, CONFIG, LAST, METRICS, load_best, read_description, read_state
from training.run.recorder import read_metrics
from training.run.settings import read_fields
from training.run.task import REPORT, read_report
from training.tasks.forecast.folds import read_json
from training.tasks.motion.baselines import Rivals
from training.tasks.token.corpus import Corpus, read_lines
from training.tasks.token.tokens import Tokenizer
from training.teacher.sound import duration

READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    # the file, and who reads it
    "manifest": ("MANIFEST.csv", lambda file: rows(file, "file")),
    "set": ("set.json", lambda file: read_index(file.parent)),
    "parts": ("part.npz", read_parts),
    "recipe": ("recipe.toml", read_recipe),
    "sounds": ("sounds.toml", read_sounds),
    "sounds-csv": ("sounds.csv", read_sounds),
    "split": ("split.toml", read_split_file),
    "split-csv": ("split.csv", read_split_file),
    "event rivals": ("rivals.json", EventRivals.load),
    "rivals": ("rivals.json", Rivals.load),
    "trackers": ("trackers.json", load_trackers),
    "config": (CONFIG, lambda file: read_description(file.parent, "train", "x", 1)),
    "best": (str(BEST), lambda file: load_best(file.parents[1])),
    "last": (str(LAST), lambda file: read_state(file.parents[1])),
    "report": (REPORT, lambda file: read_report(file.parent)),
    "options": ("options.toml", read_fields),
    "scores": ("scores.json", read_json),
    "tokenizer": ("tokenizer.json", Tokenizer.load),
    "tokens": ("tokens.npy", lambda file: Corpus.open(file, "a text", "")),
    "text": ("text.txt", lambda file: list(read_lines(file))),
    "sound": ("sound.wav", duration),
}


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_is_not_waited_for_and_a_device_not_read(name: str, tmp_path: Path) -> None:
    where, read = READERS[name]
    file = tmp_path / where
    file.parent.mkdir(exist_ok=True)
    os.mkfifo(file)
    refused(read, file)
    file.unlink()
    file.symlink_to("/dev/zero")
    refused(read, file)


DEEP = {
    "objects": "{" * 100_000,
    "arrays": "a = " + "[" * 100_000,
    "toml-digits": "a = " + "9" * 5001,
    "json-digits": '{"looks": ' + "9" * 5001 + "}",
    "nothing": "\0" * 9,
    "cell": "x" * 200_000,
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
@pytest.mark.parametrize("name", [name for name in READERS if name not in ("text", "sounds-csv")])
def test_what_is_too_deep_or_has_too_many_digits_is_one_line(name: str, text: str, tmp_path: Path) -> None:
    where, read = READERS[name]
    file = tmp_path / where
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    refused(read, file)


def test_the_figures_of_a_report_may_be_anything(tmp_path: Path) -> None:
    for text in DEEP.values():
        (tmp_path / "report.json").write_text(text)
        refused(looks, tmp_path)


def test_a_row_of_metrics_that_is_none_is_one_line(tmp_path: Path) -> None:
    for text in ("step\nx\n", "step\n1,2\n", "step\n" + "1" * 200_000):
        (tmp_path / METRICS).write_text(text)
        refused(read_metrics, tmp_path)


def test_a_cell_without_end_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "sounds.csv").write_text("file,sound\n" + "x" * 200_000)
    refused(read_sounds, tmp_path / "sounds.csv")


def refused(read: Callable[[Path], object], file: Path) -> None:
    """Said in a line of a length that can be read."""
    with pytest.raises(MotionError) as caught:
        read(file)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
