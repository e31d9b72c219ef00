"""What a motion file holds and what is made of it: ``pyanticip info``."""

import os
from pathlib import Path
from typing import Any

from pyanticip.errors import SkeletonError
from pyanticip.motion.agreement import angles
from pyanticip.motion.clip import Clip
from pyanticip.motion.joints import guessed
from pyanticip.motion.load import load_motion
from pyanticip.vocabulary import CANONICAL_JOINTS


def describe(path: str | os.PathLike[str], **reading: Any) -> tuple[Clip, dict[str, Any]]:
    """The clip of a motion file, and what there is to say about it, ready for JSON.

    Args:
        path: Any file :func:`pyanticip.load_motion` reads.
        reading: Its options.

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
    known = guessed(body)
    refused, bones = None, {}
    try:
        clip.retargeter()
    except SkeletonError as error:
        refused = str(error)
    else:
        bones = {name: round(angle, 2) for name, angle in angles(clip.skeleton, clip.quats).items()}
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
        "refused": refused,
        "warnings": list(clip.warnings),
    }


def as_lines(found: dict[str, Any]) -> list[str]:
    """The same for a person."""
    lines = [
        f"{found['file']}: {found['kind']}, {found['duration_s']:.1f} s, {found['frames']} frames at "
        f"{found['rate']:g} Hz, {len(found['joints'])} joints",
        f"  {found['up']} is up, {found['unit']:.4g} m a unit, {found['reach_m']:.2f} m from the root to the "
        "farthest tip",
    ]
    for joint, names in found["map"].items():
        lines.append(f"  {joint:16} {' ... '.join(names)}")
    if found["missing"]:
        lines.append(f"  not found: {', '.join(found['missing'])}")
    if found["agreement"]:
        worst = max(found["agreement"], key=lambda bone: found["agreement"][bone])
        lines.append(
            f"  its bones and the canonical body's differ by {found['agreement_mean']:.1f} degrees, "
            f"the {worst} most ({found['agreement'][worst]:.1f})"
        )
    lines += [f"  warning: {line}" for line in found["warnings"]]
    if found["refused"]:
        lines.append(f"  refused: {found['refused']}")
    return lines
