"""Whom a checkpoint learned from, and who of those it is judged on is no stranger to it."""

from collections.abc import Iterable, Mapping
from typing import Any


def training_subjects(training: Mapping[str, Any]) -> frozenset[str]:
    """Whom a checkpoint learned from, in its run and in what taught it more afterwards.

    Args:
        training: what its manifest says of it.
    """
    said = [training.get("people")]
    for stage in ("beats", "poses"):
        noted = training.get(stage)
        said.append(noted.get("learned_from") if isinstance(noted, Mapping) else None)
    return frozenset(str(name) for names in said if isinstance(names, list) for name in names)


def not_strangers(training: Mapping[str, Any], judged: Iterable[str]) -> list[str]:
    """Warnings of who is judged and taught the checkpoint; where its run does not say who did, of everybody
    whom it does not say that it held out.

    Args:
        training: what the checkpoint's manifest says of it.
        judged: the subjects it is judged on.
    """
    people, found = set(judged), []
    if known := sorted(people & training_subjects(training)):
        found.append(f"this checkpoint learned from subject {', '.join(known)}, who is judged here")
    if isinstance(training.get("people"), list):
        return found
    kept = training.get("held_out")
    if not isinstance(kept, Mapping):
        return [*found, "the checkpoint does not say which subjects it was not trained on"]
    out = {str(name) for names in kept.values() if isinstance(names, list) for name in names}
    if unsure := sorted(people - out - set(known)):
        who = ", ".join(unsure)
        found.append(f"not held out of this checkpoint's training as far as it says: subject {who}")
    return found
