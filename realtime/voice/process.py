"""The built-in voice as a child process: one more OSC target, restarted when it dies."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

from pythonosc.osc_message_builder import OscMessageBuilder

from pyanticip import _core
from pyanticip.errors import OptionError

__all__ = ["SynthProcess"]

# What the voice's process returns for settings that make no sense: starting it again cannot help.
_BAD_SETTINGS = 2
_LONGEST_PAUSE = 30.0
# A child that has begun is told its preset for so long: it listens only when it has opened its device.
_TOLD = 5.0


class SynthProcess:
    """Runs ``python -P -m realtime.voice.synth`` and keeps it running.

    The child lives in a session of its own, so that Ctrl-C reaches this process alone and there is time to
    fade out. It ends when its standard input does: with us, however we die. :meth:`poll`, called now and
    then, never blocks.
    """

    def __init__(
        self,
        port: int,
        device: str | int | None,
        say: Callable[[str], None],
        *,
        preset: str = "default",
        options: Mapping[str, object] | None = None,
    ) -> None:
        self.port = port
        self._say = say
        self._preset = self._began_with = preset
        self._chosen = 0.0
        self._command = [sys.executable, "-P", "-m", "realtime.voice.synth", "--port", str(port)]
        if device is not None:
            self._command += ["--device", str(device)]
        if preset != "default" or options:
            self._command += ["--preset", preset, "--options", json.dumps(options or {})]
        self._process: subprocess.Popen[bytes] | None = None
        self._pause = 1.0
        self._again = 0.0
        self._begun = 0.0
        #: How long what is sent to it takes to sound, as it says itself; None: it has not yet.
        self.sound_ms: float | None = None
        self._said = b""
        self.restarts = -1
        self.given_up = False
        self._start()

    def _start(self) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, start_new_session=True)
        if self._process.stdout is not None:
            os.set_blocking(self._process.stdout.fileno(), False)
        self._begun = time.monotonic()
        self.restarts += 1

    @property
    def pid(self) -> int | None:
        """The child's process id while it runs."""
        return self._process.pid if self._process is not None else None

    def preset(self, name: str) -> None:
        """Let another of the built-in presets take over.

        :raises OptionError: the voice that plays is not one of them.
        """
        if self._began_with not in _core.PRESETS:
            raise OptionError(f"preset: the voice {self._began_with!r} has no presets to switch to")
        self._preset, self._chosen = name, time.monotonic()
        self._tell()

    def _tell(self) -> None:
        builder = OscMessageBuilder("/anticip/control/preset")
        builder.add_arg(self._preset, "s")
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(builder.build().dgram, socket.MSG_DONTWAIT, ("127.0.0.1", self.port))

    def poll(self) -> None:
        """See whether the voice lives; start it again if not, with growing pauses."""
        now = time.monotonic()
        if self._chosen and now - max(self._begun, self._chosen) < _TOLD:
            self._tell()
        if self._process is None:
            if not self.given_up and now >= self._again:
                self._start()
            return
        self._listen(self._process)
        code = self._process.poll()
        if code is None:
            if now - self._begun > 60.0:
                self._pause = 1.0
            return
        self._release()
        if code == _BAD_SETTINGS:
            self.given_up = True
            self._say("going on without the built-in voice")
            return
        self._say(f"the built-in voice ended (code {code}); starting it again in {self._pause:g} s")
        self._again = now + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """What it says of itself: a line of JSON where its way to the ear has changed."""
        if process.stdout is None:
            return
        self._said += process.stdout.read() or b""
        *lines, self._said = self._said.split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                self.sound_ms = float(json.loads(line)["sound_ms"])

    def _release(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout) if self._process is not None else ():
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        self._process = None

    def close(self) -> None:
        """End the child: let it finish by itself, then make it."""
        process, self.given_up = self._process, True
        if process is None:
            return
        self._release()
        for wait in (2.0, 1.0):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(wait)
                return
            process.terminate()
        process.kill()
        process.wait()
