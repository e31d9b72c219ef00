"""The OSCQuery namespace of a running show: the messages it sends, the commands it accepts, and its settings.

It is built from the tables that the show itself uses.
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

#: The attributes of a node, by their names in the OSCQuery proposal.
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
    taught_prefix: str = "",
) -> Nodes:
    """The nodes of the messages that a target receives. Two attributes are for our own server only:
    ``OPTIONAL`` (the node exists once the message was sent) and ``REPEATS`` (its types repeat as often as in
    the message)."""
    messages = target_messages(prefix, send, extras, cues, gestures, taught_prefix)
    return {address: message_node(message) for address, message in messages}


def message_node(message: Message) -> Attributes:
    """The node of a message that the show sends."""
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
    performer: str = "",
) -> Nodes:
    """The nodes of the commands that the show accepts: ``names``, every member of each family in ``members``,
    and ``keys`` of the rig; those of one ``performer``, if there are several.

    ``values`` are the current ones of commands that can be read.
    """
    nodes = {name: _control_node(CONTROLS.get(name), (values or {}).get(name)) for name in names}
    for family, family_members in (members or {}).items():
        nodes |= {family + member: _control_node(CONTROLS.get(family), None) for member in family_members}
    for key, control, value in keys:
        nodes[f"rig/{key}"] = node = _control_node(control, None)
        # An address with constant arguments has more values than types, and cannot be described.
        if len(value) == len(control.types):
            node |= {"ACCESS": _READ | _WRITE, "VALUE": list(value)}
    prefix = CONTROL + (f"{performer}/" if performer else "")
    return {prefix + name: node for name, node in nodes.items()}


def _control_node(control: Control | None, value: Any) -> Attributes:
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


#: Names of commands, and the prefixes of commands whose remainder is an argument.
Commands = tuple[Iterable[str], Iterable[str]]


class Offer:
    """The nodes of ``target``, which renames no addresses, and of the remote control's ``commands``.

    ``taught`` returns the names of the outputs that can be taught; ``rig`` has the keys that can be set while
    the show plays. ``performer`` is the name in the commands, if there are several performers.
    """

    def __init__(
        self,
        target: OscConfig,
        pipeline: Pipeline,
        commands: Commands | None,
        rig: LiveRig,
        taught: Callable[[], Sequence[str]] = tuple,
        performer: str = "",
    ) -> None:
        self._target = target
        self._pipeline = pipeline
        self._commands = commands
        self._rig = rig
        self._taught = taught
        self._performer = performer

    def for_performer(self, performer: str, commands: Commands | None) -> Offer:
        """The same offer for one of several performers, with these commands."""
        own = {"prefix": f"{self._target.prefix}/{performer}", "taught_prefix": f"/{performer}"}
        target = self._target.model_copy(update=own)
        return Offer(target, self._pipeline, commands, self._rig, self._taught, performer)

    def add_receiver(self, port: int) -> None:
        """Also send the target's messages to ``port`` of this machine, where the OSCQuery server listens."""
        sink = OscSink(self._target.model_copy(update={"port": port}))
        sink.name = "oscquery"
        self._pipeline.add(sink)

    def version(self) -> object:
        """A value that differs whenever the nodes do."""
        extras = tuple(map(id, self._extras()))
        names = extras, self._cues(), self._gestures(), tuple(self._taught())
        return *names, tuple(self._values().items()), self._rig.version()

    def nodes(self) -> Nodes:
        """All nodes by their addresses."""
        target = self._target
        known = self._extras(), self._cues(), self._gestures()
        nodes = outputs(target.prefix, target.send, *known, target.taught_prefix)
        if self._commands is not None:
            names, families = self._commands
            outputs_of = {"teach/param/": self._taught(), "learn/": self._rig.outputs()}
            members = {family: each for family, each in outputs_of.items() if family in families}
            nodes |= controls(names, members, self._values(), self._rig.settable(), self._performer)
        return nodes

    def _extras(self) -> Sequence[Extra]:
        mapping = self._pipeline.live_mapping
        return () if mapping is None else mapping.extras

    def _gestures(self) -> tuple[str, ...]:
        mapping = self._pipeline.live_mapping
        return () if mapping is None or mapping.gestures is None else tuple(mapping.gestures.names)

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
    """The combined offer of several performers: each one's, the commands for all of them, and the ensemble if
    ``target`` receives it.
    """

    def __init__(self, offers: Sequence[Offer], names: Iterable[str], target: OscConfig) -> None:
        self._offers = tuple(offers)
        self._shared = controls(names)
        if ENSEMBLE in target.send:
            self._shared |= {f"{target.prefix}/{ENSEMBLE}": message_node(ENSEMBLE_MESSAGE)}

    def version(self) -> object:
        """See :meth:`Offer.version`."""
        return tuple(offer.version() for offer in self._offers)

    def nodes(self) -> Nodes:
        """All nodes by their addresses."""
        nodes = dict(self._shared)
        for offer in self._offers:
            nodes |= offer.nodes()
        return nodes
