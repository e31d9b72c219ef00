"""Fit a project: compute the takes' features, fit, write the mapping file, and only then put it in place."""

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
from pyanticip.teach.folds import frame_ids
from pyanticip.teach.frames import Part, TakeData, body
from pyanticip.teach.gestures import Gesture, GestureExample, fit_gestures
from pyanticip.teach.labels import GESTURE, NONE
from pyanticip.teach.mapping import MAX_BYTES, load_mapping, pack_mapping
from pyanticip.teach.options import FitOptions
from pyanticip.teach.project import CACHE, MAPPING, MAPPINGS, Project
from pyanticip.teach.state import State, TakeEntry
from pyanticip.untrusted import open_file, read_file
from pyanticip.vocabulary import CANONICAL_JOINTS, RATE
from realtime.step.open import ModelBackend, open_processor
from realtime.teaching.page import write_page

F32 = npt.NDArray[np.float32]


def input_blocks(rows: F32, backend: ModelBackend | None) -> dict[str, F32]:
    """The input blocks (T, width) of feature rows (T, 231 or 279); the model starts from a fresh state."""
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


class FeatureCache:
    """Input blocks of a project's takes for one model; hidden states are cached in the project's folder.

    ``stepped`` counts the frames that the model was stepped over.
    """

    def __init__(self, project: Project, backend: ModelBackend | None) -> None:
        self._cache = project.folder / CACHE
        self._backend = backend
        self.stepped = 0

    def blocks(self, take: TakeEntry, clip: Clip) -> dict[str, F32]:
        """The input blocks (total, width) of a take's motion."""
        rows = clip.features()
        backend = self._backend
        if backend is None or not backend.hidden:
            return input_blocks(rows, None)
        path = self._cache_path(take, rows, backend)
        hidden = _read(path, (len(rows), backend.hidden))
        if hidden is not None:
            return {"body": body(rows), "hidden": hidden}
        self.stepped += len(rows)
        blocks = input_blocks(rows, backend)
        buffer = io.BytesIO()
        np.save(buffer, blocks["hidden"], allow_pickle=False)
        # A cache that cannot be written only costs time.
        with contextlib.suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            write_atomic(path, buffer.getvalue())
        return blocks

    def _cache_path(self, take: TakeEntry, rows: F32, backend: ModelBackend) -> Path:
        """Path of the cached hidden states; its name has a hash of all that they depend on."""
        digest = hashlib.sha256(rows[:, : backend.manifest.config.columns].tobytes())
        digest.update(f"{backend.manifest.sha256[WEIGHTS]} {backend.hidden}".encode())
        return self._cache / f"{take.motion[:12]}-{digest.hexdigest()[:20]}.npy"


def _read(path: Path, shape: tuple[int, int]) -> F32 | None:
    """A cached array; None if it is missing or unusable."""
    try:
        with open_file(path) as file:
            array = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != np.float32:
        return None
    return array if bool(np.isfinite(array).all()) else None


Say = Callable[[str], None]


def fit_project(
    folder: str | Path,
    options: FitOptions,
    *,
    checkpoint: str | Path | None = None,
    model: bool = True,
    say: Say = lambda line: None,
) -> dict[str, Any]:
    """Fit a project's newest revision, and return the report.

    The file is written to ``mappings``, read back, and then replaces ``mapping.safetensors``: the previous
    mapping stays in place until then, and earlier ones stay in ``mappings``. Without ``model`` heads see the
    body block only, and the mapping plays with any checkpoint or none.

    Classes, gestures and outputs that cannot be fitted are left out, with a warning.

    Raises:
        MotionError: nothing can be fitted, a damaged take, invalid options, or a checkpoint that cannot be
            stepped here.
    """
    started, started_cpu = time.perf_counter(), time.process_time()
    project = Project.open(folder)
    state = project.state
    # Gestures are recognised by the body alone and need no heads.
    needs_heads = not state.gestures or any(
        take.taught or take.labels.keys() - {GESTURE} for take in state.takes
    )
    needs_hidden = needs_heads and model and (options.blocks is None or "hidden" in options.blocks)
    backend = open_processor(checkpoint) if needs_hidden else None
    model_opened = time.perf_counter()
    features = FeatureCache(project, backend)
    warnings = [output.problem for output in state.outputs if output.problem]
    takes = [take_data(project, take, features, warnings) for take in state.takes]
    features_done = time.perf_counter()
    refused: list[str] = []
    gestures = _fit_gestures(project, say, refused)
    parts = fit_parts(takes, state.outputs, options, say, refused) if needs_heads else []
    if not (parts or gestures):
        raise OptionError("; ".join(refused))
    fitted = time.perf_counter()
    path = _write(project, state, parts, gestures, options, backend)
    warnings += [*refused, *_fit_warnings(state, parts, gestures)]
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
        warnings.append(str(error))  # the mapping itself is in place
    done = time.perf_counter()
    return report | {
        "page": page,
        "seconds": round(done - started, 3),
        "processor_seconds": round(time.process_time() - started_cpu, 3),
        "stages_s": {
            "model": round(model_opened - started, 3),
            "observe": round(features_done - model_opened, 3),
            "fit": round(fitted - features_done, 3),
            "write": round(done - fitted, 3),
        },
        "frames_stepped": features.stepped,
    }


def _fit_gestures(project: Project, say: Say, refused: list[str]) -> list[Gesture]:
    """Fit the gestures that takes show; all other takes are counterexamples."""
    if not project.state.gestures:
        return []
    say(f"fitting gestures {', '.join(project.state.gestures)}")
    return fit_gestures(gesture_examples(project), refused)


def _fit_warnings(state: State, parts: list[Part], gestures: list[Gesture]) -> list[str]:
    """Warnings about outputs, classes and gestures that the takes do not teach, or not well enough."""
    taught = {name for take in state.takes for name in take.taught}
    untaught = [output.name for output in state.outputs if output.name not in taught]
    warnings = [f"no take teaches {', '.join(untaught)}"] if untaught else []
    warnings += [warning for part in parts if (warning := _part_warning(part))]
    warnings += [
        f"class {part.label_of}: no take shows {part.label_of}={NONE}: what was not taught is taken for a"
        " label more often: add takes of what is done in between"
        for part in parts
        if part.label_of and NONE not in part.outputs
    ]
    reports = [gesture.report for gesture in gestures]
    all_reports = [*(part.report for part in parts), *reports]
    twins = [", ".join(names) for report in all_reports for names in report["same_motion"]]
    warnings += [f"takes {names} show the same motion: left out together" for names in dict.fromkeys(twins)]
    warnings += [
        f"gesture {report['gesture']}: {len(report['missed'])} of {len(report['takes'])} takes missed when"
        f" left out, {report['alarms']} false alarms: record more takes, and some of what it is not"
        for report in reports
        if report["missed"] or report["alarms"]
    ]
    return warnings


def gesture_examples(project: Project) -> list[tuple[str | None, GestureExample]]:
    """The takes as examples for gestures: the active part of one that shows a gesture, else all of it.

    Lead-ins are left out: they may show anything, the gesture of the take before included.
    """
    examples = []
    for take in project.state.takes:
        clip = project.motion(take)[take.begin :]
        example = GestureExample(take.name, clip.quats, 0, len(clip))
        shows = take.gesture is not None
        examples.append((take.gesture, GestureExample.active(take.name, clip) if shows else example))
    return examples


def _part_warning(part: Part) -> str:
    """A warning if outputs are predicted no better than by their mean or labels are confused; or ``""``."""
    if part.label_of:
        return _confusion_warning(part.report)
    errors, means = part.report["error"] or {}, part.report["error_of_the_mean"] or {}
    same = [name for name, mean in means.items() if mean == 0.0]
    poor = [name for name, error in errors.items() if error >= means[name] and name not in same]
    lines = []
    if same:
        lines.append(
            f"{', '.join(same)}: all takes want the same value: show another value, with another movement"
        )
    if poor:
        lines.append(
            f"{', '.join(poor)}: no better than always saying the mean: the takes do not show movements that"
            " differ where the values do"
        )
    return "; ".join(lines)


def _confusion_warning(report: dict[str, Any]) -> str:
    """A warning about labels that are most often taken for another one; ``""`` if there are none."""
    confused = []
    for label, row in zip(report["labels"], report["confusion"], strict=False):
        likeliest = int(np.argmax(row))
        if report["labels"][likeliest] != label and sum(row) > 0.0:
            confused.append(f"{label} is taken for {report['labels'][likeliest]}")
    return f"class {report['class']}: {'; '.join(confused)}: show more takes of these" if confused else ""


def take_data(project: Project, take: TakeEntry, features: FeatureCache, warnings: list[str]) -> TakeData:
    """A take as training data: input blocks, and targets in 0..1; appends to ``warnings``."""
    targets = {}
    for name, values in project.targets(take).items():
        output = next(o for o in project.state.outputs if o.name == name)
        low, high = sorted((output.low, output.high))
        outside = int(((values < low) | (values > high)).sum())
        if outside:
            warnings.append(
                f"take {take.name}: {outside} of {len(values)} values of {name} are outside"
                f" {output.low:g}..{output.high:g} and were clipped"
            )
        targets[name] = output.to_units(values)
    clip = project.motion(take)
    blocks = features.blocks(take, clip)
    return TakeData(take.name, blocks, take.begin, targets, take.labels, frame_ids(clip.quats))


def use_mapping(project: Project, name: str) -> Path:
    """Make an earlier mapping the project's current one; returns the path of the current mapping.

    Raises:
        OptionError: no such mapping.
        FormatError: it cannot be read.
    """
    folder = project.folder / MAPPINGS
    file = folder / name
    if file.name != name or not file.is_file():
        names = ", ".join(sorted(p.name for p in folder.glob("*.safetensors"))) or "none yet"
        raise OptionError(f"{project.folder}: no mapping {name!r}; there are {names}")
    load_mapping(file)
    write_file(project.folder / MAPPING, read_file(file, MAX_BYTES), durable=True)
    return project.folder / MAPPING


def _write(
    project: Project,
    state: State,
    parts: list[Part],
    gestures: list[Gesture],
    options: FitOptions,
    backend: ModelBackend | None,
) -> Path:
    """Write a new file into ``mappings``, read it back, and make it the current mapping; returns its path."""
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
    folder = project.folder / MAPPINGS
    number = 1
    while (path := folder / f"r{state.revision:06d}-{number:03d}.safetensors").exists():
        number += 1
    with writing(path):
        folder.mkdir(exist_ok=True)
    write_file(path, data, durable=True)
    try:
        load_mapping(path)
    except FormatError:
        path.unlink(missing_ok=True)
        raise
    write_file(project.folder / MAPPING, data, durable=True)
    return path
