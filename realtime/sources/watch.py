"""Is the suit there, and whose is it? Lines for the person at the terminal, when that changes."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pyanticip._core import LiveFront
from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.clip import forward_kinematics
from realtime.sockets import host_and_port, host_of, is_from, known_as
from realtime.sources.arrivals import osc_address, recognise, wrong_kind
from realtime.sources.osc import PRESETS

__all__ = ["SourceWatch", "listening", "why_refused", "why_silent"]

_PATIENCE_S = 3.0
# One reason is given again after so long.
_AGAIN_S = 30.0
# What differs between two lines of one reason.
_PASSING = re.compile(r"\d+|\(the last: .*")
# Kinds whose skeleton comes in a message of its own.
_TELL = ("mocopi", "msgpack")
_BAD = ("truncated", "malformed", "alien")
# What datagrams of the others lack that are no frame.
_LACKS = {
    "vmc": "no bones (/VMC/Ext/Bone/Pos) are in them; switch on the sending of the body in its program",
    "vrchat": "no rotation of a tracker (/tracking/trackers/1/rotation) is in them",
    "phone": "no quaternion of ZIG SIM (at /NAME/quaternion, or in JSON) is in them; switch on QUATERNION in"
    ' the app, or map what it sends (order = "wxyz" where w is first): [source.addresses] and --source osc',
    "wek": "no quaternion (the first four numbers of /wek/inputs, of length 0.5 to 2) is in them; map what"
    " it sends: [source.addresses] and --source osc",
    "osc": "no rotation (four numbers of length 0.5 to 2, or three angles) at an address of"
    " [source.addresses] is in them",
    "natnet": "no skeleton is tracked in them and no rigid body named after a part of a body (Hips, Head,"
    " LeftHand ...), or Motive has not told its names yet; loose markers are not played",
    **dict.fromkeys(_TELL, "the suit has not sent its skeleton yet"),
}
# What an address is not enough for.
_SENDS = {"natnet": "in Motive choose Multicast, or Unicast with `from` under [source]"}
# What makes a body that stands lie or stand on its head, which its datagrams do not tell.
_STANDS = {
    "natnet": "in Motive set Up Axis to Y",
    "vmc": "its model has to be a normalised VRM, all rotations zero in its T-pose",
    **dict.fromkeys(_TELL, "say which axis is up: --up AXIS"),
}
# A head less than this share of its height at rest above the feet.
_LOW = 0.5
# The rate is told once it has been measured for so long; so many other senders are told of.
_MEASURED_S = 1.0
_MOST_OTHERS = 16
# So many ports of one host that do not play are told of one by one.
_MOST_PORTS = 3


class SourceWatch:
    """Told once a second what the front end has counted, says what a performer should know.

    Nothing has come, or nothing that is a frame; frames come; they have stopped; they come again. ``trouble``
    tells why a decoder makes nothing of them, ``newest`` what came last, ``wanted`` who alone is heard
    (empty: whoever comes).
    """

    def __init__(
        self,
        kind: str,
        address: tuple[str, int],
        now: float,
        trouble: Callable[[], str] = str,
        newest: Callable[[], bytes] = bytes,
        wanted: Callable[[], str] = str,
    ) -> None:
        self._trouble = trouble
        self._newest = newest
        self._wanted = wanted
        self._kind = kind
        self._address = address
        # Frames so far, and when the last one came; since when datagrams that are none come, or nothing does.
        self._frames = 0
        self._last = self._since = self._looked = now
        self._come = False
        # What was counted at the last frame, or when last asked why there is none, and what had come by then;
        # the reason that was told last, and when each was.
        self._counted: dict[str, int] = {}
        self._seen = newest()
        self._reason = ""
        self._reported_at: dict[str, float] = {}
        self._measure = 0.0
        self._player = ""
        self._others: set[str] = set()
        self._sent: dict[str, int] = {}
        self._refusal = self._left_out = ""

    def watch(self, now: float, front: LiveFront) -> list[str]:
        """Everything that a performer should know since the last look; ``now`` in seconds."""
        news = []
        senders = front.senders()
        found = self.look(now, front.counters(), [name for name, *_ in senders])
        if found:
            news.append(found)
            self._measure = now + _MEASURED_S if found.startswith("receiving ") else 0.0
        rate, jitter_ms, _ = front.timing
        if self._measure and now >= self._measure and rate is not None:
            self._measure = 0.0
            news.append(f"{rate:.1f} frames a second, jitter {jitter_ms:.1f} ms")
            newest = front.imagine()
            if newest is not None and _is_low(newest.poses[-1]):
                hint = _STANDS.get(self._kind, "y has to be up in its program")
                news.append(
                    f"this {self._kind} lies, sits on the floor or stands on its head; if the performer does"
                    f" not: {hint}"
                )
        player = next((name for name, plays, *_ in senders if plays and name), "")
        if player and player != self._player:
            news.append(f"{player} plays" + (f", not {self._player} any more" if self._player else ""))
            self._player = player
            self._others.discard(player)
        if player:
            # Not who has gone, as the one that played before.
            more = [name for name, plays, sent, _ in senders if not plays and sent > self._sent.get(name, 0)]
            news += self._ignored(player, more)
        self._sent = {name: sent for name, _, sent, _ in senders}
        refusal = why_refused(self._kind, front.refusal or self._trouble())
        if refusal and refusal != self._refusal:
            news.append(refusal)
        self._refusal = refusal
        left_out = front.left_out or ""
        if left_out and left_out != self._left_out:
            part = "not all" if self._frames else "nothing"
            news.append(f"{part} of this {self._kind} is played: {left_out}")
        self._left_out = left_out
        return news

    def _ignored(self, player: str, others: Sequence[str]) -> list[str]:
        """A line for each that is new of those who do not play; of many ports of one host, one for all."""
        new = [name for name in others if not self._others & {name, host_of(name)}]
        ports = Counter(map(host_of, (*self._others, *new)))
        lines = {}
        for name in new:
            host = host_of(name)
            if many := ports[host] > _MOST_PORTS:
                who, whole = host, f"{ports[host]} ports of {host}"
            else:
                who, whole = name, name
            hint = "hears them as one suit (so does source.from)" if many else "hands over"
            lines[who] = (
                f"ignoring {self._kind} from {whole} while {player} plays;"
                f" /anticip/control/source {who} {hint}"
            )
        room = max(_MOST_OTHERS - len(self._others), 0)
        self._others.update(lines)
        return list(lines.values())[:room]

    def look(self, now: float, counters: Mapping[str, int], senders: Sequence[str] = ()) -> str | None:
        """A line about what has changed: ``now`` in seconds, ``counters`` of a ``LiveFront`` and the names of
        the ``senders`` that it has heard."""
        frames = counters.get("frames", 0)
        if frames > self._frames:
            again = " again" if self._frames else ""
            news = f"receiving {self._kind}{again}" if self._reason or not again else None
            self._frames, self._last, self._reason, self._reported_at = frames, now, "", {}
            self._from_here(now, counters)
            return news
        came = Counter(counters)
        came.subtract(self._counted)
        # Every datagram is an object of its own, whatever is in it.
        newest = self._newest()
        if newest is self._seen:
            newest = b""
        if (come := bool(newest or came["packets"])) != self._come:
            self._come, self._since = come, self._looked
        self._looked = now
        if now - self._since < _PATIENCE_S:
            return None
        self._from_here(now, counters)
        if came["refused"]:
            # Of a body that cannot be played another line tells.
            return None
        line = self._why_silent(now - self._last, came, newest, senders)
        reason = _PASSING.sub("", line)
        # A show that has played is told once, and again when the reason is another.
        lately = now - self._reported_at.get(reason, -math.inf) < _AGAIN_S
        if lately or (self._frames and reason == self._reason):
            return None
        self._reason = reason
        self._reported_at[reason] = now
        return line

    def _from_here(self, now: float, counters: Mapping[str, int]) -> None:
        """What comes is counted from here on."""
        self._since = self._looked = now
        self._counted, self._seen, self._come = dict(counters), self._newest(), False

    def _why_silent(self, seconds: float, came: Counter[str], newest: bytes, senders: Sequence[str]) -> str:
        wanted, packets = self._wanted(), came["packets"]
        if wanted and packets and senders and not any(is_from(name, wanted) for name in senders):
            return (
                f"{packets} datagrams of {self._kind} come from {senders[0]}, and only {wanted} is heard"
                f" (source.from); /anticip/control/source {senders[0]} hands over"
            )
        if self._frames and wanted and packets == came["ignored"]:
            # Of others, whom nobody asked for.
            packets, newest = 0, b""
        if came["doubled"] > sum(came[name] for name in _BAD):
            return (
                f"{came['doubled']} datagrams repeat the last frame; is its playback halted?"
                " waiting for the next"
            )
        if came["strange"] > sum(came[name] for name in _BAD):
            return (
                f"{came['strange']} datagrams of {self._kind} are no frame: their numbers or times do not go"
                " on from the last frame, nor from one another"
            )
        if self._frames and not (newest or packets):
            return f"nothing from the suit for {seconds:.0f} s; waiting for it"
        return why_silent(self._kind, self._address, seconds, came, newest)


def _is_low(pose: npt.NDArray[np.float32]) -> bool:
    """Whether a canonical pose (22, 4) lies, sits on the floor or stands on its head."""
    body = canonical_skeleton()
    poses = np.stack((pose, np.tile([1.0, 0.0, 0.0, 0.0], (len(pose), 1))))
    places = forward_kinematics(body, poses, np.zeros((2, 3)))[1]
    heights = places[:, [body.names.index(name) for name in ("head", "left_foot", "right_foot")], 1]
    now, at_rest = heights[:, 0] - heights[:, 1:].mean(axis=1)
    return bool(now < _LOW * at_rest)


def listening(kind: str, address: tuple[str, int]) -> str:
    """That a socket listens at an address, and what the suit has to be told."""
    host, port = known_as(address[0]), address[1]
    if kind in _SENDS:
        return f"listening for {kind} at {host_and_port(host, port)}: {_SENDS[kind]}"
    if host == address[0]:
        return f"listening for {kind} at {host_and_port(host, port)}"
    return f"listening for {kind}: type into its app {host}, port {port}"


def why_refused(kind: str, refusal: str | None) -> str:
    """The line about a body that cannot be played; empty where there is no ``refusal``."""
    return f"the body of this {kind} cannot be played: {refusal}" if refusal else ""


def why_silent(
    kind: str, address: tuple[str, int], seconds: float, counters: Mapping[str, int], newest: bytes = b""
) -> str:
    """Why there is no frame yet, as far as it can be told; ``newest`` is the last datagram that came."""
    where = host_and_port(known_as(address[0]), address[1])
    packets = counters.get("packets", 0)
    bad = sum(counters.get(name, 0) for name in _BAD)
    came = f"{packets or 'some'} datagrams of {kind} came to {where}, no frame: "
    looks = recognise(newest)
    # What such kinds play is a matter of addresses.
    mapped = kind in PRESETS and looks in PRESETS and "osc" in (kind, looks)
    told = "" if mapped or not newest else wrong_kind(kind, newest, address[1])
    # Such a frame decodes and is counted as malformed: its joints are not the body's.
    if kind in _TELL and looks == kind and not told and counters.get("malformed", 0):
        hint = " (is quats binary32, not float64?)" if kind == "msgpack" else ""
        return came + f"their joints are not those of the skeleton{hint}, or it has not come yet"
    if told or (packets and bad >= packets):
        told = told or "what does the sender speak?"
        return f"{packets or 'some'} datagrams came to {where}, none of them a usable {kind}: {told}"
    if newest and kind in PRESETS:
        such = f" (the last: {name})" if (name := osc_address(newest)) else ""
        return came + _LACKS[kind] + such
    if newest or packets:
        return came + _LACKS.get(kind, "no whole body is in them yet")
    text = f"no frame of {kind} came to {where} in {seconds:.0f} s"
    if kind in _SENDS:
        text += f"; {_SENDS[kind]}"
    if address[0].startswith("127.") or address[0] == "::1":
        text += f"; a suit on the network needs --source {kind}://0.0.0.0:{address[1]}"
    return text
