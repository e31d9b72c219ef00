"""What the performer's hand does to a running pipeline: one place for the remote control and for replays.

Every command takes effect between two frames, is recorded with its time, and does the same when a replay
gives it again.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from pyanticip import _core
from pyanticip.errors import MotionError, OptionError
from pyanticip.memory.cues import Cue
from pyanticip.models.checkpoint.manifest import WEIGHTS
from realtime.control.beat import BeatControl
from realtime.control.calibration import Calibration
from realtime.control.live_rig import LiveRig
from realtime.control.memory import MemoryControl, cues_of, words_of
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
from realtime.sources.shared import MOST_WAIT
from realtime.step.base import StepBackend
from realtime.step.open import open_backend
from realtime.voice.base import Switchable

__all__ = ["Commands", "PlanControl"]

_LARGEST = 1e6
# Smaller changes of the way to the ear are left alone.
_NOTICED_MS = 2.0


class PlanControl:
    """The remote control's ``plan`` command: boosts of codes, kept until they are taken back.

    A boost is added to the code's contrast (the logarithm of how much likelier than usual it is): 1 is a
    nudge, 10 all but puts the code into every plan, -10 all but keeps it out.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._boosted: StepBackend | None = None
        self._boosts: dict[int, float] = {}

    def boost(self, *arguments: object) -> str:
        """``code, boost``: from the next frame on; a boost of 0 takes it back, and no arguments all of them.

        Raises:
            OptionError: a model that makes no plans, no such code, or not a number.
        """
        backend = self._pipeline.backend
        if backend is None or not backend.codes:
            raise OptionError("plan: this model makes no plans that could be steered")
        if len(arguments) not in (0, 2):
            raise OptionError(
                f"plan: expected a code and a boost, or nothing, got {len(arguments)} arguments"
            )
        # Of a model that was loaded since, nothing is boosted yet.
        boosts = dict(self._boosts) if arguments and backend is self._boosted else {}
        if arguments:
            code, boost = number("plan", arguments[0]), number("plan", arguments[1])
            if not code.is_integer() or not 0 <= code < backend.codes:
                raise OptionError(f"plan: codes are 0 to {backend.codes - 1}, got {code:g}")
            if abs(boost) > _LARGEST:
                raise OptionError(f"plan: a boost is from -{_LARGEST:g} to {_LARGEST:g}, got {boost:g}")
            boosts[int(code)] = boost
            boosts = {known: value for known, value in boosts.items() if value}
        vector = np.zeros(backend.codes, np.float32)
        for known, value in boosts.items():
            vector[known] = value
        backend.steer(vector)
        self._boosted, self._boosts = backend, boosts
        return ", ".join(f"{known}: {value:+g}" for known, value in sorted(boosts.items())) or "no boosts"

    def state_as_commands(self, t_ns: int) -> list[Command]:
        """How the model that steps is steered: the first commands of a recording."""
        boosts = self._boosts if self._pipeline.backend is self._boosted else {}
        return [Command(t_ns, "plan", boost) for boost in boosts.items()]


class Commands:
    """The commands that change what is heard, by name.

    ``say`` takes a line for the person at the terminal: what a replay could not do again. ``rig`` is the
    one that plays. ``voice`` plays the preset that is chosen.
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
        self._sounds_by_hand = False
        rig = rig or Rig(osc=())
        #: The one sender that is heard, as it was told; empty: whoever comes.
        self.listens_to = rig.source.sender or ""
        #: The rig as it plays.
        self.live_rig = LiveRig(pipeline, rig)
        self._calibration = Calibration(pipeline, lambda: self.live_rig.file, self.live_rig.calibrated)
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
            "sound_ms": self._sound,
            **self._calibration.actions,
            **self._memory.actions,
            **self.live_rig.actions,
        }
        # What a replay does otherwise than the hand did.
        self._again: dict[str, Callable[..., object]] = {
            "tempo": self.beat.again,
            "resume": lambda *values: mixer.resume([float(str(value)) for value in values]),
            "mapping": self._map_again,
            "memory": self._remember_again,
            "model": self._step_again,
            "rig/merge": self.live_rig.merge_again,
            "shape": self._shape_again,
            "range": self._learned_again,
            "cue/set": self._set_cue_again,
            "cues": self._tell_again,
            # Whoever it was need not have been heard yet.
            "source": lambda sender="": self._listen_to(str(sender)),
            # The rig was written then.
            "calibrate/save": lambda found: self._calibration.play(json.loads(str(found))),
        }
        #: Commands whose end is an argument, by what they begin with.
        self.families: dict[str, Callable[..., str]] = self.live_rig.families

    @property
    def preset(self) -> str:
        """The preset that was chosen while playing; empty: none was."""
        return self._preset

    @property
    def mapping(self) -> str | None:
        """The file of the mapping that was loaded while playing; None: none was, or it was unloaded."""
        return None if self._mapping is None else self._mapping[0]

    @property
    def cues(self) -> tuple[Cue, ...]:
        """Those that are said now; where nothing is followed, the rig's."""
        return self.live_rig.rig.cue if self.following is None else self.following.cues

    @property
    def following(self) -> Following | None:
        """What follows the takes that were rehearsed; None: nothing does."""
        return None if self._pipeline.memory is None else self._pipeline.memory.following

    @property
    def names(self) -> tuple[str, ...]:
        """Those that the remote control offers as they are."""
        return tuple(self._actions)

    def obey(self, name: str, *arguments: object) -> str | Awaitable[str]:
        """Do it now, and record it; returns the reply. Raises MotionError; TypeError: too many arguments."""
        now, sound_ms = self._now(), self._pipeline.mixer.sound_ms
        answer = self._action(name)(*arguments)
        if name == "calibrate/save":
            # A recording may begin in the middle of a calibration.
            arguments = (json.dumps(self._calibration.found),)
        elif name == "cue/set" and not any(arguments[1:2]):
            # As may one while the performer is followed: a replay does not know where they are.
            arguments = (*words_of(self.cues[-1:]), 1)
        elif name == "tempo":
            # The phase is that of the command's own moment.
            arguments = self.beat.leading_beat
        sounds = self._pipeline.mixer.sound_ms
        if name != "sound_ms":
            self._record(now, name, arguments)
        if name == "sound_ms" or sounds != sound_ms:
            # By number: a replay has other receivers, or none.
            self._record(now, "sound_ms", (sounds,))
        return answer

    def _action(self, name: str) -> Action:
        """What a command does. Raises KeyError: there is none of this name."""
        for family, act in self.families.items():
            if name not in self._actions and name.startswith(family):
                return partial(act, name.removeprefix(family))
        return self._actions[name]

    def play_mapping(self, live_mapping: LiveMapping, path: Path) -> str:
        """Play a mapping that was read from ``path`` from the next frame on; what it plays, in a line.

        Raises a CheckpointError where it was taught on a model that steps no more.
        """
        # Another model may have come while it was read.
        check_model(live_mapping.mapping, self._pipeline.backend)
        now = self._now()
        self._pipeline.set_mapping(live_mapping)
        self._mapping = str(path), live_mapping.mapping.sha256
        self._record(now, "mapping", self._mapping)
        plays = [
            *live_mapping.names,
            *(f"gesture/{gesture.name}" for gesture in live_mapping.mapping.gestures),
        ]
        line = f"mapping {live_mapping.mapping.name}: {', '.join(plays)}"
        self._say(line)
        return line

    def set_model(self, backend: StepBackend, path: str | None) -> None:
        """Step a model that was read from ``path`` (None: the packaged one) from the next frame on.

        Raises a CheckpointError where the mapping that plays was taught on another one.
        """
        now = self._now()
        self._step_by(backend, path)
        self._record(now, "model", (path or "", _weights(backend)))

    def play_memory(self, live: LiveMemory, path: Path, table: MemoryRig | None = None) -> str:
        """Mix with a memory that was read from ``path``, and say its cues, from the next frame on; what
        plays, in a line.

        ``table`` is the table of the rig that names it, where one does.
        """
        now = self._now()
        self._remember(live, path, table)
        self._record(now, "memory", (str(path), live.sha256))
        if not live.memory.learning:
            self._record(now, "memory/freeze", ())
        if live.following is not None and live.following.cues:
            self._record(now, "cues", words_of(live.following.cues))
        return f"memory {live.name}"

    def play_cues(self, following: Following, cues: Sequence[Cue], shared: Shared) -> str:
        """Say these cues and no other from the next frame on; ``shared`` is what ``following`` finds of them.

        Raises an OptionError where one is in no take, or another memory plays by now.
        """
        if following is not self.following:
            raise OptionError("cues: another memory plays by now")
        now = self._now()
        self._tell_cues(following, cues, shared)
        self._record(now, "cues", words_of(cues))
        return f"cues {', '.join(cue.name for cue in cues) or 'none'}"

    def replay_command(self, command: Command) -> None:
        """What a replay found in a recording."""
        t_ns, name, arguments = command
        self._pipeline.run_until(t_ns)
        mixer = self._pipeline.mixer
        sound_ms = mixer.sound_ms
        try:
            if name == "hold":
                if not 0 < (count := int(str(*arguments))) < MOST_WAIT:
                    raise OptionError(f"expected 1 to {MOST_WAIT - 1} datagrams, got {count}")
                # It records itself, with what it holds.
                return self._pipeline.hold(count, t_ns, replayed=True)
            if name == "rest":
                self._pipeline.suspend_model(t_ns)
            elif name == "player":
                (player,) = map(str, arguments)
                self._pipeline.begin_with(player, t_ns, lambda: self.listens_to or None)
            else:
                (self._again.get(name) or self._action(name))(*arguments)
        except KeyError:
            self._say(f"{name}: cannot be done again as it was recorded: this version does not know it")
        except (MotionError, OSError, TypeError, ValueError) as error:
            self._say(f"{name}: cannot be done again as it was recorded: {error}")
        else:
            if name != "sound_ms":
                # That is recorded by itself.
                mixer.sound_ms = sound_ms
            self._record(t_ns, name, arguments)

    def state_as_commands(self, t_ns: int) -> list[Command]:
        """What it takes to begin where things stand: the first commands of a recording."""
        mixer = self._pipeline.mixer
        found = [Command(t_ns, name, (value,)) for name, value in mixer.settings.items()]
        if mixer.bypass:
            found.append(Command(t_ns, "bypass", (1,)))
        if self.beat.leading_beat:
            found.append(Command(t_ns, "tempo", self.beat.leading_beat))
        if mixer.mode != "playing":
            found.append(Command(t_ns, {"frozen": "freeze", "stopped": "stop"}.get(mixer.mode, mixer.mode)))
        for output, shaper in mixer.shapers.items():
            if shaper.open or shaper.toggled:
                found.append(Command(t_ns, "shape", (output, int(shaper.open), int(shaper.toggled))))
        if (performer := mixer.performer) is not None and performer.frozen:
            learned = performer.learned().items()
            found += [Command(t_ns, "range", (n, r.still, r.low, r.high)) for n, r in learned]
        if self.listens_to != (self.live_rig.rig.source.sender or ""):
            found.append(Command(t_ns, "source", (self.listens_to,)))
        senders = self._pipeline.front.senders()
        player = next((name for name, plays, *_ in senders if plays and name), "")
        if player:
            # Of a host that is wanted any port may come next.
            wanted = is_from(player, self.listens_to)
            found.append(Command(t_ns, "player", (self.listens_to if wanted else player,)))
        found += self.live_rig.state_as_commands(t_ns) + self._plan.state_as_commands(t_ns)
        if self._mapping is not None:
            found.append(Command(t_ns, "mapping", self._mapping))
        if self._preset:
            found.append(Command(t_ns, "preset", (self._preset,)))
        live = self._pipeline.memory
        if live is not None:
            found.append(Command(t_ns, "memory/learn" if live.memory.learning else "memory/freeze"))
        if self.following is not None:
            # Those of the rig stand in the header.
            gone = {cue.name for cue in self.live_rig.rig.cue} - {cue.name for cue in self.cues}
            found += [Command(t_ns, "cue/remove", (name,)) for name in sorted(gone)]
            found += [Command(t_ns, "cue/set", words_of([cue])) for cue in self.cues]
        return found

    def _now(self) -> int:
        now = self._pipeline.clock.now_ns()
        self._pipeline.run_until(now)
        return now

    def _record(self, t_ns: int, name: str, arguments: tuple[object, ...]) -> None:
        if self._pipeline.tape is not None:
            self._pipeline.tape.control(t_ns, name, arguments)

    def _map_again(self, path: object, sha256: object) -> None:
        live_mapping = open_mapping(str(path), self._pipeline.backend)
        if live_mapping.mapping.sha256 != sha256:
            raise OptionError(f"{path} is another mapping now")
        self._pipeline.set_mapping(live_mapping)
        self._mapping = str(path), live_mapping.mapping.sha256

    def _step_by(self, backend: StepBackend, path: str | None) -> None:
        self._pipeline.set_model(backend)
        self.live_rig.step(path)

    def _step_again(self, path: object, sha256: object) -> None:
        file = str(path) or None
        backend = open_backend(self.live_rig.rig.model.backend, file)
        try:
            if _weights(backend) != str(sha256):
                raise OptionError(f"{file or 'the packaged model'} is another model now")
            self._step_by(backend, file)
        except MotionError:
            backend.close()
            raise

    def _remember(self, live: LiveMemory, path: Path, table: MemoryRig | None = None) -> None:
        self._pipeline.memory = live
        known = {"enabled": True, "file": str(path), "sha256": None}
        cues = () if live.following is None else live.following.cues
        self.live_rig.remember(table or self.live_rig.rig.memory.model_copy(update=known), cues)

    def _remember_again(self, path: object, sha256: object) -> None:
        self._remember(open_memory(str(path), str(sha256)), Path(str(path)))

    def _set_cue_again(self, *words: object) -> None:
        if len(words) > len(Cue.model_fields):  # it was set where the performer was
            self._memory.set_here(*cues_of(words[:-1]))
        else:
            self._action("cue/set")(*words)

    def _tell_again(self, *words: object) -> None:
        cues = cues_of(words)
        if (following := self.following) is None:
            raise OptionError("no take was rehearsed that can be followed")
        self._tell_cues(following, cues, following.shared(cues))

    def _tell_cues(self, following: Following, cues: Sequence[Cue], shared: Shared) -> None:
        following.say(cues, shared)
        self.live_rig.remember(self.live_rig.rig.memory, cues)

    def _shape_again(self, output: object, is_open: object, toggled: object) -> None:
        """Where a gate and a toggle stood when the recording began."""
        shaper = self._pipeline.mixer.shapers.get(str(output))
        if shaper is None:
            raise OptionError(f"this rig does not shape {output!r}")
        shaper.open, shaper.toggled = bool(is_open), bool(toggled)

    def _learned_again(self, name: object, *ends: object) -> None:
        """In which range a performer played of whom nothing more was learned when the recording began."""
        if (performer := self._pipeline.mixer.performer) is None:
            raise OptionError("this rig plays without a performer")
        still, low, high = (float(str(end)) for end in ends)
        performer.stay({**performer.learned(), str(name): Reach(still, low, high)})

    def _unload(self) -> str:
        # One that has failed left its labels and outputs where they were.
        if self._pipeline.live_mapping is None and not self._pipeline.mapping_error:
            raise OptionError("unload: no mapping plays")
        self._pipeline.set_mapping(None)
        self._mapping = None
        return "the model plays alone"

    def _play_preset(self, name: object) -> str:
        """Without a voice here it is still recorded: a render of the recording has one."""
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

    def _sound(self, value: object) -> str:
        """Told so it stays; auto: what the rig says, or the voice from then on."""
        by_hand, mixer = value != "auto", self._pipeline.mixer
        mixer.sound_ms = number("sound_ms", rounded_float(value)) if by_hand else self.live_rig.latency_ms
        self._sounds_by_hand = by_hand
        return f"{mixer.sound_ms:g}"

    def follow_sound(self, sound_ms: float) -> None:
        """Read parameters as far ahead as the voice says it takes; not where a receiver takes longer, or
        where it was set by hand."""
        change = abs(sound_ms - self._pipeline.mixer.sound_ms)
        if self._sounds_by_hand or change < _NOTICED_MS or sound_ms < self.live_rig.latency_ms:
            return
        with contextlib.suppress(OptionError):
            self.obey("sound_ms", sound_ms)
            self._sounds_by_hand = False

    def follow_beat(self) -> None:
        """Go by the beat of a sink's session, where one leads."""
        if (beat := self.beat.session_beat()) is not None:
            self.obey("tempo", *beat)

    def _source(self, sender: object = "") -> str:
        """``host`` or ``host:port``: only that sender is heard; nothing: whoever comes.

        An address may be one that nobody was heard from, for others can keep it from being heard of.
        """
        who = str(sender)
        senders = [name for name, *_ in self._pipeline.front.senders()]
        heard = not who or any(is_from(name, who) for name in senders)
        if not heard and not is_address(who):
            raise OptionError(
                f"source: expected an address, or a sender that was heard ({', '.join(senders) or 'nobody'}),"
                f" got {who!r}"
            )
        self._listen_to(who)
        return (who or "whoever comes") if heard else f"{who}, not heard yet"

    def _listen_to(self, sender: str = "") -> None:
        self._pipeline.front.listen_to(sender or None)
        self.listens_to = sender


def _weights(backend: StepBackend) -> str:
    """SHA-256 of the weights that step."""
    return "" if backend.manifest is None else backend.manifest.sha256[WEIGHTS]


def _mode(mixer: Mixer, name: str) -> str:
    mixer.set_mode(name)
    return mixer.mode


def _freeze(mixer: Mixer, value: object = 1) -> str:
    """Stand still or go on; a show that is silent by hand stays so until it is started."""
    if not switch("freeze", value):
        return _mode(mixer, "playing") if mixer.mode == "frozen" else mixer.mode
    if mixer.mode in ("stopped", "panic"):
        raise OptionError(f"freeze: expected a show that plays, got {mixer.mode}; start it first")
    return _mode(mixer, "frozen")
