"""The words of the status on senders, model, sinks and recording."""

import inspect
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from realtime import status
from realtime.clock import OfflineClock
from realtime.memory.live_memory import LiveMemory
from realtime.pipeline import Pipeline
from realtime.recording.recorder import Recorder
from realtime.rig import Rig
from realtime.show import Show
from realtime.stage import assemble
from realtime.status import (
    BeatWatch,
    SinkWatch,
    count_words,
    is_writing,
    sink_counts,
    sink_words,
    stream_words,
    tape_words,
    taught_words,
)


def stream(*senders: tuple[str, bool, int, int], rate: float | None = 50.04) -> Any:
    return SimpleNamespace(timing=(rate, 0.46, 0), refusal="", senders=lambda: senders)


def test_the_status_has_the_active_sender_and_the_others_of_the_last_minute() -> None:
    minute = 60_000_000_000
    senders = (
        ("10.0.0.1", True, 9, 0),
        ("old", False, 9, 0),
        ("new", False, 9, 1),
        ("newer", False, 9, minute),
    )
    front = stream(*senders)
    lines = ["rate=50.0", "jitter_ms=0.5", "from=10.0.0.1", "ignored=2"]
    assert stream_words(front, None, minute + 1) == lines
    assert stream_words(front, 30.0, minute + 1) == [*lines[:2], "buffer_ms=30.0", *lines[2:]]
    front = stream(("", True, 0, 0), rate=None)
    front.refusal = "too many joints"
    assert stream_words(front, None, 0) == ["ignored=0", "refused=too many joints"]


def test_the_status_has_lost_frames_if_they_are_known() -> None:
    def words(**received: int) -> list[str]:
        return count_words(received, {"late_steps": 1, "failed_steps": 2, "skipped": 0})

    steps = ["late_steps=1", "failed_steps=2"]
    assert words(frames=0, numbered=0, lost=0) == ["frames=0", "lost=0", "bad=0", *steps]
    assert words(frames=9, numbered=9, lost=2, alien=3) == ["frames=9", "lost=2", "bad=3", *steps]
    assert words(frames=9, numbered=0, lost=0) == ["frames=9", "bad=0", *steps], "no number tells"
    assert words(frames=9, lost=2) == ["frames=9", "lost=2", "bad=0", *steps], "another's front end"


def test_the_status_has_the_mapping_and_its_novelty() -> None:
    taught: Any = SimpleNamespace(mapping=SimpleNamespace(name="mine", beyond="hold"), novelty=0.44)
    taught.is_beyond = False
    assert taught_words(None, "", ()) == []
    assert taught_words(None, "no file", ("neck",)) == ["mapping=failed: no file"]
    assert taught_words(taught, "", ()) == ["mapping=mine", "novelty=0.4"]
    taught.is_beyond = True
    assert taught_words(taught, "", ("neck", "head")) == [
        "mapping=mine",
        "novelty=0.4 (holds)",
        "lacking=neck,head",
    ]


def test_the_status_says_whether_a_recording_is_written() -> None:
    tape: Any = SimpleNamespace(status_words=["recording=no", "full"])
    assert (tape_words(None), is_writing(None)) == (["recording=no"], False)
    assert (tape_words(tape), is_writing(tape)) == (["recording=no", "full"], False)
    tape.status_words = ["recording=yes"]
    assert (tape_words(tape), is_writing(tape)) == (["recording=yes"], True)


def test_a_lost_and_a_restored_sink_are_reported_once_each() -> None:
    one, other = (SimpleNamespace(name=name, trouble="") for name in ("one", "other"))
    sinks: Any = [one, other]
    watch = SinkWatch()
    assert watch.look(sinks) == sink_words(sinks) == []
    one.trouble = "refused"
    assert sink_words(sinks) == ["away=one"]
    assert watch.look(sinks) == ["one: refused; trying again"]
    assert watch.look(sinks) == []
    one.trouble, other.trouble = "", "gone"
    assert watch.look(sinks) == ["other: gone; trying again", "one is there"]
    other.trouble = ""
    assert watch.look(sinks) == ["other is there"]

    # A third-party sink whose `trouble` fails.
    class Broken:
        name = "broken"

        @property
        def trouble(self) -> str:
            raise RuntimeError("no link")

    sinks.insert(0, Broken())
    other.trouble = "gone"
    assert sink_words(sinks) == ["away=broken", "away=other"]
    assert watch.look(sinks) == ["broken: no link; trying again", "other: gone; trying again"]
    other.trouble = ""
    del sinks[0]
    assert watch.look(sinks) == ["other is there"]
    assert watch.look(sinks) == []


def test_receivers_at_one_address_have_distinct_names() -> None:
    tables = [{"port": 9, "prefix": "/a"}, {"port": 9}, {"port": 9, "send": ["event"]}, {"port": 8}]
    pipeline = assemble(Rig.model_validate({"osc": tables, "model": {"enabled": False}}), OfflineClock())
    one, two = "osc 127.0.0.1:9", "osc 127.0.0.1:8"
    assert list(sink_counts(pipeline.sinks)) == [f"{one} /a", f"{one} /anticip", f"{one} /anticip (2)", two]
    pipeline.close()


def test_a_lasting_beat_is_reported_once_and_again_when_it_changes() -> None:
    watch = BeatWatch()

    def looks(*tempi: tuple[float, float]) -> list[str | None]:
        return [watch.look((bpm, 0.0, trust)) for bpm, trust in tempi]

    assert looks((120.0, 0.9), (120.0, 0.9)) == [None, None]
    assert looks((120.0, 0.9), (120.0, 0.9)) == ["body tempo: 120 bpm", None]
    assert looks((111.0, 0.9), (129.0, 0.9)) == [None, None], "much the same"
    assert looks((90.0, 0.9)) == ["body tempo: 90 bpm"], "slower"
    assert looks((110.0, 0.9)) == ["body tempo: 110 bpm"], "faster"
    assert looks((60.0, 0.1), (60.0, 0.9), (60.0, 0.9)) == [None, None, None], "not for long"


def test_every_status_word_is_documented() -> None:
    """No other words than those of stream, recorder, memory, and the child processes of a show."""
    root = Path(__file__).resolve().parents[2]
    where = (status, Pipeline.status, Recorder.status_words.fget, LiveMemory.status_words, Show)
    sent = set(re.findall(r'"([a-z_]+)=', "\n".join(inspect.getsource(each) for each in where)))
    for file in (root / "realtime").rglob("*.py"):
        beside = re.findall(r'super\(\).__init__\("([^"]+)", "realtime', file.read_text(encoding="utf-8"))
        sent.update(name.split()[-1].lower() for name in beside)
    section = (
        (root / "docs" / "osc.md").read_text(encoding="utf-8").split("## The status")[1].split("\n## ")[0]
    )
    rows = re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
    assert {word for row in rows for word in re.findall(r"`([a-z_]+)`", row)} == sent
