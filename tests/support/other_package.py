"""A third-party package as a module and its entry points: plug-ins that work, and ones that break their
contract as their names say."""

STRANGER = '''
from dataclasses import dataclass
import numpy as np
from pydantic import BaseModel
from pyanticip.motion.datagrams import datagrams
from realtime.sinks.base import ControlFrame
from realtime.step.base import StepBackend, StepResult


class Backwards:
    """A suit that sends reversed msgpack behind a ``!``."""

    port, wire, native = 40123, "msgpack", False

    def decode(self, datagram):
        if not datagram.startswith(b"!"):
            raise ValueError("not ours")
        return [datagram[:0:-1]]

    def encode(self, clip, *, rate, loop, unix_time):
        for t_ns, datagram in datagrams(clip, "msgpack", rate=rate, loop=loop):
            yield t_ns, b"!" + datagram[::-1]


class Failing(Backwards):
    """``decode`` raises after one datagram, or after two and a text; ``encode`` raises too."""

    def decode(self, datagram):
        yield datagram[:0:-1]
        if datagram.startswith(b"?"):
            yield datagram[:0:-1]
            yield "text"
        raise RuntimeError("no\\nmore")

    def encode(self, clip, *, rate, loop, unix_time):
        yield 0, b"!"
        raise RuntimeError("no\\nbody")


class Turning(Backwards):
    """Reverses any datagram, as in the documentation."""

    def decode(self, datagram):
        return [datagram[:0:-1]]


class Flaky(Backwards):
    """The second instance cannot be created, and ``begin_anew`` raises."""

    instances = 0

    def __init__(self):
        Flaky.instances += 1
        if Flaky.instances == 2:
            raise RuntimeError("no\\nmood")

    def begin_anew(self):
        raise RuntimeError("no\\nrest")


@dataclass(frozen=True, slots=True)
class NoEncode:
    port, wire, native = 40123, "msgpack", False

    def decode(self, datagram): ...


class BadPort(Backwards):
    port = "40123"


class BadWire(Backwards):
    wire = "json"


class Lines:
    """Writes the pitch of every frame into a file."""

    class Config(BaseModel):
        path: str
        every: int = 1

    def __init__(self, config):
        self.name = f"lines {config.path}"
        self.config, self.sent, self.file = config, 0, open(config.path, "w")

    def announce(self, extras): ...

    def send(self, frame: ControlFrame):
        if frame.seq >= 0 and frame.seq % self.config.every == 0:
            self.sent += 1
            self.file.write(f"{frame.params[0]}\\n")

    def counters(self):
        return {"sent": np.int64(self.sent)}

    def close(self):
        self.file.close()


class FailingSink(Lines):
    """Every method raises."""

    def __init__(self, config):
        self.name, self.sent = "failingsink", 0

    def send(self, *args):
        raise RuntimeError("not\\nnow")

    counters = close = announce = send


class Bare:
    """Lacks everything."""


class NoOptions(Lines):
    class Config(BaseModel):
        pass


class FailingStart(Lines):
    def __init__(self, config):
        raise RuntimeError("no\\npaper")


class Flat(StepBackend):
    """A model with constant output."""

    name = "flat"

    def __init__(self, checkpoint):
        self.resets = 0

    def step(self, rows):
        params = np.full((8, 5), 0.625, np.float32)
        return StepResult(params, np.zeros((2, 25), np.float32), np.zeros(7, np.float32), 1.0)

    def reset(self):
        self.resets += 1

    def close(self):
        raise RuntimeError("never closes")


class FailingModel(Flat):
    """A model that fails."""

    def step(self, rows):
        raise RuntimeError("no\\ngrip")


class BadCore(Flat):
    core = 5


class Tone:
    """Half the parameter pitch, as a constant."""

    class Config(BaseModel):
        level: float = 0.5

    sample_rate, latency = 48_000.0, 0

    def __init__(self, sample_rate, config):
        self.level, self.position, self.pitch = config.level, 0, 0.0

    def set(self, index, value):
        self.pitch = value if index == 0 else self.pitch

    def params(self, values):
        self.pitch = float(values[0])

    def event(self, index, strength, seconds): ...

    def fade(self, value, seconds): ...

    def render(self, samples):
        self.position += samples
        return np.full((samples, 2), self.level * self.pitch, np.float32)


class Mono(Tone):
    def render(self, samples):
        return super().render(samples)[:, 0]


class NoPosition(Tone):
    def render(self, samples):
        return np.zeros((samples, 2), np.float32)


class FailingParams(Tone):
    def params(self, values):
        raise RuntimeError("no\\nhands")


class NanVoice(Tone):
    class Config(BaseModel):
        model_config = {"extra": "allow"}

        level: float = float("nan")


class ZeroRate(Tone):
    sample_rate = 0


class TextRate(Tone):
    sample_rate = "x"


class LongLatency(Tone):
    latency = 10**7


class FailingLatency(Tone):
    @property
    def latency(self):
        raise RuntimeError("no\\nkey")


class FailingFade(Tone):
    def fade(self, value, seconds):
        raise RuntimeError("no\\nbreath")


class FailingRender(Tone):
    def render(self, samples):
        raise RuntimeError("no\\nbreath")
'''
METADATA = """
[pyanticip.sources]
backwards = stranger:Backwards
bare = stranger:Bare
broken = stranger:NotThere
mocopi = stranger:Backwards
failing = stranger:Failing
turning = stranger:Turning
flaky = stranger:Flaky
noencode = stranger:NoEncode
badport = stranger:BadPort
badwire = stranger:BadWire

[pyanticip.sinks]
lines = stranger:Lines
failingsink = stranger:FailingSink
bare = stranger:Bare
failingstart = stranger:FailingStart
nooptions = stranger:NoOptions

[pyanticip.backends]
flat = stranger:Flat
failingmodel = stranger:FailingModel
badcore = stranger:BadCore
bare = stranger:Bare

[pyanticip.voices]
tone = stranger:Tone
bare = stranger:Bare
mono = stranger:Mono
failingrender = stranger:FailingRender
failingfade = stranger:FailingFade
zerorate = stranger:ZeroRate
textrate = stranger:TextRate
longlatency = stranger:LongLatency
failinglatency = stranger:FailingLatency
nanvoice = stranger:NanVoice
noposition = stranger:NoPosition
failingparams = stranger:FailingParams
"""
