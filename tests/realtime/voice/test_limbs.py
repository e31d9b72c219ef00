"""The four limbs: computed from the body, sent, and played by the voice."""

import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import pytest
from support.ear import Ear

from pyanticip._core import LIMBS, LiveFront, Voice
from pyanticip.motion.datagrams import datagrams
from pyanticip.motion.load import load_motion
from realtime.clock import OfflineClock
from realtime.osc import message
from realtime.programs.demo import PERFORMANCE
from realtime.rig import load_rig
from realtime.sources.replay import Datagram, play_offline
from realtime.stage import assemble
from realtime.voice.osc_input import VoiceInput
from realtime.voice.synth import VoicePlayer

RATE = 48_000


def swing_limbs(moving: str) -> npt.NDArray[np.float64]:
    """Limbs (T, 4, 3) of a standing body that swings one joint by a radian, once a second."""
    clip = load_motion(PERFORMANCE)
    joint = list(clip.skeleton.names).index(moving)
    quats = np.repeat(clip.quats[:1], 200, axis=0)
    angle = np.sin(2 * np.pi * np.arange(200) / 50.0) / 2
    swing = np.stack([np.cos(angle / 2), np.sin(angle / 2), 0 * angle, 0 * angle], axis=1)
    w, x = swing[:, 0], swing[:, 1]
    qw, qx, qy, qz = np.moveaxis(quats[:, joint], -1, 0)
    # About the parent's x axis: the swing times the rest rotation.
    quats[:, joint] = np.stack([w * qw - x * qx, w * qx + x * qw, w * qy - x * qz, w * qz + x * qy], axis=1)
    stood = replace(clip, quats=quats, root=np.repeat(clip.root[:1], 200, axis=0))
    front = LiveFront("msgpack")
    found = [front.feed(data, t) for t, data in datagrams(stood, "msgpack")]
    return np.array([out.limbs for out in found if out is not None]).reshape(-1, 4, 3)


@pytest.mark.parametrize(("moving", "limb"), [("LeftLeg", 2), ("RightLeg", 3)])
def test_each_limb_is_reported_separately(moving: str, limb: int) -> None:
    limbs_of_time = swing_limbs(moving)[20:]
    others = np.delete(limbs_of_time, limb, axis=1)
    assert limbs_of_time[:, limb, 0].max() > 0.3
    assert others[:, :, 0].max() < 0.05
    # Each way there and back ends in a stroke, for 3.6 s.
    assert 6 <= np.count_nonzero(limbs_of_time[:, limb, 2]) <= 14
    assert not others[:, :, 2].any()
    assert limbs_of_time.min() >= 0.0
    assert limbs_of_time.max() <= 1.0


@pytest.mark.parametrize("rate", [24.0, 60.0, 120.0])
def test_each_stroke_is_sent_once_at_any_rate(rate: float) -> None:
    made: list[list[float]] = []
    clock, ear = OfflineClock(), Ear()
    quiet = {"osc": [], "control": {"enabled": False}, "model": {"enabled": False}}
    pipeline = assemble(load_rig(None, quiet), clock, kind="msgpack", sinks=[ear])
    pipeline.take_recorder = SimpleNamespace(add_frame=lambda out: made.append(out.limbs), state="")
    clip = load_motion(PERFORMANCE)[:900].resample(rate)
    play_offline([Datagram(t + 1, data) for t, data in datagrams(clip, "msgpack")], clock, pipeline.feed)
    pipeline.run_until(clock.now_ns() + 1_000_000_000)
    pipeline.close()
    sent = [frame.limbs for frame in ear.frames if frame.limbs]
    assert pipeline.counts["overtaken"] > 100
    strokes = [np.sort(np.reshape(limbs, (-1, 4, 3))[:, :, 2], axis=0)[-20:] for limbs in (made, sent)]
    assert np.count_nonzero(strokes[0]) > 10
    np.testing.assert_array_equal(*strokes)
    # Bridged frames have limbs too; after the source is gone there are none.
    assert len(ear.frames) - len(sent) == pipeline.counts["ticks"] > 10


def test_the_voice_plays_the_limbs() -> None:
    voice_input = VoiceInput()
    values = [0.1 * n for n in range(12)]
    ((kind, limbs),) = voice_input.decode(message("/anticip/limbs", values))
    assert kind == "limbs"
    assert limbs == pytest.approx([min(v, 1.0) for v in values])
    assert voice_input.decode(message("/anticip/limbs", values[:11])) == []
    assert voice_input.counts["malformed"] == 1
    assert len(LIMBS) == 4

    def played(limbs: list[float]) -> npt.NDArray[np.float32]:
        player = VoicePlayer(Voice(RATE, preset="limbs"))
        now = time.monotonic()
        settings = [
            ("set", i, value, 0.0) for i, value in enumerate((0.4, 0.8, 0.5, 0.1, 0.0, 0.0, 0.5, 0.0))
        ]
        player.push([*settings, *voice_input.decode(message("/anticip/limbs", limbs))], now)
        return player.render(RATE // 2, now)

    still, struck = played([0.5, 0.5, 0.0] * 4), played([0.5, 0.5, 0.0] * 3 + [0.5, 0.5, 0.9])
    assert np.abs(struck).max() > 10 * np.abs(still).max()


def test_limbs_without_data_strike_at_a_medium_speed() -> None:
    def struck(*speeds: float) -> npt.NDArray[np.float32]:
        voice = Voice(RATE, preset="limbs")
        voice.params(np.array([0.4, 0.8, 0.5, 0.1, 0.0, 0.0, 0.5, 0.0], np.float32))
        for speed in speeds:
            for limb in range(4):
                voice.limb(limb, speed, 0.0, 0.0)
        voice.render(RATE // 2)
        voice.event(1, 1.0)
        return voice.render(RATE // 5)

    untold, middling, resting = struck(), struck(0.4), struck(0.0)
    np.testing.assert_allclose(untold, middling, atol=1e-5)
    assert np.abs(untold - resting).max() > 1e-3
