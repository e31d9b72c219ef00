"""The OSC messages of a bundle: types, ranges, units and meaning. The sinks encode by this table, and
OSCQuery, the rig's key check and the monitor describe messages by it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pyanticip.controls import CANCEL
from pyanticip.vocabulary import EVENTS, PARAMETERS, SCALARS
from realtime.sinks.base import Extra

Limits = tuple[float, float] | tuple[str, ...] | None
"""Minimum and maximum of a number, or the possible strings; None: unlimited."""


@dataclass(frozen=True, slots=True)
class Message:
    """One OSC message.

    Attributes:
        part: The part of :data:`realtime.sinks.config.PARTS` that it belongs to.
        types: OSC type tags of its values.
        text: Description of the values.
        limits: Range of each value.
        units: Unit of each value, as in the OSCQuery proposal; None: no unit.
        repeats: Whether the types repeat as often as there are values.
        always: Whether it is in every bundle or belongs to an event; else it is sent only if the show has it.
    """

    part: str
    types: str
    text: str
    limits: Sequence[Limits] = ()
    units: Sequence[str | None] = ()
    repeats: bool = False
    always: bool = True


_UNIT = (0.0, 1.0)
_S = "time.second"

#: Messages by the address after the prefix.
MESSAGES: dict[str, Message] = {
    "frame": Message("frame", "if", "frame number, seconds", ((0, 2**31 - 1), None), (None, _S)),
    "scalars": Message(
        "scalars",
        "f" * len(SCALARS),
        ", ".join(SCALARS),
        [(-2.0, 2.0) if name == "transition_pressure" else _UNIT for name in SCALARS],
    ),
    **{f"param/{name}": Message("param", "f", name, (_UNIT,)) for name in PARAMETERS},
    "params": Message("params", "f" * len(PARAMETERS), ", ".join(PARAMETERS), (_UNIT,) * len(PARAMETERS)),
    "tempo": Message(
        "tempo", "fff", "beats a minute, phase, trust", (None, _UNIT, _UNIT), ("time.bpm", None, None)
    ),
    "bpm": Message("bpm", "f", "beats a minute, while trusted", units=("time.bpm",), always=False),
    **{
        f"event/{name}": Message("event", "ff", f"{name}: strength, seconds ahead", (_UNIT, None), (None, _S))
        for name in EVENTS
    },
    **{
        f"event/{name}{CANCEL}": Message("event", "f", f"{name} cancelled: seconds until due", (None,), (_S,))
        for name in EVENTS
    },
    "field": Message(
        "field", "ff", "control field: trust in what just came, curvature of the way", (_UNIT, None),
        always=False,
    ),
    "plan": Message(
        "plan", "if", "codes of movement expected within a second, and their weights", repeats=True,
        always=False,
    ),
    "trust": Message(
        "trust", "f", "how much is foreseen rather than held: parameters by horizon", repeats=True,
        always=False,
    ),
    "place": Message(
        "place", "ifff", "rehearsed take, seconds into it, tempo against it, trust",
        (None, None, None, _UNIT), (None, _S, None, None), always=False,
    ),
    "limbs": Message(
        "limbs", "f" * 12, "left and right hand, left and right foot: speed, height, stroke", (_UNIT,) * 12,
        always=False,
    ),
    "status": Message("status", "s", "state, then name=value", repeats=True),
}  # fmt: skip

#: The message about several performers, in the order of :meth:`pyanticip._core.Ensemble.step`.
ENSEMBLE_MESSAGE = Message(
    "ensemble", "fiffff", "synchrony, leader, lag, trust, distance, posture",
    (_UNIT, None, (0.0, 1000.0), _UNIT, None, None),
    (None, None, "time.ms", None, "distance.m", "angle.radian"),
)  # fmt: skip


def extra_address(prefix: str, extra: Extra, taught_prefix: str = "") -> tuple[str, str]:
    """The part that a taught output belongs to, and its OSC address; ``taught_prefix`` precedes its own."""
    part, name = ("class", extra.name) if "/" in extra.name else ("param", f"param/{extra.name}")
    return part, f"{taught_prefix}{extra.address}" if extra.address else f"{prefix}/{name}"


_CUE = Message("event", "ff", "cue: trust, seconds ahead", (_UNIT, None), (None, _S))
_GESTURE = Message(
    "gesture", "fff", "progress, seconds until it ends, how likely", (_UNIT, None, _UNIT), (None, _S, None),
    always=False,
)  # fmt: skip


def target_messages(
    prefix: str,
    send: Sequence[str],
    extras: Iterable[Extra],
    cues: Iterable[str],
    gestures: Iterable[str] = (),
    taught_prefix: str = "",
) -> Iterator[tuple[str, Message]]:
    """Yield (address, message) of everything that a target with these ``send`` names and no renamed addresses
    receives.

    ``extras`` are the taught outputs of a mapping; ``cues`` and ``gestures`` are names.
    """
    for tail, message in MESSAGES.items():
        # Selected as a part, or as a single parameter or event.
        if {message.part, *tail.split("/")[1:2]} & set(send):
            yield f"{prefix}/{tail}", message
    classes: dict[str, list[str]] = {}
    for extra in extras:
        part, address = extra_address(prefix, extra, taught_prefix)
        if part in send:
            low, high = sorted((extra.range(0.0), extra.range(1.0)))
            yield address, Message(part, "f", extra.name.rpartition("/")[2], ((low, high),))
        if part == "class" and part in send:
            name, _, label = extra.name.rpartition("/")
            classes.setdefault(name, []).append(label)
    for name, labels in classes.items():
        choices = tuple(labels)
        yield f"{prefix}/{name}", Message("class", "sf", "label, how likely", (choices, _UNIT), always=False)
        for change in ("enter", "leave"):
            event = Message("class", "sff", f"{change}: label, strength, ahead", (choices, _UNIT, None))
            yield f"{prefix}/{name}/{change}", event
    if "event" in send:
        for cue in cues:
            yield f"{prefix}/cue/{cue}", _CUE
    if "gesture" in send:
        for name in gestures:
            yield f"{prefix}/gesture/{name}", _GESTURE
            for change in ("enter", "leave"):
                is_over = change == "leave"
                text = (
                    f"{change}: progress, {'1: it reached its end' if is_over else 'seconds until it ends'}"
                )
                event = Message(
                    "gesture",
                    "ff",
                    text,
                    (_UNIT, _UNIT if is_over else None),
                    (None, None if is_over else _S),
                )
                yield f"{prefix}/gesture/{name}/{change}", event
