"""Messages for the terminal about the suit: whether it sends, who sends, and why nothing can be played."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pyanticip._core import LiveFront
from pyanticip.errors import counted
from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.clip import forward_kinematics
from realtime.sockets import host_and_port, host_of, is_from, reachable_host
from realtime.sources.arrivals import osc_address, recognise, wrong_kind
from realtime.sources.osc import PRESETS

# Time without a frame before the reason is reported.
_PATIENCE_S = 3.0
# Minimum time between two reports of the same reason.
_REPEAT_S = 30.0
# The parts in which two messages of the same reason may differ.
_VARIABLE_PARTS = re.compile(r"\d+( datagrams?)?|\(the last: .*")
# Kinds that send their skeleton in a message of its own.
_SEND_SKELETON = ("mocopi", "msgpack")
_UNDECODABLE = ("truncated", "malformed", "alien")
# What is missing from datagrams that contain no frame, by kind.
_MISSING = {
    "vmc": "no bones (/VMC/Ext/Bone/Pos) are in them; switch on the sending of the body in its program",
    "vrchat": "no rotation of a tracker (/tracking/trackers/1/rotation) is in them",
    "phone": "no quaternion of ZIG SIM (at /NAME/quaternion, or in JSON) is in them; switch on QUATERNION in"
    ' the app, or map what it sends (order = "wxyz" where w is first): [source.addresses] and --source osc',
    "wek": "no quaternion (the first four numbers of /wek/inputs, of length 0.5 to 2) is in them; map what"
    " it sends: [source.addresses] and --source osc",
    "osc": "no rotation (four numbers of length 0.5 to 2, or three angles) at an address of"
    " [source.addresses] is in them",
    "natnet": "no skeleton is tracked in them and no rigid body named after a part of a body (Hips, Head,"
    " LeftHand ...), or Motive has not sent its names yet; loose markers are not played",
    **dict.fromkeys(_SEND_SKELETON, "the suit has not sent its skeleton yet"),
}
# Kinds that need more than the address of this machine.
_SETUP_HINTS = {"natnet": "in Motive choose Multicast, or Unicast with `from` under [source]"}
# How to fix the up axis, which the datagrams do not contain, by kind.
_UP_HINTS = {
    "natnet": "in Motive set Up Axis to Y",
    "vmc": "its model has to be a normalised VRM, all rotations zero in its T-pose",
    **dict.fromkeys(_SEND_SKELETON, "say which axis is up: --up AXIS"),
}
# A body counts as low if its head is less than this share of its rest height above the feet.
_LOW_SHARE = 0.5
# The rate is reported after it was measured for this long.
_MEASURE_S = 1.0
# Most ignored senders that are reported.
_MAX_IGNORED = 16
# Up to this many ignored ports of one host are reported one by one.
_MAX_PORTS = 3


class SourceWatch:
    """Turns the front end's counters, read once a second, into messages for the performer.

    It reports that nothing comes, or nothing that is a frame; that frames come, stop, and come again.
    ``trouble`` returns a decoder's last error, ``newest`` the last datagram, ``allowed_sender`` the only
    sender that is heard (empty: any).
    """

    def __init__(
        self,
        kind: str,
        address: tuple[str, int],
        now: float,
        trouble: Callable[[], str] = str,
        newest: Callable[[], bytes] = bytes,
        allowed_sender: Callable[[], str] = str,
    ) -> None:
        self._trouble = trouble
        self._newest = newest
        self._allowed_sender = allowed_sender
        self._kind = kind
        self._address = address
        self._frames = 0
        self._last_frame_at = self._checked_at = now
        # Whether datagrams come that are no frames, and since when that has been so.
        self._has_datagrams = False
        self._unchanged_since = now
        # Counters and newest datagram at the last frame or reported reason.
        self._counted: dict[str, int] = {}
        self._counted_newest = newest()
        self._reason = ""
        self._reported_at: dict[str, float] = {}
        # When to report the rate; 0: not due.
        self._report_rate_at = 0.0
        self._player = ""
        # Ignored senders, and hosts with many of them, that were reported.
        self._ignored: set[str] = set()
        # Datagrams of each sender at the last check.
        self._datagrams: dict[str, int] = {}
        self._refusal = self._unplayed_reason = ""

    def watch(self, now: float, front: LiveFront) -> list[str]:
        """Messages about everything that changed since the last call; ``now`` in seconds."""
        news = []
        senders = front.senders()
        line = self.look(now, front.counters(), [name for name, *_ in senders])
        if line:
            news.append(line)
            self._report_rate_at = now + _MEASURE_S if line.startswith("receiving ") else 0.0
        rate, jitter_ms, _ = front.timing
        if self._report_rate_at and now >= self._report_rate_at and rate is not None:
            self._report_rate_at = 0.0
            news.append(f"{rate:.1f} frames a second, jitter {jitter_ms:.1f} ms")
            newest = front.imagine()
            if newest is not None and _is_low(newest.poses[-1]):
                hint = _UP_HINTS.get(self._kind, "y has to be up in its program")
                news.append(
                    f"this {self._kind} lies, sits on the floor or stands on its head; if the performer does"
                    f" not: {hint}"
                )
        player = next((name for name, plays, *_ in senders if plays and name), "")
        if player and player != self._player:
            news.append(f"{player} plays" + (f", not {self._player} any more" if self._player else ""))
            self._player = player
            self._ignored.discard(player)
        if player:
            # Only senders that still send, which a previous player may not.
            others = [
                name
                for name, plays, count, _ in senders
                if not plays and count > self._datagrams.get(name, 0)
            ]
            news += self._report_ignored(player, others)
        self._datagrams = {name: count for name, _, count, _ in senders}
        refusal = why_refused(self._kind, front.refusal or self._trouble())
        if refusal and refusal != self._refusal:
            news.append(refusal)
        self._refusal = refusal
        unplayed_reason = front.unplayed_reason or ""
        if unplayed_reason and unplayed_reason != self._unplayed_reason:
            part = "not all" if self._frames else "nothing"
            news.append(f"{part} of this {self._kind} is played: {unplayed_reason}")
        self._unplayed_reason = unplayed_reason
        return news

    def _report_ignored(self, player: str, others: Sequence[str]) -> list[str]:
        """A message for each new sender that does not play; one for all ports of a host with many."""
        new = [name for name in others if not self._ignored & {name, host_of(name)}]
        ports = Counter(map(host_of, (*self._ignored, *new)))
        lines = {}
        for name in new:
            host = host_of(name)
            if has_many := ports[host] > _MAX_PORTS:
                sender, description = host, f"{ports[host]} ports of {host}"
            else:
                sender, description = name, name
            hint = "hears them as one suit (so does source.from)" if has_many else "hands over"
            lines[sender] = (
                f"ignoring {self._kind} from {description} while {player} plays;"
                f" /anticip/control/source {sender} {hint}"
            )
        room = max(_MAX_IGNORED - len(self._ignored), 0)
        self._ignored.update(lines)
        return list(lines.values())[:room]

    def look(self, now: float, counters: Mapping[str, int], senders: Sequence[str] = ()) -> str | None:
        """A message if frames begin, or stop, or never come; else None.

        ``now`` in seconds; ``counters`` and the names of the ``senders`` are those of a ``LiveFront``.
        """
        frames = counters.get("frames", 0)
        if frames > self._frames:
            again = " again" if self._frames else ""
            line = f"receiving {self._kind}{again}" if self._reason or not again else None
            self._frames, self._last_frame_at, self._reason, self._reported_at = frames, now, "", {}
            self._reset_counts(now, counters)
            return line
        new_counts = Counter(counters)
        new_counts.subtract(self._counted)
        # Identity, not equality: each datagram is a new object, even with the same bytes.
        newest = self._newest()
        if newest is self._counted_newest:
            newest = b""
        if (has_datagrams := bool(newest or new_counts["packets"])) != self._has_datagrams:
            self._has_datagrams, self._unchanged_since = has_datagrams, self._checked_at
        self._checked_at = now
        if now - self._unchanged_since < _PATIENCE_S:
            return None
        self._reset_counts(now, counters)
        if new_counts["refused"]:
            # `watch` reports a body that cannot be played.
            return None
        line = self._why_silent(now - self._last_frame_at, new_counts, newest, senders)
        reason = _VARIABLE_PARTS.sub("", line)
        # Once frames have come, a reason is reported only when it is a new one.
        is_recent = now - self._reported_at.get(reason, -math.inf) < _REPEAT_S
        if is_recent or (self._frames and reason == self._reason):
            return None
        self._reason = reason
        self._reported_at[reason] = now
        return line

    def _reset_counts(self, now: float, counters: Mapping[str, int]) -> None:
        """Count datagrams from now on."""
        self._unchanged_since = self._checked_at = now
        self._counted, self._counted_newest, self._has_datagrams = dict(counters), self._newest(), False

    def _why_silent(
        self, seconds: float, new_counts: Counter[str], newest: bytes, senders: Sequence[str]
    ) -> str:
        allowed, packets = self._allowed_sender(), new_counts["packets"]
        if allowed and packets and senders and not any(is_from(name, allowed) for name in senders):
            return (
                f"{packets} datagrams of {self._kind} come from {senders[0]}, and only {allowed} is heard"
                f" (source.from); /anticip/control/source {senders[0]} hands over"
            )
        if self._frames and allowed and packets == new_counts["ignored"]:
            # All of them are from senders that are not allowed.
            packets, newest = 0, b""
        undecodable = sum(new_counts[name] for name in _UNDECODABLE)
        if new_counts["doubled"] > undecodable:
            return (
                f"{new_counts['doubled']} datagrams repeat the last frame; is its playback halted?"
                " waiting for the next"
            )
        if new_counts["strange"] > undecodable:
            return (
                f"{new_counts['strange']} datagrams of {self._kind} are no frame: their numbers or times"
                " do not go on from the last frame, nor from one another"
            )
        if self._frames and not (newest or packets):
            return f"nothing from the suit for {seconds:.0f} s; waiting for it"
        return why_silent(self._kind, self._address, seconds, new_counts, newest)


def _is_low(pose: npt.NDArray[np.float32]) -> bool:
    """Whether a canonical pose (22, 4) lies, sits on the floor or stands on its head."""
    body = canonical_skeleton()
    poses = np.stack((pose, np.tile([1.0, 0.0, 0.0, 0.0], (len(pose), 1))))
    positions = forward_kinematics(body, poses, np.zeros((2, 3)))[1]
    heights = positions[:, [body.names.index(name) for name in ("head", "left_foot", "right_foot")], 1]
    height, rest_height = heights[:, 0] - heights[:, 1:].mean(axis=1)
    return bool(height < _LOW_SHARE * rest_height)


def listening(kind: str, address: tuple[str, int]) -> str:
    """The message that a socket listens at an address, with what to enter in the suit's app."""
    host, port = reachable_host(address[0]), address[1]
    if kind in _SETUP_HINTS:
        return f"listening for {kind} at {host_and_port(host, port)}: {_SETUP_HINTS[kind]}"
    if host == address[0]:
        return f"listening for {kind} at {host_and_port(host, port)}"
    return f"listening for {kind}: type into its app {host}, port {port}"


def why_refused(kind: str, refusal: str | None) -> str:
    """The message about a body that cannot be played; empty if there is no ``refusal``."""
    return f"the body of this {kind} cannot be played: {refusal}" if refusal else ""


def why_silent(
    kind: str, address: tuple[str, int], seconds: float, counters: Mapping[str, int], newest: bytes = b""
) -> str:
    """Why there is no frame yet, as far as it is known.

    ``counters`` are those of a ``LiveFront``, ``newest`` is the last datagram that came.
    """
    target = host_and_port(reachable_host(address[0]), address[1])
    packets = counters.get("packets", 0)
    undecodable = sum(counters.get(name, 0) for name in _UNDECODABLE)
    arrived = counted(packets, "datagram") if packets else "some datagrams"
    no_frame = f"{arrived} of {kind} came to {target}, no frame: "
    recognised = recognise(newest)
    # Kinds that map addresses differ only in their mapping.
    is_mapped = kind in PRESETS and recognised in PRESETS and "osc" in (kind, recognised)
    wrong = "" if is_mapped or not newest else wrong_kind(kind, newest, address[1])
    # Such frames decode, but count as malformed because their joints are not the skeleton's.
    if kind in _SEND_SKELETON and recognised == kind and not wrong and counters.get("malformed", 0):
        hint = " (is quats binary32, not float64?)" if kind == "msgpack" else ""
        return no_frame + f"their joints are not those of the skeleton{hint}, or it has not come yet"
    if wrong or (packets and undecodable >= packets):
        wrong = wrong or "what does the sender speak?"
        return f"{arrived} came to {target}, none of them a usable {kind}: {wrong}"
    if newest and kind in PRESETS:
        example = f" (the last: {name})" if (name := osc_address(newest)) else ""
        return no_frame + _MISSING[kind] + example
    if newest or packets:
        return no_frame + _MISSING.get(kind, "no whole body is in them yet")
    text = f"no frame of {kind} came to {target} in {seconds:.0f} s"
    if kind in _SETUP_HINTS:
        text += f"; {_SETUP_HINTS[kind]}"
    if address[0].startswith("127.") or address[0] == "::1":
        text += f"; a suit on the network needs --source {kind}://0.0.0.0:{address[1]}"
    return text
