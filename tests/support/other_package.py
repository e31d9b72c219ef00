"""A third-party package as a module and its entry points: plug-ins that work, and ones that break their
contract."""

STRANGER = '''
from dataclasses import dataclass
import numpy as np
from pydantic import BaseModel
from pyanticip.motion.datagrams import datagrams
from realtime.sinks.base import ControlFrame
from realtime.step.base import StepBackend, StepResult


class Backwards:
    """A suit whose datagrams are msgpack, read from behind, in pairs."""

    port, wire, native = 40123, "msgpack", False

    def decode(self, datagram):
        if not datagram.startswith(b"!"):
            raise ValueError("not ours")
        return [datagram[:0:-1]]

    def encode(self, clip, *, rate, loop, unix_time):
        for t_ns, datagram in datagrams(clip, "msgpack", rate=rate, loop=loop):
            yield t_ns, b"!" + datagram[::-1]


class Halting(Backwards):
    """Raises after a datagram, and gives text after two; cannot send."""

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
    """What the documentation shows: turns whatever comes."""

    def decode(self, datagram):
        return [datagram[:0:-1]]


class Moody(Backwards):
    """Is not made the second time, and does not begin again."""

    made = 0

    def __init__(self):
        Moody.made += 1
        if Moody.made == 2:
            raise RuntimeError("no\\nmood")

    def begin_anew(self):
        raise RuntimeError("no\\nrest")


@dataclass(frozen=True, slots=True)
class Deaf:
    port, wire, native = 40123, "msgpack", False

    def decode(self, datagram): ...


class Portless(Backwards):
    port = "40123"


class Strange(Backwards):
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
        return {"sent": self.sent}

    def close(self):
        self.file.close()


class Cross(Lines):
    """Raises whatever it is asked for."""

    def __init__(self, config):
        self.name, self.sent = "cross", 0

    def send(self, *given):
        raise RuntimeError("not\\nnow")

    counters = close = announce = send


class Bare:
    """Lacks everything."""


class Plain(Lines):
    class Config(BaseModel):
        pass


class Late(Lines):
    def __init__(self, config):
        raise RuntimeError("no\\npaper")


class Flat(StepBackend):
    """A model that says the same for ever."""

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


class Torn(Flat):
    """A model that fails."""

    def step(self, rows):
        raise RuntimeError("no\\ngrip")


class Five(Flat):
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


class Standing(Tone):
    def render(self, samples):
        return np.zeros((samples, 2), np.float32)


class Stiff(Tone):
    def params(self, values):
        raise RuntimeError("no\\nhands")


class Void(Tone):
    class Config(BaseModel):
        model_config = {"extra": "allow"}

        level: float = float("nan")


class Rateless(Tone):
    sample_rate = 0


class Lettered(Tone):
    sample_rate = "x"


class Ages(Tone):
    latency = 10**7


class Locked(Tone):
    @property
    def latency(self):
        raise RuntimeError("no\\nkey")


class Fading(Tone):
    def fade(self, value, seconds):
        raise RuntimeError("no\\nbreath")


class Hoarse(Tone):
    def render(self, samples):
        raise RuntimeError("no\\nbreath")
'''
METADATA = """
[pyanticip.sources]
backwards = stranger:Backwards
bare = stranger:Bare
broken = stranger:NotThere
mocopi = stranger:Backwards
halting = stranger:Halting
turning = stranger:Turning
moody = stranger:Moody
deaf = stranger:Deaf
portless = stranger:Portless
strange = stranger:Strange

[pyanticip.sinks]
lines = stranger:Lines
cross = stranger:Cross
bare = stranger:Bare
late = stranger:Late
plain = stranger:Plain

[pyanticip.backends]
flat = stranger:Flat
torn = stranger:Torn
five = stranger:Five
bare = stranger:Bare

[pyanticip.voices]
tone = stranger:Tone
bare = stranger:Bare
mono = stranger:Mono
hoarse = stranger:Hoarse
fading = stranger:Fading
rateless = stranger:Rateless
lettered = stranger:Lettered
ages = stranger:Ages
locked = stranger:Locked
void = stranger:Void
standing = stranger:Standing
stiff = stranger:Stiff
"""
