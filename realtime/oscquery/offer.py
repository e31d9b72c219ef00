"""What a running show offers: what its bundles say now, what it obeys, and where its settings stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from realtime.control.live_rig import LiveRig
from realtime.oscquery.namespace import Nodes, controls, described, outputs
from realtime.pipeline import Pipeline
from realtime.sinks.base import Extra
from realtime.sinks.config import ENSEMBLE, OscConfig
from realtime.sinks.osc import OscSink
from realtime.sinks.outputs import TOGETHER

__all__ = ["Commands", "Offer", "Offers"]

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
        sink.announce(self._extras())
        self._pipeline.sinks.append(sink)

    def version(self) -> object:
        """Something that is another whenever the nodes are."""
        extras = tuple(map(id, self._extras()))
        told = extras, self._cues(), self._gestures(), tuple(self._taught())
        return *told, tuple(self._values().items()), self._rig.version()

    def nodes(self) -> Nodes:
        """All nodes by their addresses."""
        announced = self._cues(), self._gestures()
        found = outputs(self._target.prefix, self._target.send, self._extras(), *announced)
        if self._commands is not None:
            names, families = self._commands
            told = {"teach/param/": self._taught(), "learn/": self._rig.outputs()}
            members = {family: each for family, each in told.items() if family in families}
            found |= controls(names, members, self._values(), self._rig.settable(), self._who)
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


class Offers:
    """What several performers offer, as one: each one's, the commands for all of them, and the ensemble where
    it is sent.
    """

    def __init__(self, offers: Sequence[Offer], names: Iterable[str], target: OscConfig) -> None:
        self._offers = tuple(offers)
        self._shared = controls(names)
        if ENSEMBLE in target.send:
            self._shared |= {f"{target.prefix}/{ENSEMBLE}": described(TOGETHER)}

    def version(self) -> object:
        """As :meth:`Offer.version`."""
        return tuple(offer.version() for offer in self._offers)

    def nodes(self) -> Nodes:
        """All nodes by their addresses."""
        found = dict(self._shared)
        for offer in self._offers:
            found |= offer.nodes()
        return found
