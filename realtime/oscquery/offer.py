"""What a running show offers: what its bundles say now, what it obeys, and where its settings stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from realtime.control.live_rig import LiveRig
from realtime.control.server import ControlServer
from realtime.oscquery.namespace import Nodes, controls, outputs
from realtime.pipeline import Pipeline
from realtime.sinks.base import Extra
from realtime.sinks.config import OscConfig

__all__ = ["Offer"]


class Offer:
    """The nodes of ``target``, which has no addresses of its own, and of the remote control.

    ``taught`` gives the names of the outputs that can be taught, ``rig`` what can be set while it plays.
    """

    def __init__(
        self,
        target: OscConfig,
        pipeline: Pipeline,
        control: ControlServer | None,
        rig: LiveRig,
        taught: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._target = target
        self._pipeline = pipeline
        self._control = control
        self._rig = rig
        self._taught = taught

    def version(self) -> object:
        """Something that is another whenever the nodes are."""
        extras = tuple(map(id, self._extras()))
        told = extras, self._cues(), self._gestures(), tuple(self._taught())
        return *told, tuple(self._values().items()), self._rig.version()

    def nodes(self) -> Nodes:
        """All nodes by their addresses."""
        announced = self._cues(), self._gestures()
        found = outputs(self._target.prefix, self._target.send, self._extras(), *announced)
        if self._control is not None:
            names, families = self._control.names
            told = {"teach/param/": self._taught(), "learn/": self._rig.outputs()}
            members = {family: each for family, each in told.items() if family in families}
            found |= controls(names, members, self._values(), self._rig.settable())
        return found

    def _extras(self) -> Sequence[Extra]:
        taught = self._pipeline.taught
        return () if taught is None else taught.extras

    def _gestures(self) -> tuple[str, ...]:
        taught = self._pipeline.taught
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
