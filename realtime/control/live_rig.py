"""The rig as it plays: shapes, smoothing and what OSC receivers are told, set between two frames."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyanticip.controls import Shape, Smoothing
from pyanticip.errors import OptionError, suggestion
from pyanticip.memory.cues import Cue
from pyanticip.vocabulary import PARAMETERS
from realtime.config import unknown
from realtime.control.rig_keys import RigKey, path_of, rig_keys, sending
from realtime.control.server import rounded_float, switch
from realtime.pipeline import Pipeline
from realtime.rig import Rig, parse_rig
from realtime.rig.mapping import MemoryRig, PerformerRig, smoothings
from realtime.sinks.config import ENSEMBLE
from realtime.sinks.osc import OscSink
from realtime.sources.replay import Command

__all__ = ["LIVE", "LiveRig", "fixed_of", "patch_of", "tree_of"]

#: The tables that can be set while a show plays.
LIVE = ("gain", "lead_ms", "shape", "smoothing", "osc")
# What says where a receiver is.
_WHERE = ("host", "port", "transport", "framing")
# The least part of its range that an output has to move for it to be learned.
_LEAST = 0.02


class LiveRig:
    """What can be set of ``rig`` while ``pipeline`` plays it.

    Every change is checked as a whole by the rig's own rules and takes effect with the next frame, or is
    refused with a line and leaves everything as it was.
    """

    def __init__(self, pipeline: Pipeline, rig: Rig) -> None:
        self._pipeline = pipeline
        self._rig = rig
        ours = [sink for sink in pipeline.sinks if isinstance(sink, OscSink)]
        # Of a show without these receivers the rig alone is changed.
        self._receivers = [next((s for s in ours if s.config is table), None) for table in rig.osc]
        self._changes = 0
        #: Where it was read from, or written to; None: neither.
        self.file = rig.file
        self.actions: dict[str, Callable[..., str]] = {"rig/merge": self.merge}
        self.families: dict[str, Callable[..., str]] = {"rig/": self.set, "learn/": self.learn}

    @property
    def rig(self) -> Rig:
        """As it plays now."""
        mixer = self._pipeline.mixer
        return self._rig.model_copy(update={"gain": mixer.gain, "lead_ms": mixer.lead_ms})

    @property
    def latency_ms(self) -> float:
        """How late the latest of its receivers sounds."""
        return self._rig.latency_ms

    def written(self, file: Path) -> None:
        """It stands in this file from now on."""
        self.file = file
        self._changes += 1

    def remember(self, memory: MemoryRig, cues: Sequence[Cue]) -> None:
        """This memory plays from now on, and these are the rig's cues."""
        self._rig = self._rig.model_copy(update={"memory": memory, "cue": tuple(cues)})

    def step(self, checkpoint: str | None) -> None:
        """This model steps from now on."""
        model = self._rig.model.model_copy(update={"enabled": True, "checkpoint": checkpoint})
        self._rig = self._rig.model_copy(update={"model": model})

    def calibrated(self, table: Mapping[str, Any]) -> None:
        """This of ``[performer]`` is known from now on."""
        known = PerformerRig.model_validate({**self._rig.performer.model_dump(), **table})
        self._rig = self._rig.model_copy(update={"performer": known})

    def version(self) -> object:
        """Something that is another whenever :meth:`settable` are."""
        return self._changes, tuple(self._taught())

    def outputs(self) -> tuple[str, ...]:
        """What can be shaped now."""
        return (*PARAMETERS, *(f"taught/{name}" for name in self._taught()))

    def settable(self) -> Iterator[RigKey]:
        """What can be set, and how it stands."""
        return rig_keys(self._rig, self._taught())

    def set(self, key: str, *values: object) -> str:
        """Set one key, ``shape/pan/in`` to .2 and .8 as an example; without a value: as it is built in."""
        values = tuple(map(rounded_float, values))
        tree = self._tree()
        table: Any = tree
        *way, last = path_of(key)
        if way[:1] == ["smoothing"] and len(way) == 2 and "default" in tree["smoothing"]:
            # Whoever gets a table of their own begins with the default's.
            tree["smoothing"].setdefault(way[1], dict(tree["smoothing"]["default"]))
        for part in way:
            if isinstance(part, int):
                if part >= len(table):
                    raise OptionError(f"rig/{key}: there are {len(table)} receivers, counted from 0")
                table = table[part]
            elif isinstance(table, dict):
                table = table.setdefault(part, {})
        if way[:1] == ["osc"] and way[2:] == ["send"] and isinstance(way[1], int):
            on = switch(f"rig/{key}", *values)
            tree["osc"][way[1]]["send"] = sending(self._rig.osc[way[1]].send, str(last), on)
        elif not isinstance(table, dict) or not last:
            raise OptionError(f"rig/{key}: no such key; live are {', '.join(LIVE)}")
        elif not values:
            table.pop(last, None)
        else:
            one = len(values) == 1 and last not in ("in", "send")
            table[last] = values[0] if one else list(values)
        self._become(tree)
        if not values:
            return "as built in"
        return " ".join(f"{v:g}" if isinstance(v, float) else str(v) or '""' for v in values)

    def merge(self, patch: object = "") -> str:
        """Set many keys at once, by a JSON merge patch (RFC 7396): null is as it is built in."""
        told = self._parsed(patch)
        self._become(_merged(self._tree(), told))
        return ", ".join(told)

    def merge_again(self, patch: object = "") -> None:
        """As :meth:`merge` in a show of other receivers: these stay where and as many as they are."""
        told, ours = self._parsed(patch), self._tree()["osc"]
        if isinstance(told.get("osc"), list):
            pairs = zip(ours, told["osc"], strict=False)
            ours[: len(told["osc"])] = [_elsewhere(new, old) for old, new in pairs]
            told["osc"] = ours
        self._become(_merged(self._tree(), told))

    def _parsed(self, patch: object) -> dict[str, Any]:
        try:
            told = json.loads(str(patch))
            json.dumps(told, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            raise OptionError(f"rig/merge: expected JSON, got {str(patch)[:60]!r}") from None
        if not isinstance(told, dict):
            raise OptionError(f"rig/merge: expected an object, got {str(patch)[:60]!r}")
        return told

    def learn(self, name: str, value: object = 1, low: object = math.inf, high: object = -math.inf) -> str:
        """Note from now on how far an output goes (from ``low`` to ``high`` at least); off: that is its range
        from now on."""
        outputs = self.outputs()
        if name not in outputs:
            said = suggestion(name, outputs) or f"; there are {', '.join(outputs)}"
            raise OptionError(f"learn: no output {name!r}{said}")
        shaper = self._pipeline.mixer.shaper(name)
        if switch(f"learn/{name}", value):
            if not (isinstance(low, float) and isinstance(high, float)):
                raise OptionError(f"learn/{name}: expected 1 or 0")
            shaper.seen = low, high
            return "move"
        if shaper.seen is None:
            raise OptionError(f"learn/{name}: not begun")
        least, most = shaper.seen
        if not most - least >= _LEAST:
            raise OptionError(f"learn/{name}: it has moved too little")
        # Whole thousandths, outwards: what a person would write down.
        ends = max(math.floor(1000.0 * least) / 1000.0, 0.0), min(math.ceil(1000.0 * most) / 1000.0, 1.0)
        told = self.set(f"shape/{name}/in", *ends)
        shaper.seen = None
        return told

    def state_as_commands(self, t_ns: int) -> list[Command]:
        """What is being learned: the first commands of a recording."""
        shapers = self._pipeline.mixer.shapers.items()
        return [Command(t_ns, f"learn/{n}", (1, *s.seen)) for n, s in shapers if s.seen is not None]

    def _taught(self) -> list[str]:
        taught = self._pipeline.live_mapping
        return [] if taught is None else [extra.name for extra in taught.extras]

    def _tree(self) -> dict[str, Any]:
        found = tree_of(self.rig)
        return {name: found.get(name, {}) for name in ("shape", "smoothing")} | {
            "gain": self._pipeline.mixer.gain,
            "lead_ms": self._pipeline.mixer.lead_ms,
            "osc": found["osc"],
        }

    def _become(self, tree: Mapping[str, Any]) -> None:
        """Play by another tree, or say why not and change nothing."""
        if fixed := [name for name in tree if name not in LIVE]:
            if fixed[0] in Rig.model_fields:
                raise OptionError(f"rig: {fixed[0]}: needs a restart; live are {', '.join(LIVE)}")
            raise OptionError(f"rig: {fixed[0]}: unknown key{unknown(fixed[0], LIVE)}")
        before, mixer = self.rig, self._pipeline.mixer
        told = parse_rig(tree, "rig")
        rig = before.model_copy(update={name: getattr(told, name) for name in LIVE})
        shaped = {name: shape for name, shape in rig.shape.items() if shape != Shape()}
        rig = rig.model_copy(update={"shape": shaped})
        if len(rig.osc) != len(before.osc):
            raise OptionError("rig: osc: another number of receivers needs a restart")
        for i, (new, old) in enumerate(zip(fixed_of(rig), fixed_of(before), strict=True)):
            for name, value in new.items():
                if value != old[name]:
                    raise OptionError(f"rig: osc.{i}.{name}: needs a restart")
        self._tell(rig, before)
        for name in {**before.shape, **rig.shape}:
            if rig.shape.get(name) != before.shape.get(name):
                mixer.reshape(name, rig.shape.get(name))
        if rig.smoothing != before.smoothing:
            mixer.resmooth(smoothings(rig.smoothing), rig.smoothing.get("default", Smoothing()))
        mixer.gain, mixer.lead_ms = rig.gain, rig.lead_ms
        self._rig = rig
        self._changes += 1

    def _tell(self, rig: Rig, before: Rig) -> None:
        """Let the receivers be told by other tables."""
        for sink, new, old in zip(self._receivers, rig.osc, before.osc, strict=True):
            if sink is not None and new != old:
                sink.configure(new)
        if rig.latency_ms != before.latency_ms:
            self._pipeline.mixer.sound_ms = rig.latency_ms


def fixed_of(rig: Rig) -> list[dict[str, object]]:
    """What of each receiver cannot change while a show plays: where it is, and of several performers, whether
    it is told of them together."""
    found = [{name: getattr(table, name) for name in _WHERE} for table in rig.osc]
    if rig.one:
        for told, table in zip(found, rig.osc, strict=True):
            told["send.ensemble"] = ENSEMBLE in table.send
    return found


def _elsewhere(new: Any, old: Mapping[str, Any]) -> Any:
    """A receiver's table, at the place of another."""
    if not isinstance(new, dict):
        return new
    return {n: v for n, v in new.items() if n not in _WHERE} | {n: old[n] for n in _WHERE if n in old}


def tree_of(rig: Rig) -> dict[str, Any]:
    """What a rig says that is not built in, as its file would have it; every receiver is listed."""
    how: dict[str, Any] = {"mode": "json", "by_alias": True, "exclude_defaults": True}
    tree = rig.model_dump(**how)
    # A table with what is built in is not none: where there is none, the default's stands.
    tree["smoothing"] = {name: table.model_dump() for name, table in rig.smoothing.items()}
    tree["osc"] = [table.model_dump(**how) for table in rig.osc]
    return tree


def _merged(target: Any, patch: Any) -> Any:
    """A JSON merge patch."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged


def patch_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch that makes ``after`` of ``before``."""
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, new in after.items():
        old = before.get(name)
        if old != new:
            nested = isinstance(old, Mapping) and isinstance(new, Mapping)
            patch[name] = patch_of(dict(old or {}), new) if nested else new
    return patch
