"""A motion file to sound or numbers, offline: the very pipeline of ``live`` on a clock that runs when told.

Datagrams of the file go through the same front-end, model step and mixer; instead of OSC targets there is
one sink that writes down what would have been sent and, for WAV, plays it on the built-in voice at the sample
where it falls. Everything is deterministic: the same file gives the same bytes.
"""

from __future__ import annotations

import contextlib
import io
import queue
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pyanticip.controls import CANCEL
from pyanticip.errors import FormatError, OptionError
from pyanticip.motion.atomic import check_out, write_file
from pyanticip.vocabulary import EVENTS, PARAMETERS, SCALARS
from realtime.clock import OfflineClock
from realtime.control.commands import Commands
from realtime.protocols import BEAT_TRUST
from realtime.rig import Rig
from realtime.sinks.base import ControlFrame
from realtime.sinks.capture import CaptureSink
from realtime.sources.replay import Item, open_show, play_offline
from realtime.stage import assemble
from realtime.step.base import StepBackend
from realtime.step.open import open_backend, open_processor
from realtime.voice.base import (
    PANIC_S,
    RETURN_S,
    Limbed,
    Rhythmic,
    Switchable,
    Voice,
    way_ms,
)
from realtime.voice.guard import block_of, guarded
from realtime.voice.open import open_voice
from realtime.voice.strokes import Strokes
from realtime.voice.wav import WavWriter

__all__ = ["SUFFIXES", "OfflinePlayer", "render"]

SUFFIXES = (".wav", ".npz", ".csv")
SAMPLE_RATE = 48_000
# Frames that may wait for the voice: where it is the slower one, the others are computed once it has got on.
_AHEAD = 500
# The room's tail.
_TAIL = 2.5


class OfflinePlayer:
    """The voice on a thread of its own: it renders while the next frames are computed.

    What it plays depends on the order and the times of what it was told alone, never on when the thread ran.
    """

    def __init__(self, wav: WavWriter, voice: Voice | None = None) -> None:
        self._wav = wav
        self._voice = voice or open_voice("default", {}, SAMPLE_RATE)
        self._strokes = Strokes(self._voice)
        self._panics = False
        self._orders: queue.Queue[Callable[[], None] | None] = queue.Queue(_AHEAD)
        self._made: list[npt.NDArray[np.float32]] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def way_ms(self) -> float:
        """How long the voice takes to sound."""
        return way_ms(self._voice)

    def play(self, seconds: float, frame: ControlFrame) -> None:
        """Render up to ``seconds``, then set the parameters, announce the events, tell beat and limbs."""
        values, events, limbs = np.asarray(frame.params, np.float32), frame.events, list(frame.limbs)
        bpm, phase, trust = frame.tempo
        panics = frame.state == "panic"

        def order() -> None:
            self._render_to(seconds)
            if panics is not self._panics:
                self._panics = panics
                self._voice.fade(*((0.0, PANIC_S) if panics else (1.0, RETURN_S)))
            self._voice.params(values)
            if trust >= BEAT_TRUST and isinstance(self._voice, Rhythmic):
                self._voice.tempo(bpm, phase)
            if limbs and isinstance(self._voice, Limbed):
                for limb in range(4):
                    self._voice.limb(limb, *limbs[3 * limb : 3 * limb + 3])
            self._strokes.announce(events)

        self._orders.put(order)

    def preset(self, name: str) -> None:
        """Let another preset take over where the next frame begins."""

        def order() -> None:
            if isinstance(self._voice, Switchable):
                with contextlib.suppress(OptionError):
                    self._voice.preset(name)

        self._orders.put(order)

    def finish(self, seconds: float) -> None:
        """Let the sound ring and fade until ``seconds``; when this returns it is all in the file."""

        def order() -> None:
            self._voice.fade(0.0, max(seconds - self._voice.position / SAMPLE_RATE, 0.0))
            self._render_to(seconds)
            self._write(0)

        self._orders.put(order)
        self.close()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the thread after what it was told."""
        self._orders.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (order := self._orders.get()) is not None:
            if self._error is None:
                try:
                    with guarded(self._voice):
                        order()
                except BaseException as error:
                    # Told to the caller at the end; the orders behind it are void.
                    self._error = error

    def _render_to(self, seconds: float) -> None:
        missing = round(seconds * SAMPLE_RATE) - self._voice.position
        if missing > 0:
            self._strokes.give(missing)
            self._made.append(block_of(self._voice, missing))
            self._write(SAMPLE_RATE)

    def _write(self, least: int) -> None:
        """Hand the sound on to the file when there is enough of it to be worth the call."""
        if self._made and sum(map(len, self._made)) >= least:
            self._wav.write(np.concatenate(self._made))
            self._made.clear()


def render(
    path: Path,
    out: Path,
    *,
    rig: Rig | None = None,
    seconds: float | None = None,
    progress: bool = False,
    say: Callable[[str], None] | None = None,
    show: tuple[str, Iterable[Item]] | None = None,
) -> dict[str, Any]:
    """Render motion file ``path`` to ``out``: .wav (48 kHz stereo), .npz or .csv; what was done, in numbers.

    ``rig`` gives model, lead, smoothing and the rest; ``seconds`` of motion at most; ``say`` is told what
    had to be decided in reading it, and why the model failed, where it did: the result's ``without_model``
    counts the frames that the scalars then played. Its ``times_real_time`` is seconds of motion per second of
    work, reading the file included, opening the model left out. Raises a MotionError for a file that cannot
    be read or written.
    """
    kind_of_file = check_out(out, SUFFIXES)
    if out.exists() and kind_of_file == ".npz" and not _is_rendered(out):
        raise OptionError(f"{out}: is there already and was not rendered; give another name")
    rig = rig or Rig()
    begun, opening = time.perf_counter(), 0.0
    source, shown = show or open_show(path, say=say, **rig.source.reading())
    items = list(shown)
    with contextlib.ExitStack() as undo:
        wav = undo.enter_context(WavWriter(out, SAMPLE_RATE)) if kind_of_file == ".wav" else None
        clock = OfflineClock(items[0].t_ns if items else 0)
        player = None
        if wav is not None:
            player = OfflinePlayer(
                wav, open_voice(rig.synth.preset, rig.synth.voice_options, SAMPLE_RATE, say)
            )
            undo.callback(player.close)
        capture = CaptureSink(clock, player)
        backend: StepBackend | None = None
        if rig.model.enabled:
            # No race decides here: unless the rig names another, it is the processor's backend.
            kind, checkpoint = rig.model.backend, rig.model.checkpoint
            opening = -time.perf_counter()
            backend = open_processor(checkpoint) if kind == "auto" else open_backend(kind, checkpoint)
            opening += time.perf_counter()
        pipeline = assemble(
            rig.model_copy(update={"osc": ()}), clock, kind=source, sinks=[capture], backend=backend
        )
        undo.callback(pipeline.close)
        if player is not None:
            # The voice's own way to the ear; there is no device.
            pipeline.mixer.sound_ms = max(pipeline.mixer.sound_ms, player.way_ms)
        obey = Commands(pipeline, say or (lambda line: None), rig, player).replay_command
        play_offline(_watched(items, progress), clock, pipeline.feed, obey, seconds)
        pipeline.run_until(clock.now_ns())
        if not capture.times:
            raise FormatError(f"{path}: no frame of motion in it")
        length = capture.times[-1] - capture.times[0]
        kept = len(capture.times)
        pipeline.run_until(pipeline.fade_out(clock.now_ns()))
        if player is not None:
            player.finish(capture.times[-1] + _TAIL)
        if kind_of_file == ".npz":
            _save_npz(out, _cut(capture.arrays(), kept), capture.outputs)
        elif kind_of_file == ".csv":
            _save_csv(out, capture, kept)
        took = time.perf_counter() - begun - opening
        model = backend.name if backend is not None else "none"
        counts = pipeline.counts
        if say is not None and pipeline.model_error:
            say(pipeline.model_error)
    report = {
        "out": str(out),
        "frames": kept,
        "seconds": round(length, 3),
        "events": sum(not name.endswith(CANCEL) for _, name, _, _ in capture.events),
        "model": model,
        "failed_steps": counts["failed_steps"],
        "without_model": counts["without_model"],
        "work_seconds": round(took, 3),
        "times_real_time": round(length / took, 1),
    }
    if wav is not None:
        report["sound_seconds"] = round(wav.samples / SAMPLE_RATE, 3)
    return report


def _watched(items: list[Item], progress: bool) -> Iterator[Item]:
    """The datagrams, with a bar on the terminal."""
    if not progress:
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, "rendering", console=Console(stderr=True), transient=True, update_period=0.2)


def _cut(arrays: dict[str, npt.NDArray[Any]], kept: int) -> dict[str, npt.NDArray[Any]]:
    """Without the frames of the fade-out."""
    return {name: a if name.startswith("event_") else a[:kept] for name, a in arrays.items()}


def _is_rendered(out: Path) -> bool:
    """Whether an npz is one of :func:`_save_npz`, and neither motion nor anything else."""
    try:
        with zipfile.ZipFile(out) as file:
            return "parameters.npy" in file.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def _save_npz(out: Path, arrays: dict[str, npt.NDArray[Any]], outputs: list[str]) -> None:
    buffer = io.BytesIO()
    names = {
        "parameters": np.array(PARAMETERS, "U16"),
        "outputs": np.array(outputs or np.empty(0, "U48"), np.str_),
    }
    np.savez(buffer, **names, **arrays)  # type: ignore[arg-type]
    write_file(out, buffer.getvalue())


def _save_csv(out: Path, capture: CaptureSink, kept: int) -> None:
    """One line a frame; an event stands in the line of the frame that announced it."""
    columns = ["t", *PARAMETERS, *capture.outputs, *SCALARS, "gate"]
    columns += [f"{name}{part}" for name in EVENTS for part in ("", "_ahead")]
    announced = {(t, name): (strength, ahead) for t, name, strength, ahead in capture.events}
    lines = [",".join(columns)]
    for i in range(kept):
        t = capture.times[i]
        fields = [f"{t:.3f}"]
        fields += [
            f"{v:.6f}"
            for v in (*capture.params[i], *capture.taught[i], *capture.scalars[i], capture.gates[i])
        ]
        for name in EVENTS:
            event = announced.get((t, name))
            fields += [f"{v:.6f}" for v in event] if event else ["", ""]
        lines.append(",".join(fields))
    write_file(out, ("\n".join(lines) + "\n").encode("ascii"))
