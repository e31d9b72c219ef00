"""The built-in voice as a child process: one more OSC target, restarted when it dies."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Mapping, Sequence

from pythonosc.osc_message_builder import OscMessageBuilder

from pyanticip import _core
from pyanticip.errors import OptionError
from realtime.child import Child
from realtime.voice.base import NEEDS_SAMPLES, SAMPLED

__all__ = ["SynthProcess"]

# What the voice's process returns for settings that make no sense: starting it again cannot help.
_BAD_SETTINGS = 2
# Its preset is told again for so long: from when the child first says how it plays, for it listens only once
# samples are read and a device is open, however long that takes.
_TOLD = 5.0
# It tells how it is once a second; silent for so long it stands still, and for so long where it begins: a
# device may take its time. Reading samples takes as long as it takes.
_SILENT_S, _BEGINS_S = 10.0, 30.0


class SynthProcess(Child):
    """Runs :mod:`realtime.voice.synth` and keeps it running."""

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
        self._preset = self._began_with = preset
        self._options = options or {}
        self._chosen = 0.0
        #: How long what is sent to it takes to sound, as it says itself; None: it has not yet.
        self.sound_ms: float | None = None
        #: The device that it plays on, as it says; None: none, or it has not told.
        self.device: str | None = None
        # Whether it has recorded sounds, as it says; None: it has not told.
        self._sampled: bool | None = None
        # When that was told first and last (0: not yet).
        self._first_report = self._last_report = 0.0
        # Whether it reads its samples, and since when it does not.
        self._reads, self._opens = False, 0.0
        arguments = ["--preset", preset, "--options", json.dumps(self._options), "--port", str(port)]
        if device is not None:
            arguments += ["--device", str(device)]
        super().__init__("the built-in voice", "realtime.voice.synth", arguments, say, (_BAD_SETTINGS,))

    def preset(self, name: str) -> None:
        """Let another of the built-in presets take over.

        Raises:
            OptionError: the voice that plays is not one of them.
        """
        if name == SAMPLED and "samples" not in self._options:
            raise OptionError(f"preset {name}: {NEEDS_SAMPLES}")
        if name == SAMPLED and self._sampled is False:
            raise OptionError(f"preset {name}: no sound was found in {self._options['samples']}")
        if self._began_with not in _core.PRESETS:
            raise OptionError(f"preset: the voice {self._began_with!r} has no presets to switch to")
        self._preset, self._chosen = name, time.monotonic()
        # As it is told, and as it begins with where it has to begin again.
        self._arguments[1] = name
        self._tell()

    def _tell(self) -> None:
        builder = OscMessageBuilder("/anticip/control/preset")
        builder.add_arg(self._preset, "s")
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.sendto(builder.build().dgram, ("127.0.0.1", self.port))

    def poll(self) -> list[str]:
        """See whether it lives; it says how it plays, a line of JSON a second."""
        now = time.monotonic()
        if self._chosen and (not self._last_report or now - max(self._first_report, self._chosen) < _TOLD):
            self._tell()
        return super().poll()

    def _hear(self, lines: Sequence[str]) -> None:
        now = time.monotonic()
        for line in lines:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                told = json.loads(line)
                if "reads" in told:
                    self._reads, self._opens = bool(told["reads"]), now
                    continue
                before, self.device = self.device, told["device"]
                self.sound_ms, self._last_report = float(told["sound_ms"]), now
                self._first_report = self._first_report or now
                self._sampled = told["sampled"]
                if self.device is not None and self.device != before:
                    self._say(f"{self.name} plays on {self.device}")

    def _greet(self) -> None:
        self._first_report = self._last_report = 0.0
        self.device = self._sampled = None
        self._reads, self._opens = False, self.begun

    def _is_stuck(self, now: float) -> bool:
        if not self._last_report:
            return not self._reads and now - self._opens > _BEGINS_S
        return now - self._last_report > _SILENT_S

    @property
    def state(self) -> str:
        """Where it is heard."""
        if self.pid is None:
            return super().state
        if not self._last_report:
            return "no (it begins)"
        return "no (no audio device)" if self.device is None else f"yes ({self.device})"
