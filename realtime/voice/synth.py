"""The built-in voice as a process of its own: OSC in, sound out.

``python -P -m realtime.voice.synth --port N``. It listens on the very addresses that every other receiver
gets (``/anticip/param/<name>``, ``/anticip/params``, ``/anticip/event/<name>``, ``/anticip/tempo``,
``/anticip/status`` for the panic), so nothing that sends knows that it is built in, and on
``/anticip/control/preset``. A thread receives and
stamps; the audio callback alone touches the voice. Without PortAudio or without a device it says so, and goes
on without sound.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import json
import os
import signal
import socket
import stat
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pyanticip import _core
from pyanticip.errors import MotionError, OptionError, printable
from pyanticip.motion.atomic import check_out
from pyanticip.system import begin_anew, readable, signals
from realtime.child import tell_parent
from realtime.lines import beside
from realtime.sockets import bind_udp
from realtime.voice.audio import SAMPLE_RATE, own_stderr, rate_of
from realtime.voice.base import PANIC_S, RETURN_S, Limbed, Rhythmic, Switchable, Voice, way_ms
from realtime.voice.guard import block_of, guarded
from realtime.voice.open import open_voice
from realtime.voice.osc_input import Command, VoiceInput
from realtime.voice.output import BLOCK, Sound
from realtime.voice.strokes import Strokes

__all__ = ["SAMPLE_RATE", "Synth", "VoicePlayer", "main", "synth"]

_HOLD, _FADE, _END = 1.0, 2.0, 0.4
# The show is told how it plays so often, seconds.
_TELL_S = 1.0
# Of so many presets that it has not is told, each once.
_MOST_TOLD = 20
# What the process returns that is to be begun again for its audio device.
_ANEW = 3

Say = Callable[[str], None]


class VoicePlayer:
    """The voice and what waits for it. :meth:`push` from one thread, :meth:`render` from one other.

    ``latency`` is how much later than rendered a sample is heard, seconds: events that lie ahead are begun
    so much earlier. After 1 s without a message the sound is held no longer and fades within 2 s.
    """

    def __init__(self, voice: Voice | None = None, *, gain: float = 1.0) -> None:
        if not 0.0 <= gain <= 1.0:
            raise OptionError(f"gain: expected 0 to 1, got {gain:g}")
        self.voice = voice or open_voice("default", {}, SAMPLE_RATE)
        self._strokes = Strokes(self.voice)
        self.samples = 0
        self._gain = gain
        self._inbox: deque[tuple[float, list[Command]]] = deque(maxlen=1024)
        self._last_arrival = -1.0
        self._sounding = False
        self._ending = self._panics = False
        with guarded(self.voice):
            self.voice.fade(0.0, 0.0)
        block_of(self.voice, 2 * BLOCK)
        self.late_events = 0
        #: Presets that were asked for in vain, and why.
        self.refused: dict[str, str] = {}

    def push(self, commands: list[Command], arrival: float) -> None:
        """Commands that arrived at ``arrival`` (monotonic seconds)."""
        self._inbox.append((arrival, commands))

    def end(self) -> None:
        """Fade out for good."""
        self._ending = True

    def render(self, samples: int, now: float, latency: float = 0.0) -> npt.NDArray[np.float32]:
        """The next block, rendered at ``now`` (monotonic seconds), shape (samples, 2).

        Raises:
            OptionError: the voice is somebody else's, and fails.
        """
        with guarded(self.voice):
            while self._inbox:
                arrival, commands = self._inbox.popleft()
                self._last_arrival = arrival
                for command in commands:
                    self._obey(command, arrival, now, latency)
            self.samples += samples
            self._presence(now)
            self._strokes.give(samples)
        return block_of(self.voice, samples)

    def _obey(self, command: Command, arrival: float, now: float, latency: float) -> None:
        lag = self.voice.latency / self.voice.sample_rate
        match command:
            case "set", index, value, _:
                self.voice.set(index, value)
            case "tempo", _, bpm, phase:
                if isinstance(self.voice, Rhythmic):
                    # What is rendered now is heard later, when the beat has gone on.
                    gone = now + latency + lag - arrival
                    self.voice.tempo(bpm, (phase + gone * bpm / 60.0) % 1.0)
            case "cancel", index, _, ahead:
                self._strokes.cancel(index, arrival + ahead - now - latency - lag)
            case "event", index, strength, ahead:
                wait = arrival + ahead - now - latency - lag
                self.late_events += wait < 0.0
                self._strokes.strike(index, strength, max(wait, 0.0))
            case "limbs", values if not isinstance(values, str):
                if isinstance(self.voice, Limbed):
                    for limb in range(len(values) // 3):
                        self.voice.limb(limb, *values[3 * limb : 3 * limb + 3])
            case "status", state:
                self._panic(state == "panic")
            case "preset", name if isinstance(name, str):
                self._switch(name)

    def _switch(self, preset: str) -> None:
        if isinstance(self.voice, Switchable):
            try:
                self.voice.preset(preset)
            except OptionError as error:
                # Whoever sends to the voice itself is not answered.
                if len(self.refused) < _MOST_TOLD:
                    self.refused.setdefault(preset, str(error))

    def _panic(self, on: bool) -> None:
        """Silence at once, whatever rings, until the show is in another state or nothing comes any more."""
        if on and not self._panics:
            self.voice.fade(0.0, PANIC_S)
            self._sounding = False
        self._panics = on

    def _presence(self, now: float) -> None:
        heard = self._last_arrival >= 0.0 and now - self._last_arrival < _HOLD
        self._panics &= heard
        present = heard and not (self._ending or self._panics)
        if present and not self._sounding:
            self.voice.fade(self._gain, RETURN_S)
            self._sounding = True
        elif not present and self._sounding:
            self.voice.fade(0.0, _END * 0.75 if self._ending else _FADE)
            self._sounding = False


class Synth:
    """The process's parts: a socket and its thread, the player, the sound, an optional file."""

    def __init__(
        self,
        port: int,
        *,
        host: str = "127.0.0.1",
        device: str | int | None = None,
        gain: float = 1.0,
        wav: Path | None = None,
        voice: Voice | None = None,
        say: Say = lambda line: None,
    ) -> None:
        self.player = VoicePlayer(voice, gain=gain)
        self.input = VoiceInput()
        self._say, self._reported = say, 0
        self._socket = bind_udp(host, port, "synth")
        self._socket.settimeout(0.2)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        try:
            rate = round(self.player.voice.sample_rate)
            self._sound = Sound(self.player.render, rate, device, wav, say)
        except BaseException:
            self._socket.close()
            raise
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()

    def _receive(self) -> None:
        while not self._stop.is_set():
            try:
                datagram = self._socket.recv(65_536)
            except TimeoutError:
                continue
            except OSError:
                # An answer to nobody, a network that went down: it may be back.
                self._stop.wait(0.1)
                continue
            arrival = time.monotonic()
            commands = self.input.decode(datagram)
            # A status alone, sent while nothing plays, is a sign of life as well.
            self.player.push(commands, arrival)

    def poll(self) -> None:
        """Now and then, from the main thread: write what was played, look after the device."""
        self._sound.poll()
        for why in [*self.player.refused.values()][self._reported :]:
            self._reported += 1
            self._say(printable(why)[:300])

    @property
    def begin_anew(self) -> bool:
        """Whether a device is there that only a new process can play on."""
        return self._sound.begin_anew

    @property
    def lost(self) -> bool:
        """Whether a device has gone that could not be stopped."""
        return self._sound.lost

    @property
    def device(self) -> str | None:
        """What it is heard on; None: nothing."""
        return self._sound.device

    @property
    def way_ms(self) -> float:
        """How long what comes takes to sound: the device's latency, as PortAudio says, and the voice's."""
        return 1000.0 * self._sound.latency + way_ms(self.player.voice)

    def close(self) -> dict[str, Any]:
        """Fade out, stop, finish the file; what happened, in numbers."""
        device = self.device
        if self._sound.plays:
            self.player.end()
            time.sleep(_END + 0.1)
        self._sound.close()
        self._stop.set()
        self._thread.join(1.0)
        self._socket.close()
        return {
            **self.input.counts,
            "late_events": self.player.late_events,
            "seconds": round(self.player.samples / self.player.voice.sample_rate, 3),
            "underruns": self._sound.underruns,
            "device": device,
        }


def synth(
    port: int,
    *,
    host: str = "127.0.0.1",
    device: str | int | None = None,
    gain: float = 1.0,
    wav: Path | None = None,
    seconds: float | None = None,
    child: bool = False,
    preset: str = "default",
    options: Mapping[str, Any] | None = None,
    say: Say = lambda line: None,
) -> dict[str, Any]:
    """Play what comes to ``port`` until Ctrl-C, SIGTERM, ``seconds``, or (``child``) the parent's end.

    ``preset`` is a voice of :data:`realtime.seams.VOICES`, ``options`` are its own. Raises an OptionError for
    a ``wav`` of another suffix, a DeviceError for a folder that is not there.
    """
    if wav is not None:
        check_out(wav, (".wav",))
    rate = rate_of(device)
    # Whoever began it knows by this whether a device hangs, or there is much to read.
    if child:
        tell_parent(json.dumps({"reads": True}))
    with beside(say) as told:
        sound = open_voice(preset, options or {}, rate, told)
    if child:
        tell_parent(json.dumps({"reads": False}))
    ended = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: ended.set())
        for number in signals("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGBREAK")
    }
    try:
        with own_stderr():
            with beside(say) as told:
                voice = Synth(port, host=host, device=device, gain=gain, wav=wav, voice=sound, say=told)
                if not child:
                    where = f"{voice.address[0]}:{voice.address[1]}"
                    told(f"listening at {where}, playing on {voice.device or 'nothing'}; Ctrl-C ends")
                try:
                    left = _watch(voice, ended, seconds, child)
                except BaseException:
                    voice.close()
                    raise
                if left is None:
                    report = voice.close()
                    if voice.lost:
                        atexit.register(_end)
                    return report
            if child:
                # Whoever began it begins it again.
                os._exit(_ANEW)
        # Standard error is the terminal's again: it is all that the new process has.
        begin_anew(*left)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end() -> None:
    """End at once: where its device has gone PortAudio's own end may abort, or last for ever."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(0)


def _watch(
    voice: Synth, ended: threading.Event, seconds: float | None, child: bool
) -> tuple[str, ...] | None:
    """Until something ends it; with which more arguments to begin anew, None: not at all."""
    parent = os.getppid()
    begun = time.monotonic()
    told = -_TELL_S
    while True:
        voice.poll()
        if voice.begin_anew:
            if seconds is None:
                return ()
            return "--seconds", f"{max(begun + seconds - time.monotonic(), 0.001):.3f}"
        if child and time.monotonic() >= told + _TELL_S:
            told = time.monotonic()
            plays = voice.player.voice
            how = {"sound_ms": round(voice.way_ms, 1), "device": voice.device}
            how["sampled"] = isinstance(plays, _core.Voice) and plays.sampled
            tell_parent(json.dumps(how))
        if seconds is not None and time.monotonic() - begun >= seconds:
            return None
        if child and (os.getppid() != parent or _input_ended()):
            return None
        if ended.wait(0.1):
            return None


def _is_pipe() -> bool:
    """Whether standard input is a pipe or a socket, as a parent that wants to be watched gives us."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _input_ended() -> bool:
    """Whether the other end of standard input is gone."""
    try:
        return bool(readable(0.0)) and not os.read(0, 4096)
    except (OSError, ValueError):
        return True


def main(argv: list[str] | None = None) -> int:
    """``python -m realtime.voice.synth``."""
    parser = argparse.ArgumentParser(
        prog="realtime.voice.synth",
        description="Play the built-in voice from OSC. Ends with its standard input, if that is a pipe.",
        epilog="example: python -P -m realtime.voice.synth --port 57140 --wav take.wav",
    )
    parser.add_argument("--port", type=int, required=True, help="UDP port to listen at")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: loopback)")
    parser.add_argument("--device", help="number or name of the audio device")
    parser.add_argument("--gain", type=float, default=1.0, help="0..1")
    parser.add_argument("--wav", type=Path, help="also write what is played to this file")
    parser.add_argument("--seconds", type=float, help="end after so long")
    parser.add_argument("--preset", default="default", help="name of the voice")
    parser.add_argument("--options", type=json.loads, default={}, help="of the preset, as JSON")
    arguments = parser.parse_args(argv)
    if not 0 <= arguments.port <= 65_535:
        parser.error(f"port: expected 0 to 65535, got {arguments.port}")
    device = int(arguments.device) if arguments.device and arguments.device.isdecimal() else arguments.device

    def say(line: str) -> None:
        print(f"synth: {line}", file=sys.stderr, flush=True)

    child = _is_pipe()
    try:
        report = synth(
            arguments.port,
            host=arguments.host,
            device=device,
            gain=arguments.gain,
            wav=arguments.wav,
            seconds=arguments.seconds,
            child=child,
            preset=arguments.preset,
            options=arguments.options,
            say=say,
        )
    except MotionError as error:
        say(str(error))
        return 2 if isinstance(error, OptionError) else 1
    if not child:
        print(", ".join(f"{name} {value}" for name, value in report.items()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
