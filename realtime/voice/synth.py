"""The built-in voice as a process: OSC in, sound out. ``python -P -m realtime.voice.synth --port N``.

It receives the same addresses as every other receiver (``/anticip/param/<name>``, ``/anticip/params``,
``/anticip/event/<name>``, ``/anticip/tempo``, ``/anticip/limbs``, and ``/anticip/status`` for the panic), so
that no sender treats it specially, and ``/anticip/control/preset``. A thread receives and timestamps
datagrams; only the audio callback touches the voice. Without PortAudio or a device it reports that and goes
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
from pyanticip.system import available_signals, restart_program, wait_readable
from realtime.child import tell_parent
from realtime.lines import threaded_say
from realtime.sockets import bind_udp
from realtime.voice.audio import SAMPLE_RATE, device_rate, own_stderr
from realtime.voice.base import (
    PANIC_S,
    RETURN_S,
    Limbed,
    Rhythmic,
    Switchable,
    Voice,
    guarded,
    render_checked,
    voice_latency_ms,
)
from realtime.voice.event_queue import EventQueue
from realtime.voice.open import open_voice
from realtime.voice.osc_input import Command, VoiceInput
from realtime.voice.output import BLOCK, Sound

# After this long without a message the sound fades out, in _FADE_S.
_HOLD_S = 1.0
_FADE_S = 2.0
# Time that the process takes to fade out when it ends.
_END_S = 0.4
_REPORT_INTERVAL_S = 1.0
# Most unknown presets that are reported, each once.
_MAX_REFUSED = 20
# Exit code that asks the parent for a restart, because a new audio device can be used.
_RESTART_CODE = 3

Say = Callable[[str], None]


class VoicePlayer:
    """A voice and its queued commands. One thread calls :meth:`push`, one other :meth:`render`.

    After 1 s without a message the sound fades out within 2 s.
    """

    def __init__(self, voice: Voice | None = None, *, gain: float = 1.0) -> None:
        if not 0.0 <= gain <= 1.0:
            raise OptionError(f"gain: expected 0 to 1, got {gain:g}")
        self.voice = voice or open_voice("default", {}, SAMPLE_RATE)
        self._events = EventQueue(self.voice)
        self.samples = 0
        self._gain = gain
        self._inbox: deque[tuple[float, list[Command]]] = deque(maxlen=1024)
        self._last_arrival = -1.0
        self._is_audible = False
        self._is_ending = self._is_panic = False
        with guarded(self.voice):
            self.voice.fade(0.0, 0.0)
        render_checked(self.voice, 2 * BLOCK)
        self.late_events = 0
        #: Presets that could not be switched to, with the error.
        self.refused: dict[str, str] = {}

    def push(self, commands: list[Command], arrival: float) -> None:
        """Queue commands that arrived at ``arrival`` (monotonic seconds)."""
        self._inbox.append((arrival, commands))

    def end(self) -> None:
        """Fade out, permanently."""
        self._is_ending = True

    def render(self, samples: int, now: float, latency: float = 0.0) -> npt.NDArray[np.float32]:
        """Execute the queued commands and render the next block, shape (samples, 2).

        ``now`` is the time of rendering (monotonic seconds). ``latency`` is the time from rendering to
        hearing (seconds); events ahead start that much earlier.

        Raises:
            OptionError: The voice is another package's, and fails.
        """
        with guarded(self.voice):
            while self._inbox:
                arrival, commands = self._inbox.popleft()
                self._last_arrival = arrival
                for command in commands:
                    self._execute(command, arrival, now, latency)
            self.samples += samples
            self._update_fade(now)
            self._events.release(samples)
        return render_checked(self.voice, samples)

    def _execute(self, command: Command, arrival: float, now: float, latency: float) -> None:
        lag = self.voice.latency / self.voice.sample_rate
        match command:
            case "set", index, value, _:
                self.voice.set(index, value)
            case "tempo", _, bpm, phase:
                if isinstance(self.voice, Rhythmic):
                    # The phase when the sample rendered now is heard.
                    elapsed = now + latency + lag - arrival
                    self.voice.tempo(bpm, (phase + elapsed * bpm / 60.0) % 1.0)
            case "cancel", index, _, ahead:
                self._events.cancel(index, arrival + ahead - now - latency - lag)
            case "event", index, strength, ahead:
                wait = arrival + ahead - now - latency - lag
                self.late_events += wait < 0.0
                self._events.strike(index, strength, max(wait, 0.0))
            case "limbs", values if not isinstance(values, str):
                if isinstance(self.voice, Limbed):
                    for limb in range(len(values) // 3):
                        self.voice.limb(limb, *values[3 * limb : 3 * limb + 3])
            case "status", state:
                self._set_panic(state == "panic")
            case "preset", name if isinstance(name, str):
                self._switch(name)

    def _switch(self, preset: str) -> None:
        if isinstance(self.voice, Switchable):
            try:
                self.voice.preset(preset)
            except OptionError as error:
                # Reported by `Synth.poll`: the sender gets no answer.
                if len(self.refused) < _MAX_REFUSED:
                    self.refused.setdefault(preset, str(error))

    def _set_panic(self, is_panic: bool) -> None:
        """Silence everything at once, until the show leaves the panic or no messages come any more."""
        if is_panic and not self._is_panic:
            self.voice.fade(0.0, PANIC_S)
            self._is_audible = False
        self._is_panic = is_panic

    def _update_fade(self, now: float) -> None:
        """Fade in or out: audible while messages come, except in a panic and at the end."""
        is_receiving = self._last_arrival >= 0.0 and now - self._last_arrival < _HOLD_S
        self._is_panic &= is_receiving
        should_sound = is_receiving and not (self._is_ending or self._is_panic)
        if should_sound and not self._is_audible:
            self.voice.fade(self._gain, RETURN_S)
            self._is_audible = True
        elif not should_sound and self._is_audible:
            self.voice.fade(0.0, _END_S * 0.75 if self._is_ending else _FADE_S)
            self._is_audible = False


class Synth:
    """The parts of the process: socket and receiving thread, player, audio output, optional file."""

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
            #: The device and the file.
            self.sound = Sound(self.player.render, rate, device, wav, say)
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
                # An ICMP error, or the network is down; it may come back.
                self._stop.wait(0.1)
                continue
            arrival = time.monotonic()
            commands = self.input.decode(datagram)
            # Any datagram keeps the sound alive, even one without commands.
            self.player.push(commands, arrival)

    def poll(self) -> None:
        """Write what was played to the file, check the device and report refused presets; call it regularly
        from the main thread. Raises the DeviceError of :meth:`Sound.poll`."""
        self.sound.poll()
        for error in [*self.player.refused.values()][self._reported :]:
            self._reported += 1
            self._say(printable(error)[:300])

    @property
    def latency_ms(self) -> float:
        """Milliseconds from a message to its sound: the device's latency, as PortAudio reports it, and the
        voice's."""
        return 1000.0 * self.sound.latency + voice_latency_ms(self.player.voice)

    def close(self) -> dict[str, Any]:
        """Fade out, stop and complete the file; returns counters and totals."""
        device = self.sound.device
        if self.sound.plays:
            self.player.end()
            time.sleep(_END_S + 0.1)
        self.sound.close()
        self._stop.set()
        self._thread.join(1.0)
        self._socket.close()
        return {
            **self.input.counts,
            "late_events": self.player.late_events,
            "seconds": round(self.player.samples / self.player.voice.sample_rate, 3),
            "underruns": self.sound.underruns,
            "device": device,
            "wav_complete": self.sound.wav_complete,
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
    """Play what is sent to ``port`` until Ctrl-C, SIGTERM, ``seconds``, or (``child``) the parent's end.

    ``preset`` is a voice of :data:`realtime.seams.VOICES`, with its ``options``. Returns the report of
    :meth:`Synth.close`.

    Raises:
        OptionError: ``wav`` has another suffix, or the preset or its options are wrong.
        DeviceError: The folder of ``wav`` does not exist, the port is in use, or the voice fails.
    """
    if wav is not None:
        check_out(wav, (".wav",))
    rate = device_rate(device)
    # Lets the parent tell a device that hangs from samples that take long to read.
    if child:
        tell_parent(json.dumps({"reads": True}))
    with threaded_say(say) as report_line:
        voice = open_voice(preset, options or {}, rate, report_line)
    if child:
        tell_parent(json.dumps({"reads": False}))
    stop = threading.Event()
    previous_handlers = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in available_signals("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGBREAK")
    }
    try:
        with own_stderr():
            with threaded_say(say) as report_line:
                running = Synth(
                    port, host=host, device=device, gain=gain, wav=wav, voice=voice, say=report_line
                )
                if not child:
                    address = f"{running.address[0]}:{running.address[1]}"
                    report_line(
                        f"listening at {address}, playing on {running.sound.device or 'nothing'}; Ctrl-C ends"
                    )
                try:
                    restart_arguments = _run(running, stop, seconds, child)
                except BaseException:
                    running.close()
                    raise
                if restart_arguments is None:
                    report = running.close()
                    if running.sound.lost:
                        atexit.register(_exit_at_once)
                    return report
            if child:
                # The parent restarts it.
                os._exit(_RESTART_CODE)
        # After `own_stderr`, because the new process inherits standard error.
        restart_program(*restart_arguments)
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


def _exit_at_once() -> None:
    """Exit without PortAudio's own cleanup, which may abort or block for ever when its device is gone."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(0)


def _run(running: Synth, stop: threading.Event, seconds: float | None, child: bool) -> tuple[str, ...] | None:
    """Run until something ends it; returns extra arguments for a restart, or None for no restart."""
    parent = os.getppid()
    started = time.monotonic()
    last_report = -_REPORT_INTERVAL_S
    while True:
        running.poll()
        if running.sound.needs_restart:
            if seconds is None:
                return ()
            return "--seconds", f"{max(started + seconds - time.monotonic(), 0.001):.3f}"
        if child and time.monotonic() >= last_report + _REPORT_INTERVAL_S:
            last_report = time.monotonic()
            voice = running.player.voice
            report = {"sound_ms": round(running.latency_ms, 1), "device": running.sound.device}
            report["sampled"] = isinstance(voice, _core.Voice) and voice.has_samples
            tell_parent(json.dumps(report))
        if seconds is not None and time.monotonic() - started >= seconds:
            return None
        if child and (os.getppid() != parent or _input_ended()):
            return None
        if stop.wait(0.1):
            return None


def _is_pipe() -> bool:
    """Whether standard input is a pipe or a socket, which a parent keeps open as long as it lives."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _input_ended() -> bool:
    """Whether the other end of standard input is closed."""
    try:
        return bool(wait_readable(0.0)) and not os.read(0, 4096)
    except (OSError, ValueError):
        return True


def main(argv: list[str] | None = None) -> int:
    """Entry point of ``python -m realtime.voice.synth``."""
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
    parser.add_argument("--seconds", type=float, help="end after this many seconds")
    parser.add_argument("--preset", default="default", help="name of the voice")
    parser.add_argument("--options", type=json.loads, default={}, help="options of the preset, as JSON")
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
