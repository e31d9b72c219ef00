"""Frames become the bytes that the MIDI specification defines."""

import importlib.util
import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyanticip.errors import RigError
from pyanticip.vocabulary import PARAMETERS, SCALARS
from realtime.rig import load_rig
from realtime.sinks.base import ControlFrame
from realtime.sinks.midi import sink as midi_sink
from realtime.sinks.midi.config import SCALES, MidiConfig, Scale
from realtime.sinks.midi.schedule import RELEASE, SILENCE, Item, Schedule, unpack
from realtime.sinks.midi.translator import Translator

FRAME = 20_000_000
PROPERTY = settings(suppress_health_check=[HealthCheck.too_slow])
START = 10**12


def frame(n: int, events: Any = (), state: str = "playing", **values: float) -> ControlFrame:
    params = [values.get(name, 0.5) for name in PARAMETERS]
    scalars = [values.get(name, 0.0) for name in SCALARS]
    return ControlFrame(n, n / 50, scalars, params, events, t_ns=START + n * FRAME, state=state)


def make_translator(**table: Any) -> Translator:
    return Translator(MidiConfig.model_validate({"note": [], "control": [], **table}))


def make_control(**table: Any) -> Translator:
    return make_translator(control=[{"from": "brightness", **table}])


def hex_messages(items: list[Item]) -> list[str]:
    return [item.message.hex(" ") for item in items]


def test_a_7_bit_controller_is_sent_when_it_changes() -> None:
    translator = make_control(to=74, channel=3)
    assert hex_messages(translator.frame(frame(0, brightness=0.0))) == ["b2 4a 00"]
    assert hex_messages(translator.frame(frame(1, brightness=0.001))) == []
    assert hex_messages(translator.frame(frame(2, brightness=1.0))) == ["b2 4a 7f"]
    assert hex_messages(translator.frame(frame(3, brightness=7.0))) == []


def test_a_14_bit_controller_may_send_its_low_byte_only() -> None:
    translator = make_control(to=1, bits=14)
    assert hex_messages(translator.frame(frame(0, brightness=0.5))) == ["b0 01 40", "b0 21 00"]
    assert hex_messages(translator.frame(frame(1, brightness=0.5 + 1.6 / 16383))) == ["b0 21 01"]
    assert hex_messages(translator.frame(frame(2, brightness=1.0))) == ["b0 01 7f", "b0 21 7f"]
    assert hex_messages(translator.frame(frame(3, brightness=0.0))) == ["b0 01 00", "b0 21 00"]


@PROPERTY
@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30))
def test_a_14_bit_receiver_has_every_value(values: list[float]) -> None:
    translator, high, low = make_control(to=1, bits=14), 0, 0
    for n, value in enumerate(values):
        for item in translator.frame(frame(n, brightness=value)):
            _, number, byte = item.message
            # By the specification, a new high half sets the low one to zero.
            high, low = (byte, 0) if number == 1 else (high, byte)
        assert abs((high << 7) + low - 16383 * value) < 0.5 + 1e-9


def test_bend_and_pressure() -> None:
    translator = make_control(to="bend")
    sent = [
        hex_messages(translator.frame(frame(n, brightness=v))) for n, v in enumerate((0.5, 0.0, 1.0, 0.75))
    ]
    assert sent == [
        ["e0 00 40"], ["e0 00 00"], ["e0 7f 7f"], ["e0 00 60"],
    ]  # fmt: skip
    semitones = {"from": "brightness", "to": "bend", "low": 0, "high": 6, "channel": 16}
    translator = make_translator(bend_range=12, control=[semitones])
    assert hex_messages(translator.frame(frame(0, brightness=1.0))) == ["ef 00 60"]
    assert hex_messages(make_control(to="pressure", low=127, high=0).frame(frame(0, brightness=0.0))) == [
        "d0 7f"
    ]


def test_ranges_curves_and_scalars() -> None:
    translator = make_control(to=7, low=1, high=100, curve="exponential")
    assert hex_messages(translator.frame(frame(0, brightness=0.5))) == ["b0 07 0a"]
    translator = make_translator(
        control=[{"from": "transition_pressure", "to": 2}, {"from": "novelty", "to": 3}]
    )
    assert hex_messages(translator.frame(frame(0, transition_pressure=-2.0, novelty=1.0))) == [
        "b0 02 00",
        "b0 03 7f",
    ]
    assert hex_messages(translator.frame(frame(1, transition_pressure=2.0, novelty=1.0))) == ["b0 02 7f"]


class TaughtOutput:
    def __init__(self, name: str) -> None:
        self.name = name


def test_a_taught_output_is_sent_once_announced() -> None:
    translator = make_translator(control=[{"from": "taught/wings", "to": 20}])
    assert translator.frame(frame(0)) == []
    translator.announce([TaughtOutput("tail"), TaughtOutput("wings")])  # type: ignore[list-item]
    later = frame(1)
    assert translator.frame(later) == [], "a frame made before the mapping was loaded"
    later.extras = [0.0, 1.0]
    assert hex_messages(translator.frame(later)) == ["b0 14 7f"]


def test_max_rate_limits_controllers_not_notes() -> None:
    translator = make_translator(max_rate=10, control=[{"from": "pitch", "to": 1}], note=[{"note": 60}])
    sent = [translator.frame(frame(n, [("onset", 1.0, 0.0)], pitch=n / 100)) for n in range(50)]
    assert sum(item.message[0] == 0xB0 for items in sent for item in items) == 10
    assert sum(item.message[0] == 0x90 for items in sent for item in items) == 50


def test_a_note_is_due_when_its_event_is() -> None:
    drum = {"event": "onset", "note": 36, "length_ms": 80, "channel": 10, "velocity": {"low": 1, "high": 127}}
    translator = make_translator(note=[drum])
    (item,) = translator.frame(frame(3, [("onset", 0.5, 0.15)]))
    due = START + 3 * FRAME + 150_000_000
    assert item == Item(due, 80_000_000, bytes((0x99, 36, 64)), due)
    assert translator.frame(frame(4, [("phrase", 1.0, 0.1), ("cue/chorus", 1.0, 0.1)])) == []
    late = make_translator(latency_ms=100, note=[{"event": "cue/chorus", "note": 0}])
    (item,) = late.frame(frame(0, [("cue/chorus", 0.0, 0.05)]))
    assert item.due_ns == START
    assert item.message == bytes((0x90, 0, 40))


def test_a_parameter_chooses_the_note() -> None:
    translator = make_translator(
        note=[{"from": "pitch", "low": 60, "high": 72, "scale": "major", "key": "D"}]
    )
    sent = [translator.frame(frame(n, [("onset", 1.0, 0.0)], pitch=n / 12))[0].message[1] for n in range(13)]
    assert sent == [61, 61, 62, 62, 64, 64, 66, 67, 67, 69, 69, 71, 71]


@PROPERTY
@given(
    st.sampled_from(sorted(SCALES)),
    st.integers(0, 11),
    st.integers(0, 100),
    st.integers(12, 27),
    st.floats(0, 1),
)
def test_a_scale_gives_only_its_notes_in_rising_order(name, key, low, span, at):
    scale = Scale(low, low + span, key, SCALES[name])
    assert low <= scale(at) <= low + span
    assert (scale(at) - key) % 12 in SCALES[name]
    assert scale(0.0) <= scale(at) <= scale(1.0)


@pytest.mark.parametrize("quiet", ["stopped", "panic"])
def test_a_start_after_a_stop_sends_everything_again(quiet: str) -> None:
    translator = make_translator(mpe=1, control=[{"from": "brightness", "to": 74}])
    first = hex_messages(translator.frame(frame(0)))
    assert len(first) == 16
    assert hex_messages(translator.frame(frame(1))) == []
    assert len(hex_messages(translator.frame(frame(2, state=quiet)))) == 1
    assert hex_messages(translator.frame(frame(3, state=quiet))) == []
    assert hex_messages(translator.frame(frame(4))) == first
    assert hex_messages(translator.frame(frame(5))) == []


def test_mpe_announces_its_zone_and_gives_each_note_a_channel() -> None:
    translator = make_translator(
        mpe=3,
        note=[{"note": 60, "length_ms": 1000}],
        control=[
            {"from": "loudness", "to": "pressure", "channel": "note"},
            {"from": "pitch", "to": "bend", "low": -48, "high": 48, "channel": "note"},
            {"from": "space", "to": 91},
        ],
    )
    zone = hex_messages(translator.frame(frame(0)))
    # RPN 6 on the manager channel, RPN 0 there and on the members (MPE 1.0), then the zone's controls.
    assert zone[:5] == ["b0 65 00", "b0 64 06", "b0 06 03", "b0 65 7f", "b0 64 7f"]
    assert zone[5:10] == ["b0 65 00", "b0 64 00", "b0 06 30", "b0 65 7f", "b0 64 7f"]
    assert [line[:2] for line in zone[5:25:5]] == ["b0", "b1", "b2", "b3"]
    assert zone[25:] == ["b0 5b 40"]
    channels = []
    for n in range(1, 7):
        items = translator.frame(frame(n, [("onset", 1.0, 0.1)], loudness=1.0, pitch=0.75))
        mine = [item for item in items if item.due_ns]
        channel = mine[-1].message[0] & 15
        assert hex_messages(mine) == [f"d{channel} 7f", f"e{channel} 00 60", f"9{channel} 3c 78"]
        assert {item.due_ns for item in mine} == {START + n * FRAME + 100_000_000}
        channels.append(channel)
    assert channels == [1, 2, 3, 1, 2, 3], "the one whose note ends first is next"
    # Each sounding note gets the controls; a channel gets none before its note is due.
    assert hex_messages(translator.frame(frame(9, loudness=0.0, pitch=0.75))) == ["d1 00"]
    assert sorted(hex_messages(translator.frame(frame(20, loudness=0.5, pitch=0.75)))) == [
        "d1 40",
        "d2 40",
        "d3 40",
    ]
    assert translator.frame(frame(80, loudness=0.9, pitch=0.1)) == [], "nothing sounds any more"


def test_panic_and_stop_end_sounding_and_pending_notes() -> None:
    translator = make_translator(note=[{"note": 60}], clock=120)
    translator.frame(frame(0, [("onset", 1.0, 0.1)]))
    stopped = translator.frame(frame(1, [("onset", 1.0, 0.1)], state="panic"))
    assert [item.message for item in stopped] == [SILENCE]
    assert translator.frame(frame(2, state="panic")) == []
    assert translator.frame(frame(3, state="playing"))[0].message == b"\xfa"
    assert [item.message for item in translator.frame(frame(4, state="stopped"))] == [RELEASE]
    assert translator.frame(frame(5, state="frozen"))[0].message == b"\xfa", "frozen is not silence"


def test_the_clock_has_24_ticks_a_beat_whatever_the_frames() -> None:
    translator = make_translator(clock=125)
    ticks = [item for n in range(0, 500) if n % 7 for item in translator.frame(frame(n))]
    assert ticks[0].message == b"\xfa"
    assert {item.message for item in ticks[1:]} == {b"\xf8"}
    times = [item.due_ns for item in ticks[1:]]
    assert {b - a for a, b in itertools.pairwise(times)} == {FRAME}, "480 ms a beat: 20 ms a tick"
    assert ticks[0].due_ns == START + FRAME
    assert times[0] == START + FRAME + 10_000_000, "a receiver has time to get ready"
    again = translator.frame(frame(1000))
    assert [item.message for item in again[:2]] == [b"\xfa", b"\xf8"], "the clock restarts after a long gap"


states = st.sampled_from(["playing", "silent", "frozen", "stopped", "panic"])
events = st.tuples(st.sampled_from(["onset", "phrase"]), st.floats(0, 1), st.floats(0, 0.3))
shows = st.lists(st.tuples(states, st.lists(events, max_size=2), st.floats(0, 1), st.booleans()), max_size=40)


@PROPERTY
@given(shows, st.sampled_from([0, 1, 4]))
def test_no_show_leaves_a_note_hanging_or_sends_invalid_midi(show: Any, mpe: int) -> None:
    table = {"mpe": mpe, "clock": 90, "note": [{}, {"event": "phrase", "note": 60, "length_ms": 900}]}
    translator = Translator(MidiConfig.model_validate(table))
    schedule, sounding = Schedule(), set()
    sizes = {0x80: 3, 0x90: 3, 0xB0: 3, 0xD0: 2, 0xE0: 3, 0xF0: 1}

    def hear(messages: list[bytes]) -> None:
        for message in messages:
            kind = message[0] & 0xF0
            assert len(message) == sizes[kind]
            assert all(byte < 128 for byte in message[1:])
            key = message[0] & 15, message[1:2]
            if kind == 0x90:
                assert message[2] > 0
                sounding.add(key)
            elif kind == 0x80:
                sounding.remove(key)

    for n, (state, events, value, lost) in enumerate(show):
        if lost:
            translator.forget()
        items = translator.frame(frame(n, events, state, pitch=value, loudness=value, brightness=1 - value))
        for item in items:
            hear(schedule.put(item))
        if state in ("stopped", "panic"):
            assert not sounding
        hear(schedule.take(START + n * FRAME))
    hear(schedule.end_notes(sound_off=True))
    assert not sounding


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"note": [{"event": "onzet"}]}, r"midi\.note\.0\.event\.onzet: unknown name; did you mean onset\?"),
        ({"control": [{"from": "pich", "to": 1}]}, r"from\.pich: unknown name; did you mean pitch\?"),
        ({"control": [{"from": "pitch", "to": 40, "bits": 14}]}, "14 is for controllers 0 to 31 only"),
        ({"control": [{"from": "pitch", "to": 1, "channel": "note"}]}, '"note" needs mpe'),
        ({"mpe": 4, "note": [{"channel": 3}]}, "with mpe each note has a channel of its own"),
        ({"mpe": 4, "control": [{"from": "pitch", "to": 1, "channel": 5}]}, "5 is a member of the MPE zone"),
        ({"control": [{"from": "pitch", "to": "bend", "low": -12}]}, "the bend reaches 2 semitones"),
        ({"control": [{"from": "pitch", "to": 1, "high": 200}]}, "expected 0 to 127, got 0 to 200"),
        ({"control": [{"from": "pitch", "to": 123}]}, r"control\.0\.to: expected bend, .*, or 0 to 119, got"),
        ({"control": [{"from": "pitch", "to": 7.5}]}, r"to: expected bend, pressure, or 0 to 119, got 7\.5$"),
        ({"control": [{"from": "pan", "to": 7, "channel": "all"}]}, "expected note, or 1 to 16, got 'all'$"),
        ({"clock": "bodi"}, r"midi\.clock: expected body, or 20 to 400 beats per minute, got 'bodi'$"),
        ({"control": [{"from": "pan", "to": 33}, {"from": "pitch", "to": 1, "bits": 14}]},
         "control: pan and pitch both go to 33 of channel 1"),
        ({"control": [{"from": "pan", "to": "bend"}, {"from": "pitch", "to": "bend"}]},
         "pan and pitch both go to bend"),
        ({"note": [{"scale": [0, 14]}]}, r"midi\.note\.0\.scale\.1: .* less than or equal to 11, got 14$"),
        ({"note": [{"scale": "mayor"}]}, r"mayor: unknown name; did you mean major\?"),
        ({"note": [{"low": 61, "high": 61, "scale": [0]}]}, "a note of the scale in between, got 61 to 61"),
        ({"note": [{"velocity": {"low": 0}}]}, "velocity: expected low and high from 1 to 127"),
        ({"clok": 120}, r"midi\.clok: unknown key; did you mean clock\?"),
        ({"note": [{"kee": "D"}]}, r"midi\.note\.0\.kee: unknown key; did you mean key\?"),
    ],
)  # fmt: skip
def test_invalid_midi_settings_are_one_line(table: dict[str, Any], says: str) -> None:
    with pytest.raises(RigError, match=says) as caught:
        load_rig(None, {"midi": table})
    assert "\n" not in str(caught.value)


def test_a_cancelled_beat_does_not_play() -> None:
    translator, waiting = (
        make_translator(note=[{"note": 60}, {"event": "phrase", "note": 62}], latency_ms=20),
        Schedule(),
    )
    events = [("onset", 1.0, 0.1), ("onset", 0.5, 0.3), ("phrase", 1.0, 0.3)]
    for n, current_events in enumerate(
        (events, [("onset/cancel", 0.0, 0.279)], [("onset/cancel", 0.0, 0.9)])
    ):
        for item in translator.frame(frame(n, current_events)):
            waiting.put(item)
    # Of the last, only the first beat was still ahead and could be cancelled.
    on = [m for m in waiting.take(START + 400_000_000) if m[0] == 0x90 and m[2]]
    assert [m[1] for m in on] == [62]


class Pipe:
    """Stands in for the port's process, and collects what that would read."""

    pid, unsent_bytes = 1, 0

    def __init__(self, *_: Any, **__: Any) -> None:
        self.schedule = Schedule()

    def wait_until_ready(self) -> str:
        return "fake"

    def write(self, data: bytes) -> None:
        for item in unpack(data)[0]:
            self.schedule.put(item)


def test_a_beat_is_cancelled_however_late_its_frames_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(midi_sink, "Child", Pipe)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    sink = midi_sink.MidiSink(MidiConfig(port="virtual", control=()))
    events = [[("onset", 1.0, 0.1), ("onset", 0.5, 0.3)], [("onset/cancel", 0.0, 0.08)]]
    for n, current_events in enumerate(events):
        one = frame(n, current_events)
        monkeypatch.setattr(midi_sink.time, "monotonic_ns", lambda at=one.t_ns, n=n: at + 300_000 + 7_777 * n)
        sink.send(one)
    schedule = sink._child.schedule  # type: ignore[attr-defined]
    velocities = [m[2] for m in schedule.take(START + 400_000_000) if m[0] == 0x90]
    assert velocities == [80], "only the second"


@pytest.mark.parametrize(("bpm", "latency_ms"), [(50.0, 0), (112.0, 0), (180.0, 0), (112.0, 300)])
def test_the_midi_clock_follows_the_beat_of_the_body(bpm: float, latency_ms: int) -> None:
    translator = make_translator(clock="body", latency_ms=latency_ms)
    beat = 60e9 / bpm
    quiet = frame(0)
    assert hex_messages(translator.frame(quiet)) == []
    ticks: list[int] = []
    for n in range(1, 1000):
        current = frame(n)
        # The beat is a tenth late from the tenth second on: the clock follows.
        current.tempo = bpm, ((current.t_ns - START) / beat - (0.1 if n > 500 else 0.0)) % 1.0, 0.9
        ticks += [item.due_ns for item in translator.frame(current) if item.message == b"\xf8"]
    assert FRAME <= ticks[0] - START < FRAME + beat, "from the next beat on"
    gaps = [b - a for a, b in itertools.pairwise(ticks)]
    assert all(0.85 * beat / 24 < gap < 1.15 * beat / 24 for gap in gaps)
    beats = [(tick - START + latency_ms * 1e6) / beat for tick in ticks[::24]]
    before = [at for at in beats if at < 480 * FRAME / beat]
    after = [at - 0.1 for at in beats if at > 800 * FRAME / beat]
    assert len(before) > 4
    assert len(after) > 2
    assert all(abs(at - round(at)) < 0.02 for at in before + after)


def test_the_midi_clock_continues_without_a_beat() -> None:
    translator = make_translator(clock="body")
    ticks = []
    for n in range(300):
        current = frame(n)
        current.tempo = 120.0, (n * FRAME / 5e8) % 1.0, 0.9 if n < 100 else 0.1
        ticks += [item.due_ns for item in translator.frame(current) if item.message == b"\xf8"]
    gaps = {b - a for a, b in itertools.pairwise(ticks[24:])}
    assert ticks[-1] > START + 290 * FRAME
    assert max(gaps) - min(gaps) < 1_000_000
