"""``pyanticip teach check``: whether a project and its mapping are whole, and what the mapping does on its
takes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from pyanticip.errors import FormatError, MotionError
from pyanticip.models.checkpoint.manifest import WEIGHTS, read_manifest
from pyanticip.teach.gestures import spot, verdict
from pyanticip.teach.mapping import Mapping, load_mapping
from pyanticip.teach.project import MAPPING, Project
from pyanticip.teach.state import TakeEntry
from pyanticip.vocabulary import FEATURES, RATE
from realtime.mapping.live_mapping import LiveMapping
from realtime.step.base import StepResult
from realtime.step.open import open_processor
from realtime.teaching.fitting import Observer, shown, take_data

__all__ = ["check_project", "frame_cost_us"]

_COST_FRAMES = 300


def check_project(
    folder: Path, *, mapping_file: Path | None = None, checkpoint: Path | None = None, model: bool = True
) -> dict[str, Any]:
    """Look at everything a project holds, and play its mapping over its takes.

    The result says ``fine`` (bool), ``problems`` and ``warnings`` (lines), per take how often a class was
    told ``right`` and the mean absolute error of what the mapping gives against what is wanted (shares of the
    outputs' ranges; on what it has *learnt*: what is cross-validated is to be believed), and what a frame of
    it costs.

    Raises:
        FormatError: no project.
        CheckpointError: ``checkpoint`` is none, be it needed or not.
    """
    project = Project.open(folder)
    if checkpoint is not None:
        read_manifest(checkpoint)
    problems = project.problems()
    warnings = [output.misplaced for output in project.state.outputs if output.misplaced]
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
        fitted = mapping.origin.get("revision")
        own = mapping_file is None or mapping_file.resolve().is_relative_to(project.folder.resolve())
        if own and isinstance(fitted, int) and fitted < project.state.revision:
            changes = [s.did for s in project.history() if s.revision > fitted]
            warnings.append(f"changed since the mapping was fitted ({'; '.join(changes[-3:])}): fit it anew")
        played, extra = _played(project, mapping, checkpoint, model) if not problems else ([], [])
        warnings += extra
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


def _played(
    project: Project, mapping: Mapping, checkpoint: Path | None, model: bool
) -> tuple[list[dict[str, Any]], list[str]]:
    """Error of the mapping on each take, over the frames after the lead-in."""
    backend = None
    if mapping.needs_model:
        if not model:
            raise FormatError(
                f"mapping {mapping.name} sees the model's hidden state and cannot play without it"
            )
        backend = open_processor(checkpoint)
        mapping.check_model(backend.manifest.name, backend.manifest.sha256[WEIGHTS], backend.hidden)
    observer = Observer(project, backend)
    names = [output.name for output in mapping.outputs]
    warnings: list[str] = []
    rows = []
    for take in project.state.takes:
        data = take_data(project, take, observer, warnings)
        given = mapping.apply_batch(data.blocks)[take.begin :]
        lead = mapping.lead_ms // 20
        errors = {
            name: round(float(np.abs(given[: len(y) - lead, names.index(name)] - y[lead:]).mean()), 5)
            for name, y in data.wanted.items()
            if name in names and len(y) > lead
        }
        right = {
            name: round(float(np.mean([labels[i] == take.labels[name] for i in said])), 4)
            for name, labels in mapping.classes.items()
            if name in take.labels
            for said in [
                given[:, [mapping.names.index(f"class/{name}/{label}") for label in labels]].argmax(1)
            ]
        }
        rows.append(
            {
                "right": right,
                "take": take.name,
                "seconds": round(take.frames / RATE, 2),
                "error": errors,
                "gestures": _spotted(project, take, mapping),
            }
        )
    return rows, warnings


def _spotted(project: Project, take: TakeEntry, mapping: Mapping) -> dict[str, dict[str, Any]]:
    """What a mapping spots in a take, per gesture."""
    if not mapping.gestures:
        return {}
    seen = shown(project, take)
    spotted = spot(mapping.gestures, seen.quats)
    found = {}
    for i, gesture in enumerate(mapping.gestures):
        shows = gesture.name == take.gesture
        one = verdict(spotted[:, i], seen, shows=shows)
        found[gesture.name] = {"shows": shows, "at": one.at, "end_ms": one.end_ms, "alarms": one.alarms}
    return found


def frame_cost_us(mapping: Mapping) -> float:
    """Median microseconds of one frame through a mapping, body kinematics included, in a hot loop."""
    taught = LiveMapping(mapping)

    hidden = np.zeros(max(mapping.hidden, 1), np.float32)
    step = StepResult(np.zeros((8, 5)), np.zeros((2, 25)), np.zeros(7), 0.0, hidden)
    row = np.zeros(FEATURES, np.float32)
    row[[0, 4]] = 1.0
    spent = []
    for _ in range(_COST_FRAMES):
        begun = time.perf_counter_ns()
        taught.step(row, step, 0.02)
        spent.append(time.perf_counter_ns() - begun)
    return round(float(np.median(spent)) / 1000, 1)
