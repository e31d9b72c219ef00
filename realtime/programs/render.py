"""``pyanticip render``: a motion file to sound or numbers, with the pipeline of ``live`` on an offline clock.

The file's datagrams go through the same front-end, model step and mixer. Instead of OSC targets there is one
sink that stores what would have been sent and, for WAV, plays it on the built-in voice, accurate to the
sample. Everything is deterministic: the same file gives the same bytes.
"""

from __future__ import annotations

import contextlib
import io
import math
import queue
import threading
import time
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

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
    guarded,
    render_checked,
    voice_latency_ms,
)
from realtime.voice.event_queue import EventQueue
from realtime.voice.open import open_voice
from realtime.voice.wav import WavWriter

T = TypeVar("T")

SUFFIXES = (".wav", ".npz", ".csv")
SAMPLE_RATE = 48_000
# Most frames queued for the voice; if it is the slower part, the pipeline waits for it.
_QUEUE_FRAMES = 500
# Time for the room's reverberation to decay, seconds.
_TAIL_S = 2.5
# More than the fade-out before that takes, seconds.
_FADE_S = 1.0


class OfflinePlayer:
    """Plays the voice on a thread, which renders while the next frames are computed.

    Its sound depends only on the order and the times of the calls, never on when the thread runs.
    """

    def __init__(self, wav: WavWriter, voice: Voice | None = None) -> None:
        self._wav = wav
        self._voice = voice or open_voice("default", {}, SAMPLE_RATE)
        self._events = EventQueue(self._voice)
        self._is_panic = False
        self._jobs: queue.Queue[Callable[[], None] | None] = queue.Queue(_QUEUE_FRAMES)
        self._unwritten: list[npt.NDArray[np.float32]] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def latency_ms(self) -> float:
        """The voice's latency, milliseconds."""
        return voice_latency_ms(self._voice)

    def play(self, seconds: float, frame: ControlFrame) -> None:
        """Render up to ``seconds``, then pass a frame's parameters, events, tempo and limbs to the voice."""
        values, events, limbs = np.asarray(frame.params, np.float32), frame.events, list(frame.limbs)
        bpm, phase, trust = frame.tempo
        is_panic = frame.state == "panic"

        def job() -> None:
            self._render_to(seconds)
            if is_panic is not self._is_panic:
                self._is_panic = is_panic
                self._voice.fade(*((0.0, PANIC_S) if is_panic else (1.0, RETURN_S)))
            self._voice.params(values)
            if trust >= BEAT_TRUST and isinstance(self._voice, Rhythmic):
                self._voice.tempo(bpm, phase)
            if limbs and isinstance(self._voice, Limbed):
                for limb in range(4):
                    self._voice.limb(limb, *limbs[3 * limb : 3 * limb + 3])
            self._events.announce(events)

        self._jobs.put(job)

    def preset(self, name: str) -> None:
        """Switch to another preset at the next frame; ignored where the voice cannot."""

        def job() -> None:
            if isinstance(self._voice, Switchable):
                with contextlib.suppress(OptionError):
                    self._voice.preset(name)

        self._jobs.put(job)

    def finish(self, seconds: float) -> None:
        """Fade out until ``seconds``, and return when the file is complete; raises the thread's error."""

        def job() -> None:
            self._voice.fade(0.0, max(seconds - self._voice.position / SAMPLE_RATE, 0.0))
            self._render_to(seconds)
            self._write(0)

        self._jobs.put(job)
        self.close()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the thread after the queued work."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            if self._error is None:
                try:
                    with guarded(self._voice):
                        job()
                except BaseException as error:
                    # Raised by finish(); later jobs are skipped.
                    self._error = error

    def _render_to(self, seconds: float) -> None:
        missing = round(seconds * SAMPLE_RATE) - self._voice.position
        if missing > 0:
            self._events.release(missing)
            self._unwritten.append(render_checked(self._voice, missing))
            self._write(SAMPLE_RATE)

    def _write(self, least: int) -> None:
        """Write the rendered sound to the file if there are at least ``least`` samples."""
        if self._unwritten and sum(map(len, self._unwritten)) >= least:
            self._wav.write(np.concatenate(self._unwritten))
            self._unwritten.clear()


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
    """Render motion file ``path`` to ``out``: .wav (48 kHz stereo), .npz or .csv.

    Args:
        rig: model, lead, smoothing and all other settings; None: the built-in ones.
        seconds: longest motion that is rendered.
        progress: show a bar on standard error.
        say: receives warnings about the file, and the model's error if it fails.
        show: wire format and items to render instead of the file's.

    Returns:
        The summary that ``--json`` prints: ``without_model`` counts the frames that the scalars played
        because the model failed; ``times_real_time`` is seconds of motion per second of work, with reading
        the file and without opening the model.

    Raises:
        MotionError: a file cannot be read or written.
    """
    suffix = check_out(out, SUFFIXES)
    if out.exists() and suffix == ".npz" and not is_rendered(out):
        raise OptionError(f"{out}: already exists and was not rendered; give another name")
    rig = rig or Rig()
    started, opening = time.perf_counter(), 0.0
    source, stream = show or open_show(path, say=say, **rig.source.reading())
    items = list(stream)
    with contextlib.ExitStack() as undo:
        wav = undo.enter_context(WavWriter(out, SAMPLE_RATE)) if suffix == ".wav" else None
        if wav is not None and items:
            # Refused at once, not after all the work.
            planned = min((items[-1].t_ns - items[0].t_ns) / 1e9, seconds or float("inf"))
            longest = int(wav.room / SAMPLE_RATE - _TAIL_S - _FADE_S)
            if planned > longest:
                problem = f"{planned:.0f} s do not fit into a WAV file, which has at most 4 GiB"
                raise OptionError(f"{path}: {problem}; give --seconds {longest}")
        clock = OfflineClock(items[0].t_ns if items else 0)
        player = None
        if wav is not None:
            player = OfflinePlayer(
                wav, open_voice(rig.synth.preset, rig.synth.voice_options, SAMPLE_RATE, say)
            )
            undo.callback(player.close)
        capture = CaptureSink(clock, None if player is None else player.play)
        backend: StepBackend | None = None
        if rig.model.enabled:
            # Not chosen by timing, for determinism: the CPU backend unless the rig names another.
            kind, checkpoint = rig.model.backend, rig.model.checkpoint
            opening = -time.perf_counter()
            backend = open_processor(checkpoint) if kind == "auto" else open_backend(kind, checkpoint)
            opening += time.perf_counter()
        pipeline = assemble(
            rig.model_copy(update={"osc": ()}), clock, kind=source, sinks=[capture], backend=backend
        )
        undo.callback(pipeline.close)
        if player is not None:
            # Only the voice's own latency counts: there is no audio device.
            pipeline.mixer.sound_ms = max(pipeline.mixer.sound_ms, player.latency_ms)
        obey = Commands(pipeline, say or (lambda line: None), rig, player).replay_command
        play_offline(with_progress(items, len(items), progress), clock, pipeline.feed, obey, seconds)
        pipeline.run_until(clock.now_ns())
        if not capture.times:
            raise FormatError(f"{path}: no frame of motion in it")
        length = capture.times[-1] - capture.times[0]
        frames = len(capture.times)  # without those of the fade-out below
        pipeline.run_until(pipeline.fade_out(clock.now_ns()))
        if player is not None:
            player.finish(capture.times[-1] + _TAIL_S)
        if suffix == ".npz":
            _save_npz(out, _cut(capture.arrays(), frames), capture.outputs)
        elif suffix == ".csv":
            _save_csv(out, capture, frames)
        work_s = time.perf_counter() - started - opening
        model = backend.name if backend is not None else "none"
        counts = pipeline.counts
        if say is not None and pipeline.model_error:
            say(pipeline.model_error)
    report = {
        "out": str(out),
        "frames": frames,
        "seconds": round(length, 3),
        "events": sum(not name.endswith(CANCEL) for _, name, _, _ in capture.events),
        "model": model,
        "failed_steps": counts["failed_steps"],
        "without_model": counts["without_model"],
        "work_seconds": round(work_s, 3),
        "times_real_time": round(length / work_s, 1),
    }
    if wav is not None:
        report["sound_seconds"] = round(wav.samples / SAMPLE_RATE, 3)
    return report


def with_progress(items: Iterable[T], total: int, progress: bool, name: str = "rendering") -> Iterable[T]:
    """The items; with ``progress`` a bar called ``name`` on standard error advances as they are consumed."""
    if not progress:
        return items
    from rich.console import Console
    from rich.progress import track

    return track(items, name, total, console=Console(stderr=True), transient=True, update_period=0.2)


def _cut(arrays: dict[str, npt.NDArray[Any]], frames: int) -> dict[str, npt.NDArray[Any]]:
    """The arrays, each with the first ``frames`` rows, except those of events."""
    return {name: a if name.startswith("event_") else a[:frames] for name, a in arrays.items()}


def is_rendered(out: Path) -> bool:
    """Whether an npz was written by :func:`_save_npz`, and so may be overwritten."""
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


def _save_csv(out: Path, capture: CaptureSink, frames: int) -> None:
    """Write one line per frame; an event is in the line of the frame that announced it."""
    columns = ["t", *PARAMETERS, *capture.outputs, *SCALARS, "gate"]
    said = (name for _, name, _, _ in capture.events if not name.endswith(CANCEL))
    names = tuple(dict.fromkeys([*EVENTS, *said]))
    columns += [f"{name}{part}" for name in names for part in ("", "_ahead")]
    announced = {(t, name): (strength, ahead) for t, name, strength, ahead in capture.events}
    lines = [",".join(columns)]
    for i in range(frames):
        t = capture.times[i]
        fields = [f"{t:.3f}"]
        taught = (capture.taught[i].get(name, math.nan) for name in capture.outputs)
        fields += [f"{v:.6f}" for v in (*capture.params[i], *taught, *capture.scalars[i], capture.gates[i])]
        for name in names:
            event = announced.get((t, name))
            fields += [f"{v:.6f}" for v in event] if event else ["", ""]
        lines.append(",".join(fields))
    write_file(out, ("\n".join(lines) + "\n").encode("ascii"))
