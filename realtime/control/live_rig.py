"""The rig as it plays: shapes, smoothing and the output to OSC receivers can be changed between two
frames."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyanticip.controls import Shape, Smoothing
from pyanticip.errors import OptionError, counted, suggestion
from pyanticip.memory.cues import Cue
from pyanticip.vocabulary import PARAMETERS
from realtime.config import unknown_hint
from realtime.control.rig_keys import RigKey, path_of, rig_keys, with_part
from realtime.control.server import rounded_float, switch
from realtime.pipeline import Pipeline
from realtime.rig import Rig, parse_rig
from realtime.rig.mapping import MemoryRig, PerformerRig, smoothings
from realtime.sinks.config import ENSEMBLE
from realtime.sinks.osc import OscSink

#: The tables that can be set while a show plays.
LIVE = ("gain", "lead_ms", "shape", "smoothing", "osc")
# Keys of a receiver's table that define how it is reached.
_ADDRESS_KEYS = ("host", "port", "transport", "framing", "bundles")
# Minimum extent of a learned range.
_MIN_LEARNED_RANGE = 0.02


class LiveRig:
    """Live changes of ``rig`` while ``pipeline`` plays it.

    Every change is validated as a whole by the rig's rules. It takes effect with the next frame, or raises an
    OptionError and changes nothing.
    """

    def __init__(self, pipeline: Pipeline, rig: Rig) -> None:
        self._pipeline = pipeline
        self._rig = rig
        osc_sinks = [sink for sink in pipeline.sinks if isinstance(sink, OscSink)]
        # None for receivers that this show does not have: only the rig is changed.
        self._receivers = [next((s for s in osc_sinks if s.config is table), None) for table in rig.osc]
        self._changes = 0
        #: The file it was read from or last written to, if any.
        self.file = rig.file
        self.actions: dict[str, Callable[..., str]] = {"rig/merge": self.merge}
        self.families: dict[str, Callable[..., str]] = {"rig/": self.set, "learn/": self.learn}

    @property
    def rig(self) -> Rig:
        """The rig with all live changes."""
        mixer = self._pipeline.mixer
        return self._rig.model_copy(update={"gain": mixer.gain, "lead_ms": mixer.lead_ms})

    @property
    def latency_ms(self) -> float:
        """The longest latency of its receivers, in milliseconds."""
        return self._rig.latency_ms

    def set_file(self, file: Path) -> None:
        """Record that the rig was written to ``file``."""
        self.file = file
        self._changes += 1

    def set_memory(self, memory: MemoryRig, cues: Sequence[Cue]) -> None:
        """Record the memory that plays, and the cues."""
        self._rig = self._rig.model_copy(update={"memory": memory, "cue": tuple(cues)})

    def set_checkpoint(self, checkpoint: str | None) -> None:
        """Record the checkpoint that is stepped; None: the packaged one."""
        model = self._rig.model.model_copy(update={"enabled": True, "checkpoint": checkpoint})
        self._rig = self._rig.model_copy(update={"model": model})

    def set_performer(self, table: Mapping[str, Any]) -> None:
        """Record changed keys of ``[performer]``."""
        performer = PerformerRig.model_validate({**self._rig.performer.model_dump(), **table})
        self._rig = self._rig.model_copy(update={"performer": performer})

    def version(self) -> object:
        """A value that changes whenever :meth:`settable` does."""
        return self._changes, tuple(self._taught_names())

    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs that can be shaped."""
        return (*PARAMETERS, *(f"taught/{name}" for name in self._taught_names()))

    def settable(self) -> Iterator[RigKey]:
        """The keys that can be set, with their values."""
        return rig_keys(self._rig, self._taught_names())

    def set(self, key: str, *values: object) -> str:
        """Set one key, such as ``shape/pan/in`` to .2 and .8; without values, restore the default."""
        values = tuple(map(rounded_float, values))
        tree = self._tree()
        table: Any = tree
        *parents, last = path_of(key)
        if parents[:1] == ["smoothing"] and len(parents) == 2 and "default" in tree["smoothing"]:
            # A new table for one parameter starts as a copy of the default one.
            tree["smoothing"].setdefault(parents[1], dict(tree["smoothing"]["default"]))
        for part in parents:
            if isinstance(part, int):
                if part >= len(table):
                    raise OptionError(f"rig/{key}: {counted(len(table), 'receiver')}, counted from 0")
                table = table[part]
            elif isinstance(table, dict):
                table = table.setdefault(part, {})
        if parents[:1] == ["osc"] and parents[2:] == ["send"] and isinstance(parents[1], int):
            if not (on := switch(f"rig/{key}", *values)):
                # A misspelt name, which is not in the list in any case.
                parse_rig({"osc": [{"send": [last]}]}, "rig")
            tree["osc"][parents[1]]["send"] = with_part(self._rig.osc[parents[1]].send, str(last), on)
        elif not isinstance(table, dict) or not last:
            raise OptionError(f"rig/{key}: no such key; live are {', '.join(LIVE)}")
        elif not values:
            table.pop(last, None)
        else:
            one = len(values) == 1 and last not in ("in", "send")
            table[last] = values[0] if one else list(values)
        self._apply(tree)
        if not values:
            return "as built in"
        return " ".join(f"{v:g}" if isinstance(v, float) else str(v) or '""' for v in values)

    def merge(self, patch: object = "") -> str:
        """Set many keys at once by a JSON merge patch (RFC 7396); null restores a default."""
        parsed = self._parse(patch)
        self._apply(_apply_patch(self._tree(), parsed))
        return ", ".join(parsed)

    def replay_merge(self, patch: object = "") -> None:
        """Like :meth:`merge` in a replay, whose receivers keep their number and addresses."""
        parsed, osc_sinks = self._parse(patch), self._tree()["osc"]
        if isinstance(parsed.get("osc"), list):
            pairs = zip(osc_sinks, parsed["osc"], strict=False)
            osc_sinks[: len(parsed["osc"])] = [_at_address_of(new, old) for old, new in pairs]
            parsed["osc"] = osc_sinks
        self._apply(_apply_patch(self._tree(), parsed))

    def _parse(self, patch: object) -> dict[str, Any]:
        try:
            parsed = json.loads(str(patch))
            json.dumps(parsed, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            raise OptionError(f"rig/merge: expected JSON, got {str(patch)[:60]!r}") from None
        if not isinstance(parsed, dict):
            raise OptionError(f"rig/merge: expected an object, got {str(patch)[:60]!r}")
        return parsed

    def learn(self, name: str, value: object = 1, low: object = math.inf, high: object = -math.inf) -> str:
        """Start learning the range of an output, at least from ``low`` to ``high``; off: use what was
        learned."""
        outputs = self.outputs()
        if name not in outputs:
            hint = suggestion(name, outputs) or f"; there are {', '.join(outputs)}"
            raise OptionError(f"learn: no output {name!r}{hint}")
        shaper = self._pipeline.mixer.shaper(name)
        if switch(f"learn/{name}", value):
            if not (isinstance(low, float) and isinstance(high, float)):
                raise OptionError(f"learn/{name}: expected 1 or 0")
            shaper.seen = low, high
            return "move"
        if shaper.seen is None:
            raise OptionError(f"learn/{name}: not begun")
        lowest, highest = shaper.seen
        if not highest - lowest >= _MIN_LEARNED_RANGE:
            raise OptionError(f"learn/{name}: it has moved too little")
        # Rounded outwards to thousandths, for a readable rig.
        limits = (
            max(math.floor(1000.0 * lowest) / 1000.0, 0.0),
            min(math.ceil(1000.0 * highest) / 1000.0, 1.0),
        )
        reply = self.set(f"shape/{name}/in", *limits)
        shaper.seen = None
        return reply

    def learned_ranges(self) -> Iterator[tuple[str, int, float, float]]:
        """The ranges being learned, as commands."""
        shapers = self._pipeline.mixer.shapers.items()
        yield from ((f"learn/{name}", 1, *s.seen) for name, s in shapers if s.seen is not None)

    def _taught_names(self) -> list[str]:
        live_mapping = self._pipeline.live_mapping
        return [] if live_mapping is None else [extra.name for extra in live_mapping.extras]

    def _tree(self) -> dict[str, Any]:
        tree = tree_of(self.rig)
        return {name: tree.get(name, {}) for name in ("shape", "smoothing")} | {
            "gain": self._pipeline.mixer.gain,
            "lead_ms": self._pipeline.mixer.lead_ms,
            "osc": tree["osc"],
        }

    def _apply(self, tree: Mapping[str, Any]) -> None:
        """Apply a changed tree, or raise an OptionError and change nothing."""
        if fixed := [name for name in tree if name not in LIVE]:
            if fixed[0] in Rig.model_fields:
                raise OptionError(f"rig: {fixed[0]}: needs a restart; live are {', '.join(LIVE)}")
            raise OptionError(f"rig: {fixed[0]}: unknown key{unknown_hint(fixed[0], LIVE)}")
        before, mixer = self.rig, self._pipeline.mixer
        parsed = parse_rig(tree, "rig")
        rig = before.model_copy(update={name: getattr(parsed, name) for name in LIVE})
        shapes = {name: shape for name, shape in rig.shape.items() if shape != Shape()}
        rig = rig.model_copy(update={"shape": shapes})
        if len(rig.osc) != len(before.osc):
            raise OptionError("rig: osc: another number of receivers needs a restart")
        for i, (new, old) in enumerate(zip(fixed_of(rig), fixed_of(before), strict=True)):
            for name, value in new.items():
                if value != old[name]:
                    raise OptionError(f"rig: osc.{i}.{name}: needs a restart")
        self._configure_receivers(rig, before)
        for name in {**before.shape, **rig.shape}:
            if rig.shape.get(name) != before.shape.get(name):
                mixer.reshape(name, rig.shape.get(name))
        if rig.smoothing != before.smoothing:
            mixer.set_smoothing_settings(smoothings(rig.smoothing), rig.smoothing.get("default", Smoothing()))
        mixer.gain, mixer.lead_ms = rig.gain, rig.lead_ms
        self._rig = rig
        self._changes += 1

    def _configure_receivers(self, rig: Rig, before: Rig) -> None:
        """Configure the receivers by their new tables."""
        for sink, new, old in zip(self._receivers, rig.osc, before.osc, strict=True):
            if sink is not None and new != old:
                sink.configure(new)
        if rig.latency_ms != before.latency_ms:
            self._pipeline.mixer.sound_ms = rig.latency_ms


def fixed_of(rig: Rig) -> list[dict[str, object]]:
    """Keys of each receiver that cannot change during a show: how it is reached and, with several
    performers, whether it receives the ensemble."""
    tables = [{name: getattr(table, name) for name in _ADDRESS_KEYS} for table in rig.osc]
    if rig.performer_name:
        for fixed, table in zip(tables, rig.osc, strict=True):
            fixed["send.ensemble"] = ENSEMBLE in table.send
    return tables


def _at_address_of(new: Any, old: Mapping[str, Any]) -> Any:
    """A receiver's table with the address of another one."""
    if not isinstance(new, dict):
        return new
    return {n: v for n, v in new.items() if n not in _ADDRESS_KEYS} | {
        n: old[n] for n in _ADDRESS_KEYS if n in old
    }


def tree_of(rig: Rig) -> dict[str, Any]:
    """The rig as a tree of the values that differ from the defaults, as in a file; lists every receiver."""
    dump_options: dict[str, Any] = {"mode": "json", "by_alias": True, "exclude_defaults": True}
    tree = rig.model_dump(**dump_options)
    # A table of defaults differs from no table, for which the table `default` applies: keep it.
    tree["smoothing"] = {name: table.model_dump() for name, table in rig.smoothing.items()}
    tree["osc"] = [table.model_dump(**dump_options) for table in rig.osc]
    return tree


def _apply_patch(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _apply_patch(merged.get(name), value)
    return merged


def patch_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch that turns ``before`` into ``after``."""
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, new in after.items():
        old = before.get(name)
        if old != new:
            nested = isinstance(old, Mapping) and isinstance(new, Mapping)
            patch[name] = patch_of(dict(old or {}), new) if nested else new
    return patch
