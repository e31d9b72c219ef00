"""The built-in voice as a child process, an OSC target that is restarted when it dies."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pyanticip import _core
from pyanticip.errors import OptionError
from realtime.child import Child
from realtime.osc import message
from realtime.sockets import free_port
from realtime.voice.base import NEEDS_SAMPLES, SAMPLED

if TYPE_CHECKING:
    from realtime.rig.tree import SynthRig

# Exit code of the process for invalid settings, with which a restart would not help.
_BAD_SETTINGS = 2
# A chosen preset is sent repeatedly until this long after the process's first report: it receives OSC only
# once samples are read and a device is open, however long that takes.
_PRESET_REPEAT_S = 5.0
# The process reports once a second. Without a report for this long it is stuck.
_REPORT_TIMEOUT_S = 10.0
# The same for the first report, because opening a device takes time; reading samples is not limited.
_START_TIMEOUT_S = 30.0


class SynthProcess(Child):
    """Runs :mod:`realtime.voice.synth`, and restarts it when it dies or is stuck."""

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
        self._preset = self._initial_preset = preset
        self._options = options or {}
        # When a preset was chosen (monotonic seconds; 0: never).
        self._chosen_at = 0.0
        #: Latency from OSC to sound that the process reported, milliseconds; None: no report yet.
        self.sound_ms: float | None = None
        #: The audio device that it reported; None: no device, or no report yet.
        self.device: str | None = None
        # Whether it has recorded sounds; None: no report yet.
        self._has_samples: bool | None = None
        # When the first and the last report came (0: none yet).
        self._first_report = self._last_report = 0.0
        # Whether it is reading samples, and when that last changed.
        self._is_reading, self._reading_changed_at = False, 0.0
        arguments = ["--preset", preset, "--options", json.dumps(self._options), "--port", str(port)]
        if device is not None:
            arguments += ["--device", str(device)]
        super().__init__("the built-in voice", "realtime.voice.synth", arguments, say, (_BAD_SETTINGS,))

    def preset(self, name: str) -> None:
        """Switch to another built-in preset.

        Raises:
            OptionError: The preset needs samples that are missing, or the voice is not a built-in one.
        """
        if name == SAMPLED and "samples" not in self._options:
            raise OptionError(f"preset {name}: {NEEDS_SAMPLES}")
        if name == SAMPLED and self._has_samples is False:
            raise OptionError(f"preset {name}: no sound was found in {self._options['samples']}")
        if self._initial_preset not in _core.PRESETS:
            raise OptionError(f"preset: the voice {self._initial_preset!r} has no presets to switch to")
        self._preset, self._chosen_at = name, time.monotonic()
        # A restarted process begins with it.
        self._arguments[1] = name
        self._send_preset()

    def _send_preset(self) -> None:
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.sendto(message("/anticip/control/preset", (self._preset,)), ("127.0.0.1", self.port))

    def poll(self) -> list[str]:
        """See :meth:`Child.poll`; also reads the process's reports, one line of JSON per second."""
        now = time.monotonic()
        is_new = now - max(self._first_report, self._chosen_at) < _PRESET_REPEAT_S
        if self._chosen_at and (not self._last_report or is_new):
            self._send_preset()
        return super().poll()

    def _on_output(self, lines: Sequence[str]) -> None:
        now = time.monotonic()
        for line in lines:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                report = json.loads(line)
                if "reads" in report:
                    self._is_reading, self._reading_changed_at = bool(report["reads"]), now
                    continue
                previous, self.device = self.device, report["device"]
                self.sound_ms, self._last_report = float(report["sound_ms"]), now
                self._first_report = self._first_report or now
                self._has_samples = report["sampled"]
                if self.device is not None and self.device != previous:
                    self._say(f"{self.name} plays on {self.device}")

    def _on_start(self) -> None:
        self._first_report = self._last_report = 0.0
        self.device = self._has_samples = None
        self._is_reading, self._reading_changed_at = False, self.started_at

    def _is_stuck(self, now: float) -> bool:
        if not self._last_report:
            return not self._is_reading and now - self._reading_changed_at > _START_TIMEOUT_S
        return now - self._last_report > _REPORT_TIMEOUT_S

    @property
    def state(self) -> str:
        """State for the status: ``yes (DEVICE)``, or ``no (REASON)``."""
        if self.pid is None:
            return super().state
        if not self._last_report:
            return "no (it begins)"
        return "no (no audio device)" if self.device is None else f"yes ({self.device})"


def begin_voice(rig: SynthRig, say: Callable[[str], None]) -> SynthProcess:
    """Start the voice of a rig. Opening its audio device is the slowest part of starting a show."""
    port = rig.port or free_port()
    return SynthProcess(port, rig.device, say, preset=rig.preset, options=rig.voice_options)
