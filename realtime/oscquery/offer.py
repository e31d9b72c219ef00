"""What a running show offers: what its bundles say now, what it obeys, and where its settings stand.

The namespace is made of the tables that the show itself goes by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from realtime.control.live_rig import LiveRig
from realtime.control.rig_keys import CONTROLS, Control, RigKey
from realtime.control.server import CONTROL
from realtime.pipeline import Pipeline
from realtime.sinks.base import Extra
from realtime.sinks.config import ENSEMBLE, OscConfig
from realtime.sinks.osc import OscSink
from realtime.sinks.outputs import ENSEMBLE_MESSAGE, Limits, Message, target_messages

__all__ = ["Attributes", "Commands", "Nodes", "Offer", "Offers", "controls", "described", "outputs"]

#: The attributes of a node, by the names of the proposal.
Attributes = dict[str, Any]
#: Nodes by their addresses.
Nodes = dict[str, Attributes]

_READ, _WRITE = 1, 2


def outputs(
    prefix: str,
    send: Sequence[str],
    extras: Iterable[Extra] = (),
    cues: Iterable[str] = (),
    gestures: Iterable[str] = (),
) -> Nodes:
    """What is sent. ``OPTIONAL`` and ``REPEATS`` are for our own server: there only once it was sent, and of
    as many types as were sent."""
    messages = target_messages(prefix, send, extras, cues, gestures)
    return {address: described(message) for address, message in messages}


def described(message: Message) -> Attributes:
    """The node of a message that is sent."""
    node: Attributes = {"TYPE": message.types, "ACCESS": _READ, "DESCRIPTION": message.text}
    if any(message.limits):
        node["RANGE"] = [_range(limits) for limits in message.limits]
    if any(message.units):
        node["UNIT"] = list(message.units)
    if not message.always:
        node["OPTIONAL"] = True
    if message.repeats:
        node["REPEATS"] = True
    return node


def controls(
    names: Iterable[str],
    members: Mapping[str, Iterable[str]] | None = None,
    values: Mapping[str, Any] | None = None,
    keys: Iterable[RigKey] = (),
    who: str = "",
) -> Nodes:
    """What is obeyed: commands by name, of each family in ``members`` one for each of these, and ``keys`` of
    the rig; of ``who``, if there are several performers.

    ``values`` are those of commands that can be asked for.
    """
    found = {name: _control(CONTROLS.get(name), (values or {}).get(name)) for name in names}
    for family, each in (members or {}).items():
        found |= {family + member: _control(CONTROLS.get(family), None) for member in each}
    for key, takes, value in keys:
        found[f"rig/{key}"] = node = _control(takes, None)
        # An address has what stands before the value behind it, of any type.
        if len(value) == len(takes.types):
            node |= {"ACCESS": _READ | _WRITE, "VALUE": list(value)}
    begin = CONTROL + (f"{who}/" if who else "")
    return {begin + name: node for name, node in found.items()}


def _control(control: Control | None, value: Any) -> Attributes:
    control = control or Control("N", "")
    node: Attributes = {"TYPE": control.types, "ACCESS": _WRITE, "DESCRIPTION": control.text}
    if control.optional:
        node["OVERLOADS"] = [{"TYPE": "N"}]
    if control.limits is not None:
        node["RANGE"] = [_range(control.limits)] * len(control.types)
    if control.unit is not None:
        node["UNIT"] = [control.unit]
    if value is not None:
        node |= {"ACCESS": _READ | _WRITE, "VALUE": [value]}
    return node


def _range(limits: Limits) -> dict[str, Any] | None:
    if limits is None:
        return None
    if isinstance(limits[0], str):
        return {"VALS": list(limits)}
    return {"MIN": limits[0], "MAX": limits[1]}


#: Commands by name, and the beginnings of those whose rest is an argument.
Commands = tuple[Iterable[str], Iterable[str]]


class Offer:
    """The nodes of ``target``, which has no addresses of its own, and of the remote control's ``commands``.

    ``taught`` gives the names of the outputs that can be taught, ``rig`` what can be set while it plays.
    ``who`` is whose commands they are, of several performers.
    """

    def __init__(
        self,
        target: OscConfig,
        pipeline: Pipeline,
        commands: Commands | None,
        rig: LiveRig,
        taught: Callable[[], Sequence[str]] = tuple,
        who: str = "",
    ) -> None:
        self._target = target
        self._pipeline = pipeline
        self._commands = commands
        self._rig = rig
        self._taught = taught
        self._who = who

    def of(self, who: str, commands: Commands | None) -> Offer:
        """The same of one of several performers, who has these commands."""
        target = self._target.model_copy(update={"prefix": f"{self._target.prefix}/{who}"})
        return Offer(target, self._pipeline, commands, self._rig, self._taught, who)

    def tell(self, port: int) -> None:
        """Send what is offered to ``port`` of this machine, as to one more receiver."""
        sink = OscSink(self._target.model_copy(update={"port": port}))
        sink.name = "oscquery"
        self._pipeline.add(sink)

    def version(self) -> object:
        """Something that is another whenever the nodes are."""
        extras = tuple(map(id, self._extras()))
        offered = extras, self._cues(), self._gestures(), tuple(self._taught())
        return *offered, tuple(self._values().items()), self._rig.version()

    def nodes(self) -> Nodes:
        """All nodes by their addresses."""
        announced = self._cues(), self._gestures()
        found = outputs(self._target.prefix, self._target.send, self._extras(), *announced)
        if self._commands is not None:
            names, families = self._commands
            outputs_of = {"teach/param/": self._taught(), "learn/": self._rig.outputs()}
            members = {family: each for family, each in outputs_of.items() if family in families}
            found |= controls(names, members, self._values(), self._rig.settable(), self._who)
        return found

    def _extras(self) -> Sequence[Extra]:
        taught = self._pipeline.live_mapping
        return () if taught is None else taught.extras

    def _gestures(self) -> tuple[str, ...]:
        taught = self._pipeline.live_mapping
        return () if taught is None or taught.gestures is None else tuple(taught.gestures.names)

    def _cues(self) -> tuple[str, ...]:
        memory = self._pipeline.memory
        if memory is None or memory.following is None:
            return ()
        return tuple(cue.name for cue in memory.following.cues)

    def _values(self) -> dict[str, Any]:
        mixer = self._pipeline.mixer
        settings = {name: value for name, value in mixer.settings.items() if isinstance(value, float)}
        return {**settings, "bypass": mixer.bypass, "freeze": mixer.mode == "frozen"}


class Offers:
    """What several performers offer, as one: each one's, the commands for all of them, and the ensemble where
    it is sent.
    """

    def __init__(self, offers: Sequence[Offer], names: Iterable[str], target: OscConfig) -> None:
        self._offers = tuple(offers)
        self._shared = controls(names)
        if ENSEMBLE in target.send:
            self._shared |= {f"{target.prefix}/{ENSEMBLE}": described(ENSEMBLE_MESSAGE)}

    def version(self) -> object:
        """As :meth:`Offer.version`."""
        return tuple(offer.version() for offer in self._offers)

    def nodes(self) -> Nodes:
        """All nodes by their addresses."""
        found = dict(self._shared)
        for offer in self._offers:
            found |= offer.nodes()
        return found
