"""Commands that change a running pipeline, from the remote control and from replays.

Every command takes effect between two frames, is recorded with its time, and has the same effect in a replay.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pyanticip import _core
from pyanticip.errors import MotionError, OptionError, counted
from pyanticip.memory.cues import Cue
from pyanticip.models.checkpoint.manifest import WEIGHTS
from realtime.control.beat import BeatControl
from realtime.control.calibration import Calibration
from realtime.control.live_rig import LiveRig
from realtime.control.memory import MemoryControl, cue_values, parse_cues
from realtime.control.server import Action, number, rounded_float, switch
from realtime.mapping.live_mapping import LiveMapping, check_model, open_mapping
from realtime.mapping.mixer import Mixer
from realtime.mapping.performer import Reach
from realtime.memory.live_memory import Following, LiveMemory, Shared, open_memory
from realtime.pipeline import Pipeline
from realtime.rig import Rig
from realtime.rig.mapping import MemoryRig
from realtime.sockets import is_address, is_from
from realtime.sources.replay import Command
from realtime.sources.shared import MAX_QUEUED
from realtime.step.base import StepBackend
from realtime.step.open import open_backend
from realtime.voice.base import Switchable

_MAX_BOOST = 1e6
# Smaller changes of the sound's latency are ignored.
_MIN_CHANGE_MS = 2.0


class PlanControl:
    """The ``plan`` command: boosts of codes, which last until they are removed.

    A boost is added to the code's contrast (the logarithm of how much likelier than usual it is): 1 is a
    nudge, 10 puts the code into nearly every plan, -10 keeps it out of nearly every one.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._boosted_backend: StepBackend | None = None
        self._boosts: dict[int, float] = {}

    def boost(self, *arguments: object) -> str:
        """Set the ``boost`` of a ``code`` from the next frame on; 0 removes it, no arguments remove all.

        Raises:
            OptionError: The model makes no plans, there is no such code, or the boost is not a number.
        """
        backend = self._pipeline.backend
        if backend is None or not backend.codes:
            raise OptionError("plan: this model makes no plans that could be steered")
        if len(arguments) not in (0, 2):
            got = counted(len(arguments), "argument")
            raise OptionError(f"plan: expected a code and a boost, or nothing, got {got}")
        # A model that was loaded since has no boosts.
        boosts = dict(self._boosts) if arguments and backend is self._boosted_backend else {}
        if arguments:
            code, boost = number("plan", arguments[0]), number("plan", arguments[1])
            if not code.is_integer() or not 0 <= code < backend.codes:
                raise OptionError(f"plan: codes are 0 to {backend.codes - 1}, got {code:g}")
            if abs(boost) > _MAX_BOOST:
                raise OptionError(f"plan: a boost is from -{_MAX_BOOST:g} to {_MAX_BOOST:g}, got {boost:g}")
            boosts[int(code)] = boost
            boosts = {index: value for index, value in boosts.items() if value}
        vector = np.zeros(backend.codes, np.float32)
        for index, value in boosts.items():
            vector[index] = value
        backend.steer(vector)
        self._boosted_backend, self._boosts = backend, boosts
        return ", ".join(f"{index}: {value:+g}" for index, value in sorted(boosts.items())) or "no boosts"

    def boosts(self) -> Iterator[tuple[str, int, float]]:
        """The current boosts, as commands."""
        if self._pipeline.backend is self._boosted_backend:
            yield from (("plan", code, boost) for code, boost in self._boosts.items())


class Commands:
    """The commands that change the sound, by name.

    ``say`` takes lines for the user, such as on commands that cannot be replayed. ``rig`` is the one that
    plays, ``voice`` what plays the chosen preset.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        say: Callable[[str], None] = lambda line: None,
        rig: Rig | None = None,
        voice: Switchable | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._say = say
        self._mapping: tuple[str, str] | None = None
        self._voice = voice
        self._preset = ""
        self._sound_set_manually = False
        rig = rig or Rig(osc=())
        #: The only sender that is listened to, as commanded; empty: any.
        self.listens_to = rig.source.sender or ""
        self.poll: Callable[[], object] = lambda: None  # processes the datagrams that came before a command
        #: Raises an OptionError if a sender is another performer's suit.
        self.check_sender: Callable[[str], object] = str
        #: The rig with its live changes.
        self.live_rig = LiveRig(pipeline, rig)
        self._calibration = Calibration(pipeline, lambda: self.live_rig.file, self.live_rig.set_performer)
        self._memory = MemoryControl(pipeline)
        self._plan = PlanControl(pipeline)
        self.beat = BeatControl(pipeline)
        mixer = pipeline.mixer
        self._actions: dict[str, Action] = {
            "start": lambda: _mode(mixer, "playing"),
            "stop": lambda: _mode(mixer, "stopped"),
            "panic": lambda: _mode(mixer, "panic"),
            "freeze": partial(_freeze, mixer),
            "bypass": self._bypass,
            "source": self._source,
            "tempo": self.beat.lead,
            "preset": self._play_preset,
            "plan": self._plan.boost,
            "unload": self._unload,
            **{name: self._setting(name) for name in mixer.settings},
            "sound_ms": self._set_sound_ms,
            **self._calibration.actions,
            **self._memory.actions,
            **self.live_rig.actions,
        }
        # Commands that a replay executes differently, or that only recordings contain.
        self._replay_actions: dict[str, Callable[..., object]] = {
            "tempo": self.beat.set_beat,
            "resume": lambda *values: mixer.resume([float(str(value)) for value in values]),
            "mapping": self._replay_mapping,
            "memory": self._replay_memory,
            "model": self._replay_model,
            "rig/merge": self.live_rig.replay_merge,
            "shape": self._replay_shape,
            "range": self._replay_range,
            "cue/set": self._replay_cue,
            "cues": self._replay_cues,
            # In a replay the sender need not have been heard yet.
            "source": lambda sender="": self._listen_to(str(sender)),
            # The rig was written when it was recorded.
            "calibrate/save": lambda table: self._calibration.play(json.loads(str(table))),
        }
        #: Commands whose name ends in an argument, by their prefix.
        self.families: dict[str, Callable[..., str]] = self.live_rig.families

    @property
    def preset(self) -> str:
        """The preset that was chosen while playing; empty if none was."""
        return self._preset

    @property
    def mapping(self) -> str | None:
        """The file of the mapping that was loaded while playing; None if none was, or it was unloaded."""
        return None if self._mapping is None else self._mapping[0]

    @property
    def cues(self) -> tuple[Cue, ...]:
        """The current cues; if no take is followed, the rig's."""
        return self.live_rig.rig.cue if self.following is None else self.following.cues

    @property
    def following(self) -> Following | None:
        """The follower of the rehearsed takes, if any."""
        return None if self._pipeline.memory is None else self._pipeline.memory.following

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the commands for the remote control, without families."""
        return tuple(self._actions)

    def obey(self, name: str, *arguments: object) -> str | Awaitable[str]:
        """Execute and record a command; returns the reply. Raises MotionError, or TypeError for the
        arguments."""
        now_ns, sound_ms = self._advance_to_now(), self._pipeline.mixer.sound_ms
        answer = self._action(name)(*arguments)
        if name == "calibrate/save":
            # The result is recorded, because the recording may have begun in the middle of the calibration.
            arguments = (json.dumps(self._calibration.found),)
        elif name == "cue/set" and not any(arguments[1:2]):
            # Its place is recorded, because a replay of such a recording cannot know it.
            arguments = (*cue_values(self.cues[-1:]), 1)
        elif name == "tempo":
            # Recorded with the phase at time 0 of the clock, not at the time of the command.
            arguments = self.beat.leading_beat
        new_sound_ms = self._pipeline.mixer.sound_ms
        if name != "sound_ms":
            self._record(now_ns, name, arguments)
        if name == "sound_ms" or new_sound_ms != sound_ms:
            # Recorded as a number, because a replay has other receivers or none.
            self._record(now_ns, "sound_ms", (new_sound_ms,))
        return answer

    def _action(self, name: str) -> Action:
        """The action of a command. Raises KeyError if there is none of this name."""
        for family, act in self.families.items():
            if name not in self._actions and name.startswith(family):
                return partial(act, name.removeprefix(family))
        return self._actions[name]

    def play_mapping(self, live_mapping: LiveMapping, path: Path) -> str:
        """Play a mapping that was read from ``path`` from the next frame on; returns a line on its outputs.

        Raises a CheckpointError if it was taught on a model other than the current one.
        """
        now_ns = self._advance_to_now()
        # The model may have been replaced while the mapping was read.
        check_model(live_mapping.mapping, self._pipeline.backend)
        self._pipeline.set_mapping(live_mapping)
        self._mapping = str(path), live_mapping.mapping.sha256
        self._record(now_ns, "mapping", self._mapping)
        outputs = [
            *live_mapping.names,
            *(f"gesture/{gesture.name}" for gesture in live_mapping.mapping.gestures),
        ]
        line = f"mapping {live_mapping.mapping.name}: {', '.join(outputs)}"
        self._say(line)
        return line

    def set_model(self, backend: StepBackend, path: str | None) -> None:
        """Step a model that was read from ``path`` (None: the packaged one) from the next frame on.

        Raises a CheckpointError if the current mapping was taught on a different one.
        """
        now_ns = self._advance_to_now()
        self._step_model(backend, path)
        self._record(now_ns, "model", (path or "", _weights(backend)))

    def play_memory(self, live: LiveMemory, path: Path, table: MemoryRig | None = None) -> str:
        """Use a memory that was read from ``path``, and its cues, from the next frame on; returns a line on
        it.

        ``table`` is the rig's table that names it, if any.
        """
        now_ns = self._advance_to_now()
        self._set_memory(live, path, table)
        self._record(now_ns, "memory", (str(path), live.sha256))
        if not live.memory.learning:
            self._record(now_ns, "memory/freeze", ())
        if live.following is not None and live.following.cues:
            self._record(now_ns, "cues", cue_values(live.following.cues))
        return f"memory {live.name}"

    def play_cues(self, following: Following, cues: Sequence[Cue], shared: Shared) -> str:
        """Replace the cues from the next frame on; ``shared`` is the result of ``following.shared``.

        Raises an OptionError if a cue is in no take, or the memory was replaced meanwhile.
        """
        if following is not self.following:
            raise OptionError("cues: another memory plays by now")
        now_ns = self._advance_to_now()
        self._set_cues(following, cues, shared)
        self._record(now_ns, "cues", cue_values(cues))
        return f"cues {', '.join(cue.name for cue in cues) or 'none'}"

    def replay_command(self, command: Command) -> None:
        """Execute a command from a recording."""
        t_ns, name, arguments = command
        self._pipeline.run_until(t_ns)
        mixer = self._pipeline.mixer
        sound_ms = mixer.sound_ms
        try:
            if name == "hold":
                if not 0 < (count := int(str(*arguments))) < MAX_QUEUED:
                    raise OptionError(f"expected 1 to {MAX_QUEUED - 1} datagrams, got {count}")
                # The pipeline records it by itself.
                return self._pipeline.hold(count, t_ns, replayed=True)
            if name == "rest":
                self._pipeline.suspend_model(t_ns)
            elif name == "player":
                (player,) = map(str, arguments)
                self._pipeline.begin_with(player, t_ns, lambda: self.listens_to or None)
            else:
                (self._replay_actions.get(name) or self._action(name))(*arguments)
        except KeyError:
            self._say(f"{name}: cannot be done again as it was recorded: this version does not know it")
        except (MotionError, OSError, TypeError, ValueError) as error:
            self._say(f"{name}: cannot be done again as it was recorded: {error}")
        else:
            if name != "sound_ms":
                # sound_ms is recorded as a command of its own.
                mixer.sound_ms = sound_ms
            self._record(t_ns, name, arguments)

    def state_as_commands(self, t_ns: int) -> list[Command]:
        """The current state, as first commands of a recording."""
        return [Command(t_ns, name, tuple(arguments)) for name, *arguments in self._state()]

    def _state(self) -> Iterator[tuple[Any, ...]]:
        """The name and arguments of each command of :meth:`state_as_commands`."""
        mixer = self._pipeline.mixer
        yield from mixer.settings.items()
        if mixer.bypass:
            yield "bypass", 1
        if self.beat.leading_beat:
            yield "tempo", *self.beat.leading_beat
        if mixer.mode != "playing":
            yield ({"frozen": "freeze", "stopped": "stop"}.get(mixer.mode, mixer.mode),)
        for output, shaper in mixer.shapers.items():
            if shaper.open or shaper.toggled:
                yield "shape", output, int(shaper.open), int(shaper.toggled)
        if (performer := mixer.performer) is not None and performer.frozen:
            for name, reach in performer.learned().items():
                yield "range", name, reach.still, reach.low, reach.high
        if self.listens_to != (self.live_rig.rig.source.sender or ""):
            yield "source", self.listens_to
        senders = self._pipeline.front.senders()
        if player := next((name for name, plays, *_ in senders if plays and name), ""):
            # If only a host is wanted, any of its ports may follow.
            yield "player", (self.listens_to if is_from(player, self.listens_to) else player)
        yield from self.live_rig.learned_ranges()
        yield from self._plan.boosts()
        if self._mapping is not None:
            yield "mapping", *self._mapping
        if self._preset:
            yield "preset", self._preset
        live = self._pipeline.memory
        if live is not None:
            yield ("memory/learn" if live.memory.learning else "memory/freeze",)
        if self.following is not None:
            # The rig's cues are in the header.
            removed = {cue.name for cue in self.live_rig.rig.cue} - {cue.name for cue in self.cues}
            yield from (("cue/remove", name) for name in sorted(removed))
            yield from (("cue/set", *cue_values([cue])) for cue in self.cues)

    def _advance_to_now(self) -> int:
        """Let the pipeline do what is due until now; returns the time."""
        self.poll()
        self._pipeline.run_until(now_ns := self._pipeline.clock.now_ns())
        return now_ns

    def _record(self, t_ns: int, name: str, arguments: tuple[object, ...]) -> None:
        if self._pipeline.tape is not None:
            self._pipeline.tape.control(t_ns, name, arguments)

    def _replay_mapping(self, path: object, sha256: object) -> None:
        live_mapping = open_mapping(str(path), self._pipeline.backend)
        if live_mapping.mapping.sha256 != sha256:
            raise OptionError(f"{path} is another mapping now")
        self._pipeline.set_mapping(live_mapping)
        self._mapping = str(path), live_mapping.mapping.sha256

    def _step_model(self, backend: StepBackend, path: str | None) -> None:
        self._pipeline.set_model(backend)
        self.live_rig.set_checkpoint(path)

    def _replay_model(self, path: object, sha256: object) -> None:
        file = str(path) or None
        backend = open_backend(self.live_rig.rig.model.backend, file)
        try:
            if _weights(backend) != str(sha256):
                raise OptionError(f"{file or 'the packaged model'} is another model now")
            self._step_model(backend, file)
        except MotionError:
            backend.close()
            raise

    def _set_memory(self, live: LiveMemory, path: Path, table: MemoryRig | None = None) -> None:
        self._pipeline.memory = live
        update = {"enabled": True, "file": str(path), "sha256": None}
        cues = () if live.following is None else live.following.cues
        self.live_rig.set_memory(table or self.live_rig.rig.memory.model_copy(update=update), cues)

    def _replay_memory(self, path: object, sha256: object) -> None:
        self._set_memory(open_memory(str(path), str(sha256)), Path(str(path)))

    def _replay_cue(self, *words: object) -> None:
        if len(words) > len(Cue.model_fields):  # it was set at the performer's place
            self._memory.set_here(*parse_cues(words[:-1]))
        else:
            self._action("cue/set")(*words)

    def _replay_cues(self, *words: object) -> None:
        cues = parse_cues(words)
        if (following := self.following) is None:
            raise OptionError("no take was rehearsed that can be followed")
        self._set_cues(following, cues, following.shared(cues))

    def _set_cues(self, following: Following, cues: Sequence[Cue], shared: Shared) -> None:
        following.set_cues(cues, shared)
        self.live_rig.set_memory(self.live_rig.rig.memory, cues)

    def _replay_shape(self, output: object, is_open: object, toggled: object) -> None:
        """Restore the state of a gate and a toggle at the beginning of the recording."""
        shaper = self._pipeline.mixer.shapers.get(str(output))
        if shaper is None:
            raise OptionError(f"this rig does not shape {output!r}")
        shaper.open, shaper.toggled = bool(is_open), bool(toggled)

    def _replay_range(self, name: object, *ends: object) -> None:
        """Restore a learned range that was frozen at the beginning of the recording."""
        if (performer := self._pipeline.mixer.performer) is None:
            raise OptionError("this rig plays without a performer")
        still, low, high = (float(str(end)) for end in ends)
        performer.set_learned({**performer.learned(), str(name): Reach(still, low, high)})

    def _unload(self) -> str:
        # A mapping that failed left its labels and outputs as they were, and can be unloaded, too.
        if self._pipeline.live_mapping is None and not self._pipeline.mapping_error:
            raise OptionError("unload: no mapping plays")
        self._pipeline.set_mapping(None)
        self._mapping = None
        return "the model plays alone"

    def _play_preset(self, name: object) -> str:
        """Recorded even without a voice, because a render of the recording has one."""
        if str(name) not in _core.PRESETS:
            raise OptionError(f"preset: expected one of {', '.join(_core.PRESETS)}, got {name!r}")
        if self._voice is not None:
            self._voice.preset(str(name))
        self._preset = str(name)
        return self._preset

    def _bypass(self, value: object = 1) -> str:
        self._pipeline.mixer.bypass = switch("bypass", value)
        return "on" if self._pipeline.mixer.bypass else "off"

    def _setting(self, name: str) -> Callable[[object], str]:
        def act(value: object) -> str:
            mixer, value = self._pipeline.mixer, rounded_float(value)
            setattr(mixer, name, value if (name, value) == ("lead_ms", "auto") else number(name, value))
            return f"{mixer.settings[name]:g}" if value != "auto" else "auto"

        return act

    def _set_sound_ms(self, value: object) -> str:
        """Set the latency manually, or ``auto``: that of the rig, then of the voice."""
        is_manual, mixer = value != "auto", self._pipeline.mixer
        mixer.sound_ms = number("sound_ms", rounded_float(value)) if is_manual else self.live_rig.latency_ms
        self._sound_set_manually = is_manual
        return f"{mixer.sound_ms:g}"

    def follow_sound(self, sound_ms: float) -> None:
        """Use the voice's latency, unless a receiver has a longer one, it was set manually or hardly
        changed."""
        change = abs(sound_ms - self._pipeline.mixer.sound_ms)
        if self._sound_set_manually or change < _MIN_CHANGE_MS or sound_ms < self.live_rig.latency_ms:
            return
        with contextlib.suppress(OptionError):
            self.obey("sound_ms", sound_ms)
            self._sound_set_manually = False

    def follow_beat(self) -> None:
        """Use the beat of a sink's session, if there is a new one."""
        if (beat := self.beat.session_beat()) is not None:
            self.obey("tempo", *beat)

    def _source(self, sender: object = "") -> str:
        """Listen only to the sender ``host`` or ``host:port``; without one, to any.

        An address need not have been heard from, because other senders may keep it from being noticed.
        """
        self.check_sender(wanted := str(sender))
        senders = [name for name, *_ in self._pipeline.front.senders()]
        is_heard = not wanted or any(is_from(name, wanted) for name in senders)
        if not is_heard and not is_address(wanted):
            raise OptionError(
                f"source: expected an address, or a sender that was heard ({', '.join(senders) or 'nobody'}),"
                f" got {wanted!r}"
            )
        self._listen_to(wanted)
        return (wanted or "whoever comes") if is_heard else f"{wanted}, not heard yet"

    def _listen_to(self, sender: str = "") -> None:
        self._pipeline.front.listen_to(sender or None)
        self.listens_to = sender


def _weights(backend: StepBackend) -> str:
    """SHA-256 of the backend's weights."""
    return "" if backend.manifest is None else backend.manifest.sha256[WEIGHTS]


def _mode(mixer: Mixer, name: str) -> str:
    mixer.set_mode(name)
    return mixer.mode


def _freeze(mixer: Mixer, value: object = 1) -> str:
    """Freeze or continue; a show that was stopped stays so until it is started."""
    if not switch("freeze", value):
        return _mode(mixer, "playing") if mixer.mode == "frozen" else mixer.mode
    if mixer.mode in ("stopped", "panic"):
        raise OptionError(f"freeze: expected a show that plays, got {mixer.mode}; start it first")
    return _mode(mixer, "frozen")
