"""MIDI out: what frames become, handed over to the process that has the port."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence

from pyanticip.errors import DeviceError, OptionError
from realtime.sinks.base import ControlFrame, Extra
from realtime.sinks.midi.config import MidiConfig
from realtime.sinks.midi.schedule import pack
from realtime.sinks.midi.translator import Translator

__all__ = ["MidiSink"]

_OPENING_S = 20.0
# Beyond what the pipe holds nothing waits here: what is older is of no use.
_WAITING = 1 << 13
_LOOK = 25
_PAUSE_NS, _LONGEST_PAUSE_NS = 2_000_000_000, 32_000_000_000
# From the frames' time to the monotonic clock: the shortest way of late, which may grow by this each frame;
# a clock that runs at another speed is followed when it is this far off.
_LEAK_NS, _ASTRAY_NS = 20_000, 60_000_000


class MidiSink:
    """One MIDI port. Where its process dies it is started again, with growing pauses."""

    Config = MidiConfig

    def __init__(self, config: MidiConfig) -> None:
        if config.port is None:
            raise OptionError("midi.port: expected virtual, virtual:NAME, or a part of a port's name")
        if importlib.util.find_spec("rtmidi") is None:
            raise DeviceError("MIDI needs python-rtmidi: pip install 'pyanticip[midi]'")
        self.name = f"midi {config.port}"
        self._port = config.port
        self._translator = Translator(config)
        self._counts = {"sent": 0, "dropped": 0, "refused": 0, "failed": 0}
        self._waiting = bytearray()
        self._offset_ns: int | None = None
        self._gone = False
        self._frames = 0
        self._again_ns, self._pause_ns = 0, _PAUSE_NS
        self._process: subprocess.Popen[bytes] | None = self._start()
        self._await()

    def _start(self) -> subprocess.Popen[bytes]:
        """The process: in a session of its own, so that Ctrl-C reaches the show alone."""
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "realtime.sinks.midi.port", self._port],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        os.set_blocking(process.stdin.fileno(), False)
        os.set_blocking(process.stdout.fileno(), False)
        return process

    @property
    def pid(self) -> int | None:
        """The id of the port's process while it runs."""
        return None if self._process is None else self._process.pid

    def _await(self) -> None:
        """Wait until the port is open. Raises DeviceError."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        text = ""
        deadline = time.monotonic() + _OPENING_S
        while not text.endswith("\n"):
            ready, _, _ = select.select([process.stdout], [], [], max(deadline - time.monotonic(), 0.0))
            got = process.stdout.read(1024) if ready else None
            if not got:
                break
            text += got.decode(errors="replace")
        word, _, said = text.strip().partition(" ")
        if word != "ready":
            self.close()
            raise DeviceError(said or f"MIDI {self._port}: the driver does not answer")
        self.name = f"midi {said}"

    def announce(self, extras: Sequence[Extra]) -> None:
        """From the next frame on these taught outputs come beside the eight."""
        self._translator.announce(extras)

    def send(self, frame: ControlFrame) -> None:
        """Hand over what the frame says. Never blocks; starts the process again where it has died."""
        self._frames += 1
        if self._frames % _LOOK == 0:
            self._listen()
        if self._process is None and not self._revive():
            return
        items = self._translator.frame(frame)
        offset = self._clock(frame.t_ns)
        if not items and not self._waiting:
            return
        if len(self._waiting) > _WAITING:
            self._counts["dropped"] += len(items)
            self._translator.forget()
            items = []
        self._waiting += pack(
            item._replace(due_ns=item.due_ns + offset) if item.due_ns else item for item in items
        )
        self._counts["refused" if self._gone else "sent"] += len(items)
        self._hand_over()

    def _clock(self, t_ns: int) -> int:
        """What to add to the frames' time for that of the monotonic clock."""
        offset = time.monotonic_ns() - t_ns
        known = self._offset_ns
        if known is None or not known <= offset <= known + _ASTRAY_NS:
            known = offset
        self._offset_ns = min(known + _LEAK_NS, offset)
        return self._offset_ns

    def _hand_over(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            taken = os.write(self._process.stdin.fileno(), self._waiting)
        except BlockingIOError:
            return
        except OSError:
            self._lose()
            return
        del self._waiting[:taken]

    def _listen(self) -> None:
        """What the process says: the port has gone, or is back."""
        if self._process is None or self._process.stdout is None:
            return
        for line in (self._process.stdout.read(1024) or b"").decode(errors="replace").split():
            if line == "gone":
                self._gone = True
            elif line == "back":
                self._gone = False
                self._translator.forget()

    def _lose(self) -> None:
        """The process has died: again in a while, each time a longer one."""
        self._counts["failed"] += 1
        self._release()
        self._again_ns = time.monotonic_ns() + self._pause_ns
        self._pause_ns = min(2 * self._pause_ns, _LONGEST_PAUSE_NS)

    def _revive(self) -> bool:
        if time.monotonic_ns() < self._again_ns:
            return False
        try:
            self._process = self._start()
        except OSError:
            self._lose()
            return False
        self._gone = False
        self._translator.forget()
        return True

    def counters(self) -> dict[str, int]:
        """Messages sent, dropped (the port's process did not take them), refused (the port is gone); how
        often that process failed."""
        return dict(self._counts)

    def _release(self) -> subprocess.Popen[bytes] | None:
        process, self._process = self._process, None
        self._waiting.clear()
        if process is not None:
            for end in (process.stdin, process.stdout):
                if end is not None:
                    with contextlib.suppress(OSError):
                        end.close()
            process.poll()
        return process

    def close(self) -> None:
        """End every note and give the port back."""
        process = self._release()
        if process is None:
            return
        for wait in (2.0, 1.0):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(wait)
                return
            process.terminate()
        process.kill()
        process.wait()
