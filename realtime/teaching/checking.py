"""``pyanticip teach check``: validate a project and its mapping, and play the mapping over the takes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from pyanticip.errors import FormatError, MotionError
from pyanticip.models.checkpoint.manifest import WEIGHTS, read_manifest
from pyanticip.teach.gestures import GestureExample, frames_without, spot, verdict
from pyanticip.teach.mapping import Mapping, load_mapping
from pyanticip.teach.project import MAPPING, Project
from pyanticip.vocabulary import FEATURES, RATE
from realtime.mapping.live_mapping import LiveMapping
from realtime.step.base import StepResult
from realtime.step.open import open_processor
from realtime.teaching.fitting import FeatureCache, gesture_examples, take_data

_TIMED_FRAMES = 300


def check_project(
    folder: Path, *, mapping_file: Path | None = None, checkpoint: Path | None = None, model: bool = True
) -> dict[str, Any]:
    """Check all files of a project, and play its mapping over its takes.

    The result has ``fine`` (bool), ``problems`` and ``warnings`` (lines), for each take the share of frames
    whose class was ``right`` and the mean absolute error of the outputs (shares of their ranges), and the
    time that a frame takes. The errors are those on *training* data; the cross-validated ones of the fit are
    the ones to trust.

    Raises:
        FormatError: no project.
        CheckpointError: ``checkpoint`` is not a checkpoint, even if it is not needed.
    """
    project = Project.open(folder)
    if checkpoint is not None:
        read_manifest(checkpoint)
    problems = project.problems()
    warnings = [output.problem for output in project.state.outputs if output.problem]
    found: dict[str, Any] = {
        "project": str(folder),
        "revision": project.state.revision,
        "outputs": [output.describe() for output in project.state.outputs],
        "takes": len(project.state.takes),
    }
    file = mapping_file or project.folder / MAPPING
    if mapping_file is None and not file.exists():
        warnings.append("not fitted yet: pyanticip teach fit")
        return found | {"fine": not problems, "problems": problems, "warnings": warnings, "mapping": None}
    try:
        mapping = load_mapping(file)
        revision = mapping.origin.get("revision")
        is_own = mapping_file is None or mapping_file.resolve().is_relative_to(project.folder.resolve())
        if is_own and isinstance(revision, int) and revision < project.state.revision:
            changes = [s.description for s in project.history() if s.revision > revision]
            warnings.append(f"changed since the mapping was fitted ({'; '.join(changes[-3:])}): fit it again")
        played, more_warnings = _play(project, mapping, checkpoint, model) if not problems else ([], [])
        warnings += more_warnings
        found |= {
            "mapping": mapping.name,
            "lead_ms": mapping.lead_ms,
            "played": played,
            "parts": mapping.reports,
            "frame_us": frame_cost_us(mapping),
        }
    except MotionError as error:
        problems.append(str(error))
        found |= {"mapping": None}
    return found | {"fine": not problems, "problems": problems, "warnings": warnings}


def _play(
    project: Project, mapping: Mapping, checkpoint: Path | None, model: bool
) -> tuple[list[dict[str, Any]], list[str]]:
    """Results of the mapping on each take, over the frames after the lead-in, and warnings."""
    backend = None
    if mapping.needs_model:
        if not model:
            raise FormatError(
                f"mapping {mapping.name} sees the model's hidden state and cannot play without it"
            )
        backend = open_processor(checkpoint)
        mapping.check_model(backend.manifest.name, backend.manifest.sha256[WEIGHTS], backend.hidden)
    features = FeatureCache(project, backend)
    names = [output.name for output in mapping.outputs]
    warnings: list[str] = []
    gestures = _gesture_results(gesture_examples(project), mapping) if mapping.gestures else {}
    rows = []
    for take in project.state.takes:
        data = take_data(project, take, features, warnings)
        predicted = mapping.apply_batch(data.blocks)[take.begin :]
        lead = mapping.lead_ms // 20
        errors = {
            name: round(float(np.abs(predicted[: len(y) - lead, names.index(name)] - y[lead:]).mean()), 5)
            for name, y in data.targets.items()
            if name in names and len(y) > lead
        }
        right = {}
        for name, labels in mapping.classes.items():
            if name in take.labels:
                columns = [mapping.names.index(f"class/{name}/{label}") for label in labels]
                best = predicted[:, columns].argmax(1)
                right[name] = round(float(np.mean([labels[i] == take.labels[name] for i in best])), 4)
        rows.append(
            {
                "right": right,
                "take": take.name,
                "seconds": round(take.frames / RATE, 2),
                "error": errors,
                "gestures": gestures.get(take.name, {}),
            }
        )
    return rows, warnings


def _gesture_results(
    examples: list[tuple[str | None, GestureExample]], mapping: Mapping
) -> dict[str, dict[str, dict[str, Any]]]:
    """How each gesture of a mapping is recognised in each take, by the take's name."""
    without = [frames_without(gesture.name, examples) for gesture in mapping.gestures]
    results: dict[str, dict[str, dict[str, Any]]] = {}
    for k, (shown, example) in enumerate(examples):
        spotted = spot(mapping.gestures, example.quats)
        results[example.name] = {}
        for i, gesture in enumerate(mapping.gestures):
            one = verdict(spotted[:, i], example, without[i][k], shows=gesture.name == shown)
            results[example.name][gesture.name] = {
                "shows": gesture.name == shown,
                "at": one.at,
                "end_ms": one.end_ms,
                "alarms": one.alarms,
            }
    return results


def frame_cost_us(mapping: Mapping) -> float:
    """Median time of one frame through a mapping, body kinematics included, in a tight loop; microseconds."""
    live_mapping = LiveMapping(mapping)
    hidden = np.zeros(max(mapping.hidden, 1), np.float32)
    step = StepResult(np.zeros((8, 5)), np.zeros((2, 25)), np.zeros(7), 0.0, hidden)
    row = np.zeros(FEATURES, np.float32)
    row[[0, 4]] = 1.0
    durations_ns = []
    for _ in range(_TIMED_FRAMES):
        started = time.perf_counter_ns()
        live_mapping.step(row, step, 0.02)
        durations_ns.append(time.perf_counter_ns() - started)
    return round(float(np.median(durations_ns)) / 1000, 1)
