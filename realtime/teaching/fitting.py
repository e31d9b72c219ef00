"""From a project to its mapping: observe the takes, fit, write the file, and only then put it in place."""

from __future__ import annotations

import contextlib
import hashlib
import io
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pyanticip.errors import DeviceError, FormatError, OptionError
from pyanticip.models.checkpoint.manifest import WEIGHTS
from pyanticip.motion.atomic import write_atomic, write_file, writing
from pyanticip.motion.clip import Clip
from pyanticip.teach.fit import fit_parts
from pyanticip.teach.folds import moments
from pyanticip.teach.frames import Part, TakeData, body
from pyanticip.teach.gestures import Gesture, GestureExample, fit_gestures
from pyanticip.teach.labels import GESTURE, NONE
from pyanticip.teach.mapping import LARGEST, load_mapping, pack_mapping
from pyanticip.teach.options import FitOptions
from pyanticip.teach.project import CACHE, MAPPING, MAPPINGS, Project
from pyanticip.teach.state import State, TakeEntry
from pyanticip.untrusted import open_file, read_file
from pyanticip.vocabulary import CANONICAL_JOINTS, RATE
from realtime.step.open import ModelBackend, open_processor
from realtime.teaching.page import write_page

__all__ = ["ModelBackend", "Observer", "fit_project", "observe", "shown", "take_data", "use_mapping"]

F32 = npt.NDArray[np.float32]


def observe(rows: F32, backend: ModelBackend | None) -> dict[str, F32]:
    """The input blocks (T, width) of feature rows (T, 231 or 279), stepped from the start of a stream."""
    blocks = {"body": body(rows)}
    if backend is not None and backend.hidden:
        backend.reset()
        hidden = np.zeros((len(rows), backend.hidden), np.float32)
        for t in range(len(rows)):
            state = backend.step(rows[t : t + 1]).hidden
            assert state is not None
            hidden[t] = state
        blocks["hidden"] = hidden
    return blocks


class Observer:
    """Observes a project's takes on one model, each once: what it finds is kept in the project's cache."""

    def __init__(self, project: Project, backend: ModelBackend | None) -> None:
        self._cache = project.folder / CACHE
        self._backend = backend
        self.stepped = 0

    def blocks(self, take: TakeEntry, clip: Clip) -> dict[str, F32]:
        """The input blocks (total, width) of a take's motion."""
        rows = clip.features()
        backend = self._backend
        if backend is None or not backend.hidden:
            return observe(rows, None)
        path = self._cached(take, rows, backend)
        hidden = _read(path, (len(rows), backend.hidden))
        if hidden is not None:
            return {"body": body(rows), "hidden": hidden}
        self.stepped += len(rows)
        blocks = observe(rows, backend)
        buffer = io.BytesIO()
        np.save(buffer, blocks["hidden"], allow_pickle=False)
        # A cache that cannot be written costs time and nothing else.
        with contextlib.suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            write_atomic(path, buffer.getvalue())
        return blocks

    def _cached(self, take: TakeEntry, rows: F32, backend: ModelBackend) -> Path:
        """A name that says all that the content depends on."""
        of = hashlib.sha256(rows[:, : backend.manifest.config.columns].tobytes())
        of.update(f"{backend.manifest.sha256[WEIGHTS]} {backend.hidden}".encode())
        return self._cache / f"{take.motion[:12]}-{of.hexdigest()[:20]}.npy"


def _read(path: Path, shape: tuple[int, int]) -> F32 | None:
    """What the cache holds; None where it holds nothing usable."""
    try:
        with open_file(path) as file:
            found = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    if not isinstance(found, np.ndarray) or found.shape != shape or found.dtype != np.float32:
        return None
    return found if bool(np.isfinite(found).all()) else None


Say = Callable[[str], None]


def fit_project(
    folder: str | Path,
    options: FitOptions,
    *,
    checkpoint: str | Path | None = None,
    model: bool = True,
    say: Say = lambda line: None,
) -> dict[str, Any]:
    """Fit a project's newest revision; what was done, in numbers.

    The file goes to ``mappings``, is read back, and then takes the place of ``mapping.safetensors``: until
    that moment the previous mapping is there, and earlier ones stay in ``mappings``. Without ``model`` heads
    see the body alone and play with any checkpoint, or none.

    A class, a gesture or outputs that cannot be fitted are left out, with a warning.

    Raises:
        MotionError: nothing that can be fitted, a damaged take, options that make no sense, a checkpoint that
            cannot be stepped here.
    """
    begun, worked = time.perf_counter(), time.process_time()
    project = Project.open(folder)
    state = project.state
    # Gestures are found by the body alone.
    heads = not state.gestures or any(take.taught or take.labels.keys() - {GESTURE} for take in state.takes)
    wants_hidden = heads and model and (options.blocks is None or "hidden" in options.blocks)
    backend = open_processor(checkpoint) if wants_hidden else None
    opened = time.perf_counter()
    observer = Observer(project, backend)
    warnings = [output.misplaced for output in state.outputs if output.misplaced]
    takes = [take_data(project, take, observer, warnings) for take in state.takes]
    observed = time.perf_counter()
    refused: list[str] = []
    gestures = _gestures(project, say, refused)
    parts = fit_parts(takes, state.outputs, options, say, refused) if heads else []
    if not (parts or gestures):
        raise OptionError("; ".join(refused))
    fitted = time.perf_counter()
    path = _write(project, state, parts, gestures, options, backend)
    warnings += [*refused, *_doubts(state, parts, gestures)]
    report = {
        "mapping": str(project.folder / MAPPING),
        "kept_as": str(path),
        "revision": state.revision,
        "takes": len(takes),
        "seconds_of_takes": round(sum(take.frames for take in state.takes) / RATE, 2),
        "lead_ms": options.lead_ms,
        "parts": [part.report for part in parts],
        "gestures": [gesture.report for gesture in gestures],
        "model": backend.manifest.name
        if any("hidden" in part.inputs for part in parts) and backend
        else None,
        "warnings": warnings,
    }
    page = None
    try:
        page = str(write_page(project, parts, report))
    except DeviceError as error:
        # The mapping is there and plays.
        warnings.append(str(error))
    done = time.perf_counter()
    return report | {
        "page": page,
        "seconds": round(done - begun, 3),
        "processor_seconds": round(time.process_time() - worked, 3),
        "stages_s": {
            "model": round(opened - begun, 3),
            "observe": round(observed - opened, 3),
            "fit": round(fitted - observed, 3),
            "write": round(done - fitted, 3),
        },
        "frames_stepped": observer.stepped,
    }


def _gestures(project: Project, say: Say, refused: list[str]) -> list[Gesture]:
    """The gestures that takes show; what other takes show is none of them."""
    if not project.state.gestures:
        return []
    say(f"fitting gestures {', '.join(project.state.gestures)}")
    return fit_gestures([(take.gesture, shown(project, take)) for take in project.state.takes], refused)


def _doubts(state: State, parts: list[Part], gestures: list[Gesture]) -> list[str]:
    """What to say of outputs, classes and gestures that the takes do not show, or not well enough."""
    taught = {name for take in state.takes for name in take.taught}
    idle = [output.name for output in state.outputs if output.name not in taught]
    found = [f"no take teaches {', '.join(idle)}"] if idle else []
    found += [doubt for part in parts if (doubt := _untaught(part))]
    found += [
        f"class {part.label_of}: no take shows {part.label_of}={NONE}: what was not taught is taken for a"
        " label more often: add takes of what is done in between"
        for part in parts
        if part.label_of and NONE not in part.outputs
    ]
    reports = [gesture.report for gesture in gestures]
    all_reports = [*(part.report for part in parts), *reports]
    twins = [", ".join(names) for report in all_reports for names in report["same_motion"]]
    found += [f"takes {names} show the same motion: left out together" for names in dict.fromkeys(twins)]
    found += [
        f"gesture {report['gesture']}: {len(report['missed'])} of {len(report['takes'])} takes missed when"
        f" left out, {report['alarms']} false alarms: record more takes, and some of what it is not"
        for report in reports
        if report["missed"] or report["alarms"]
    ]
    return found


def shown(project: Project, take: TakeEntry) -> GestureExample:
    """A take as gestures see it: the active part where it shows one, else all of it."""
    clip = project.motion(take)
    if take.gesture is None:
        return GestureExample(take.name, clip.quats, take.begin, len(clip))
    return GestureExample.active(take.name, clip, take.begin)


def _untaught(part: Part) -> str:
    """What to say of outputs that the movement does not tell: the mean would do as well."""
    if part.label_of:
        return _confused(part.report)
    errors, means = part.report["error"] or {}, part.report["error_of_the_mean"] or {}
    names = [name for name, error in errors.items() if error >= means[name]]
    if not names:
        return ""
    return (
        f"{', '.join(names)}: no better than always saying the mean: the takes do not show movements that"
        " differ where the values do"
    )


def _confused(report: dict[str, Any]) -> str:
    """What to say of labels that are more often taken for another than not."""
    found = []
    for label, row in zip(report["labels"], report["confusion"], strict=False):
        worst = int(np.argmax(row))
        if report["labels"][worst] != label and sum(row) > 0.0:
            found.append(f"{label} is taken for {report['labels'][worst]}")
    return f"class {report['class']}: {'; '.join(found)}: show more takes of these" if found else ""


def take_data(project: Project, take: TakeEntry, observer: Observer, warnings: list[str]) -> TakeData:
    """A take as the fit wants it: input blocks, and wanted values in 0..1."""
    wanted = {}
    for name, values in project.wanted(take).items():
        output = next(o for o in project.state.outputs if o.name == name)
        low, high = sorted((output.low, output.high))
        outside = int(((values < low) | (values > high)).sum())
        if outside:
            warnings.append(
                f"take {take.name}: {outside} of {len(values)} values of {name} are outside"
                f" {output.low:g}..{output.high:g} and were clipped"
            )
        wanted[name] = output.to_units(values)
    clip = project.motion(take)
    blocks = observer.blocks(take, clip)
    return TakeData(take.name, blocks, take.begin, wanted, take.labels, moments(clip.quats))


def use_mapping(project: Project, name: str) -> Path:
    """Put an earlier mapping of a project in place again; where it lies.

    Raises:
        OptionError: no such mapping.
        FormatError: it cannot be read.
    """
    kept = project.folder / MAPPINGS
    found = kept / name
    if found.name != name or not found.is_file():
        names = ", ".join(sorted(p.name for p in kept.glob("*.safetensors"))) or "none yet"
        raise OptionError(f"{project.folder}: no mapping {name!r}; there are {names}")
    load_mapping(found)
    write_file(project.folder / MAPPING, read_file(found, LARGEST), durable=True)
    return project.folder / MAPPING


def _write(
    project: Project,
    state: State,
    parts: list[Part],
    gestures: list[Gesture],
    options: FitOptions,
    backend: ModelBackend | None,
) -> Path:
    mask = np.ones(len(CANONICAL_JOINTS), np.bool_)
    for take in state.takes:
        mask &= np.array([c == "1" for c in take.mask])
    model = None
    if backend is not None and any("hidden" in part.inputs for part in parts):
        model = {"name": backend.manifest.name, "sha256": backend.manifest.sha256[WEIGHTS]}
    origin = {
        "name": f"{project.folder.resolve().name[:60]}-r{state.revision}",
        "revision": state.revision,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    data = pack_mapping(
        parts, state.outputs, options, mask=mask.tolist(), model=model, origin=origin, gestures=gestures
    )
    kept = project.folder / MAPPINGS
    number = 1
    while (path := kept / f"r{state.revision:06d}-{number:03d}.safetensors").exists():
        number += 1
    with writing(path):
        kept.mkdir(exist_ok=True)
    write_file(path, data, durable=True)
    try:
        load_mapping(path)
    except FormatError:
        path.unlink(missing_ok=True)
        raise
    write_file(project.folder / MAPPING, data, durable=True)
    return path
