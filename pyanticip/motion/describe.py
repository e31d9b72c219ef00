"""Summary of a motion file and of how it is interpreted, for ``pyanticip info``."""

import os
from pathlib import Path
from typing import Any

from pyanticip.errors import SkeletonError, counted
from pyanticip.motion.agreement import bone_angles
from pyanticip.motion.clip import Clip
from pyanticip.motion.joints import guess_joints
from pyanticip.motion.load import load_motion
from pyanticip.vocabulary import CANONICAL_JOINTS


def describe(path: str | os.PathLike[str], **reading: Any) -> tuple[Clip, dict[str, Any]]:
    """The clip of a motion file, and its summary, which is JSON-serialisable.

    Args:
        path: Any file that :func:`pyanticip.load_motion` reads.
        reading: Options of ``load_motion``.

    Returns:
        Clip and dict: file, kind (the suffix), frames, rate (Hz), duration_s, up (the axis in the file), unit
        (metres per unit), reach_m (the longest chain of bones from the root), joints (names), parents, map
        (names by canonical joint), missing (canonical joints without a source), agreement (degrees by bone,
        between file and canonical body), agreement_mean, refused (why, or None) and warnings.

    Raises:
        MotionError: A file that cannot be read.
    """
    clip = load_motion(path, **reading)
    body = clip.skeleton
    known = guess_joints(body)
    refusal, bones = None, {}
    try:
        clip.retargeter()
    except SkeletonError as error:
        refusal = str(error)
    else:
        bones = {name: round(angle, 2) for name, angle in bone_angles(clip.skeleton, clip.quats).items()}
    return clip, {
        "file": str(path),
        "kind": Path(path).suffix.lower().removeprefix("."),
        "frames": len(clip),
        "rate": clip.rate,
        "duration_s": clip.duration,
        "up": clip.up,
        "unit": clip.unit,
        "reach_m": round(body.reach(), 3),
        "joints": list(body.names),
        "parents": body.parents.tolist(),
        "map": {joint: list(names) for joint, names in known.items()},
        "missing": [joint for joint in CANONICAL_JOINTS if joint not in known],
        "agreement": bones,
        "agreement_mean": round(sum(bones.values()) / len(bones), 2) if bones else None,
        "refused": refusal,
        "warnings": list(clip.warnings),
    }


def format_summary(summary: dict[str, Any]) -> list[str]:
    """The summary of :func:`describe` as lines of text."""
    lines = [
        f"{summary['file']}: {summary['kind']}, {summary['duration_s']:.1f} s, "
        f"{counted(summary['frames'], 'frame')} at {summary['rate']:g} Hz, "
        f"{counted(len(summary['joints']), 'joint')}",
        f"  {summary['up']} is up, {summary['unit']:.4g} m a unit, {summary['reach_m']:.2f} m from the root "
        "to the farthest tip",
    ]
    for joint, names in summary["map"].items():
        lines.append(f"  {joint:16} {' ... '.join(names)}")
    if summary["missing"]:
        lines.append(f"  not found: {', '.join(summary['missing'])}")
    if summary["agreement"]:
        worst = max(summary["agreement"], key=lambda bone: summary["agreement"][bone])
        lines.append(
            f"  its bones and the canonical body's differ by {summary['agreement_mean']:.1f} degrees, "
            f"the {worst} most ({summary['agreement'][worst]:.1f})"
        )
    lines += [f"  warning: {line}" for line in summary["warnings"]]
    if summary["refused"]:
        lines.append(f"  refused: {summary['refused']}")
    return lines
