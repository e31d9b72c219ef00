"""Several performers in one process: one show each, in one loop, behind one remote control.

Each has its own pipeline, calibration and state, and sends exactly what a show with this performer alone
would send. They share the thread, the ensemble and, where the rig says so, the sockets of their suits.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyanticip.errors import OptionError
from realtime.clock import Clock
from realtime.control.rig_keys import check_names
from realtime.control.server import CONTROL, ControlServer, commands_of_all
from realtime.loop import obey_signals
from realtime.monitor.keys import Keys
from realtime.monitor.terminal import Terminal
from realtime.oscquery.offer import Offers
from realtime.oscquery.process import OscQueryProcess
from realtime.pipeline import Pipeline
from realtime.rig import Rig
from realtime.rig.load import monitors, rig_for_performer
from realtime.seams import BACKENDS
from realtime.show import Show, close_shows, close_unplayed
from realtime.sinks.config import ENSEMBLE, OscConfig
from realtime.sinks.ensemble import EnsembleOut
from realtime.sinks.guard import Guard
from realtime.sockets import free_port, host_and_port, is_from, reachable_host
from realtime.sources.shared import PerformerSource, SharedSource, Turns
from realtime.sources.udp import UdpSource
from realtime.stage import assemble, stage
from realtime.status import LoadWatch

Say = Callable[[str], None]


class MultiShow:
    """The shows of several performers, by name. ``control`` is the remote control of all of them, if any."""

    def __init__(self, shows: Mapping[str, Show], control: ControlServer | None, say: Say) -> None:
        self.shows = dict(shows)
        self.control = control
        self._say = say

    async def run(self, seconds: float | None = None) -> dict[str, Any]:
        """Play until ``seconds`` have passed or Ctrl-C; then all fade out, and are closed together."""
        start = time.monotonic()
        with obey_signals(self.interrupt, self.end):
            results = await self._play_all(seconds)
        summaries = {name: summary for name, summary in zip(self.shows, results, strict=True) if summary}
        counters: Counter[str] = Counter()
        for summary in summaries.values():
            counters.update(summary["counters"])
        return {
            "seconds": round(time.monotonic() - start, 3),
            "counters": dict(counters),
            "sinks": {
                name if name == ENSEMBLE else f"{performer}: {name}": n
                for performer, summary in summaries.items()
                for name, n in summary["sinks"].items()
            },
            "recording_complete": all(show.recording_complete for show in self.shows.values()),
            "performers": summaries,
        }

    async def _play_all(self, seconds: float | None) -> list[dict[str, Any]]:
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._play(name, seconds)) for name in self.shows]
        watch = loop.create_task(self._watch())
        try:
            if self.control is not None:
                self.control.start(loop)
            return await asyncio.gather(*tasks)
        finally:
            for task in (*tasks, watch):
                task.cancel()
            await asyncio.wait(tasks)
            if self.control is not None:
                self.control.close()
            close_shows(list(self.shows.values()))

    async def _watch(self) -> None:
        load = LoadWatch()
        while True:
            await asyncio.sleep(1.0)
            if line := load.look(sum(show.pipeline.counts["skipped"] for show in self.shows.values())):
                self._say(line)

    async def _play(self, name: str, seconds: float | None) -> dict[str, Any]:
        """Summary of one performer's show; empty if it failed, which is reported."""
        try:
            return await self.shows[name].play(seconds)
        except Exception as error:
            self._say(f"{name}: ended: {type(error).__name__}: {error}")
            return {}

    def interrupt(self) -> None:
        """Handle Ctrl-C: all finish, and the second time at once."""
        for show in self.shows.values():
            show.interrupt()

    def end(self) -> None:
        """End all shows."""
        for show in self.shows.values():
            show.end()


def open_multi_show(
    rig: Rig, clock: Clock, say: Say, terminal: Terminal | None = None, *, prewarm: bool = False
) -> MultiShow:
    """Open everything that the ``[[performer]]`` tables of a rig need, ready to run.

    The ``terminal`` shows the first performer; its keys command all. A single performer is always prewarmed,
    several only with ``prewarm``. Raises a MotionError, with everything closed.
    """
    if not rig.monitor.token and not rig.monitor.is_local:
        # One token for the pages of all performers.
        rig = rig.model_copy(
            update={"monitor": rig.monitor.model_copy(update={"token": secrets.token_urlsafe(9)})}
        )
    check_names(names := [one.name for one in rig.performers])
    rigs = {name: rig_for_performer(rig, name).resolved() for name in names}
    shows: dict[str, Show] = {}
    with contextlib.ExitStack() as undo:
        performer_sources = _performer_sources(rigs, undo, say)
        ensemble = EnsembleOut(rig.osc, len(names))
        undo.callback(ensemble.close)
        guard = Guard(say) if rig.osc else None
        if guard is not None:
            undo.callback(guard.close)
        pipelines: dict[str, Pipeline] = {}
        unstaged: list[Pipeline] = []
        undo.callback(_close_all, unstaged)
        for sink, (name, own_rig) in zip(ensemble.sinks, rigs.items(), strict=True):
            if pipelines:
                own_rig = _with_chosen_backend(own_rig, next(iter(pipelines.values())))
            pipelines[name] = pipeline = assemble(own_rig, clock)
            unstaged.append(pipeline)
            pipeline.add(sink)
            performer_sources[name].hold = pipeline.hold
        for name, own_rig in rigs.items():
            first = not shows
            # The shared remote control serves all performers; each monitor commands the one it shows.
            control_update = (
                {"host": "127.0.0.1", "port": free_port()} if own_rig.monitor.enabled else {"enabled": False}
            )
            # From here on the show closes its pipeline.
            unstaged.pop(0)
            shows[name] = show = stage(
                own_rig,
                pipelines[name],
                performer_sources[name],
                # Waiting for one suit's datagram delays the others.
                prewarm=prewarm or len(names) == 1,
                say=_prefixed(say, name),
                terminal=terminal if first else None,
                monitor_ports=monitors(rig),
                guard=guard,
                control=rig.control.model_copy(update=control_update),
            )
            show.performer = name
            show.commands.check_sender = partial(_check_sender, rigs, name)
            show.collector = next(iter(shows.values())).collector
            undo.callback(close_unplayed, show)
        actions, families = commands_of_all(
            {name: show.actions() for name, show in shows.items()},
            {name: show.families() for name, show in shows.items()},
            frozenset({*next(iter(shows.values())).commands.names, "record/start", "record/stop"}),
        )
        table = rig.control
        control = None
        if table.enabled:
            control = ControlServer(table.host, table.port, actions, table.reply_port, families, say, names)
            undo.callback(control.close)
        if rig.oscquery.enabled:
            target = OscConfig(send=rig.oscquery.send)
            offered = control if rig.offers_control else None
            offers = [
                show.offer.for_performer(name, None if offered is None else (show.actions(), show.families()))
                for name, show in shows.items()
                if show.offer is not None
            ]
            shared = [name for name in actions if name.partition("/")[0] not in shows]
            control_address = None if offered is None else offered.address
            all_offers = Offers(offers, [] if offered is None else shared, target)
            oscquery = OscQueryProcess(rig.oscquery, control_address, all_offers, say)
            undo.callback(oscquery.close)
            next(iter(shows.values())).children.append(oscquery)
            for offer in offers:
                offer.add_receiver(oscquery.port)
            ensemble.add_target(target.model_copy(update={"port": oscquery.port}))
        multi_show = MultiShow(shows, control, say)
        if terminal is not None:
            keys = Keys(pipelines[names[0]], actions, multi_show.interrupt, say, terminal.send_health)
            shows[names[0]].keys = keys
        _announce(rig, rigs, performer_sources, multi_show, say)
        undo.pop_all()
    return multi_show


def _check_sender(rigs: Mapping[str, Rig], name: str, sender: str) -> None:
    """Raise an OptionError if a sender at the socket of performer ``name`` is another performer's suit."""
    for other, source in ((other, rig.source) for other, rig in rigs.items() if other != name):
        if source.listen == rigs[name].source.listen and is_from(sender, source.sender or ""):
            raise OptionError(f"source: {sender} is {other}'s suit; {name} takes one that is nobody's")


def _close_all(pipelines: list[Pipeline]) -> None:
    for pipeline in pipelines:
        pipeline.close()


def _performer_sources(
    rigs: Mapping[str, Rig], undo: contextlib.ExitStack, say: Say
) -> dict[str, PerformerSource]:
    """The source of each performer; those that listen at the same address share one socket."""
    sockets: dict[tuple[str, int], SharedSource] = {}
    turns = Turns()
    sources: dict[str, PerformerSource] = {}
    for name, own_rig in rigs.items():
        address = own_rig.source.listen
        if address not in sockets:
            names = ", ".join(other for other, its_rig in rigs.items() if its_rig.source.listen == address)
            prefixed_say = _prefixed(say, names)
            source_rig = own_rig.source
            source = UdpSource(source_rig.kind, *address, say=prefixed_say, **source_rig.udp_options())
            undo.callback(source.close)
            sockets[address] = SharedSource(source, turns)
        sources[name] = sockets[address].add_performer(own_rig.source.sender)
    return sources


def _with_chosen_backend(rig: Rig, first: Pipeline) -> Rig:
    """The rig with the backend that was chosen for the first performer, because choosing takes seconds."""
    if rig.model.backend != "auto" or first.backend is None or first.backend.name not in BACKENDS:
        return rig
    return rig.model_copy(update={"model": rig.model.model_copy(update={"backend": first.backend.name})})


def _prefixed(say: Say, name: str) -> Say:
    """Prefix lines with a performer's name, and the commands in them with that performer's address."""
    return lambda line: say(f"{name}: {line.replace(CONTROL, f'{CONTROL}{name}/')}")


def _announce(
    rig: Rig,
    rigs: Mapping[str, Rig],
    performer_sources: Mapping[str, PerformerSource],
    multi_show: MultiShow,
    say: Say,
) -> None:
    for name, performer_source in performer_sources.items():
        host, port = performer_source.address
        sender = f" from {performer_source.sender}" if performer_source.sender else ""
        where = host_and_port(reachable_host(host), port)
        say(f"{name}: listening for {performer_source.kind}{sender} at {where}")
        if rigs[name].synth.enabled:
            say(f"{name}: playing the built-in voice")
    for target in rig.osc:
        say(f"sending OSC to {target.url}" + (f", of {target.performer} alone" if target.performer else ""))
    if multi_show.control is not None:
        say(multi_show.control.description)
    backend = next(iter(multi_show.shows.values())).pipeline.backend
    if backend is not None:
        say(f"model steps on {backend.description}")
