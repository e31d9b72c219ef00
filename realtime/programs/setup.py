"""``pyanticip setup``: guided setup. Asks questions, waits for the suit, plays a trial, writes the rig."""

from __future__ import annotations

import importlib.util
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyanticip.errors import DeviceError, MotionError, OptionError, SkeletonError, suggestion
from pyanticip.motion.atomic import check_folder, write_file
from pyanticip.options import host_port
from realtime.control.budget import Bucket, Lines
from realtime.monitor.process import qr_code
from realtime.programs.calibrate import calibrate_live
from realtime.programs.live import live
from realtime.programs.options import SetupOptions
from realtime.rig import Rig
from realtime.rig.load import check_rig_overwrite
from realtime.rig.source import source_table
from realtime.rig.tree import ControlRig
from realtime.seams import SOURCES
from realtime.sinks.midi.config import MidiConfig
from realtime.sinks.midi.sink import check_port
from realtime.sockets import address_of_this_machine, connect_udp
from realtime.sources.arrivals import Arrivals, DetectedSender, playable_kinds, usual_ports, wrong_kind
from realtime.voice.audio import probe

#: Asks a question, given its text, the default answer and the allowed answers (empty: any).
Ask = Callable[[str, str, Sequence[str]], str]
Say = Callable[[str], None]

_UNKNOWN = "unknown"
_APPS = {
    "mocopi": "In the mocopi app choose sending motion data to a PC, format mocopi, and type",
    "vmc": "In the program that sends VMC (VSeeFace, SlimeVR, Warudo, XR Animator ...) type as receiver",
    "xsens": "In MVN's Network Streamer choose Position + Orientation (Quaternion), and type",
    "rokoko": "In Rokoko Studio choose Livestream, Custom, data format JSON v3, and type",
    "axis": "In Axis Studio's settings switch on BVH broadcasting over UDP with displacement, and type",
    "natnet": "In Motive's streaming settings choose NatNet, skeletons, multicast; where it asks for one,",
    "phone": "In ZIG SIM choose OSC or JSON over UDP, switch on the sensor QUATERNION, and type",
    "vrchat": "In the program that sends OSC trackers to VRChat type as receiver",
    "msgpack": "Let your own program send to",
}
# Question about a receiver's address, and the default answer.
_ADDRESS_QUESTIONS = {
    "osc": ("Its address, HOST:PORT", "127.0.0.1:9000"),
    "midi": ("Its port: virtual, or a part of its name", "virtual"),
}
# Descriptions of senders per second, and at most at once.
_DESCRIPTIONS = 0.1, 32
# Seconds of silence after which a hint is printed.
_HINTS_S = (5.0, 20.0, 60.0)
# Digits as five rows of three dots, each row an octal digit.
_DIGITS = {"0": "75557", "1": "26227", "2": "71747", "3": "71717", "4": "55711", "5": "74717"}
_DIGITS |= {"6": "74757", "7": "71111", "8": "75757", "9": "75717", ".": "00002"}


def setup(options: SetupOptions, ask: Ask, say: Say, meters: bool = False) -> dict[str, Any]:
    """Guide the user to a working rig; ``ask`` asks the questions that ``options`` do not answer.

    The rig is written at the end; if this ends early, nothing is written.

    Returns:
        The suit that was found and the rig that was written, as ``--json`` prints them.

    Raises:
        MotionError: no suit that can be played, a receiver that cannot be used, or the rig exists.
    """
    _check_out(options, ask)
    has_receiver = {options.osc, options.midi, options.synth} != {None}
    receivers = _receiver_tables(options.osc, options.midi, options.synth, say) if has_receiver else None
    expected = _expected_source(options.suit, ask, say)
    suit = _wait_for_suit(expected, options.wait, ask, say)
    host = "127.0.0.1" if suit.sender.startswith("127.") else "0.0.0.0"
    tree: dict[str, Any] = {"source": {"kind": suit.kind, "host": host, "port": suit.port}}
    tree |= _ask_receivers(ask, say) if receivers is None else receivers
    calibrate = options.calibrate
    if calibrate is None:
        question = "Get to know the performer? Stand still, then move"
        calibrate = ask(question, "yes", ("yes", "no")) == "yes"
    if calibrate:
        try:
            tree["performer"] = calibrate_live(Rig.model_validate(tree), options.still, options.move, say)
        except SkeletonError as error:
            raise DeviceError(f"{options.out}: not written, for {error}") from None
        except MotionError as error:
            say(f"not calibrated: {error}")
    rig = Rig.model_validate(tree)
    played: dict[str, Any] = {}
    if options.seconds > 0.0:
        say(f"playing for {options.seconds:g} s: move; Ctrl-C ends it")
        # A trial takes no commands, and another show may use the control port.
        trial = rig.model_copy(update={"control": ControlRig(enabled=False)})
        played = live(trial, seconds=options.seconds, say=say, meters=meters)["counters"]
        if played["refused"]:
            raise DeviceError(
                f"{options.out}: not written, for the body of this {suit.kind} cannot be played"
            )
    import tomlkit

    text = "# Made by `pyanticip setup`; `pyanticip rig init` writes one with the others.\n\n"
    text += tomlkit.dumps(tree)
    write_file(options.out, text.encode())
    if calibrate and "performer" not in tree:
        say(f"calibrate later: pyanticip calibrate --rig {shlex.quote(str(options.out))}")
    return {
        "rig": str(options.out),
        "sender": suit.sender,
        "rate": suit.rate,
        "frames": played.get("frames", 0),
        **tree,
        "command": f"pyanticip live --rig {shlex.quote(str(options.out))}",
    }


def _check_out(options: SetupOptions, ask: Ask) -> None:
    """Check that the rig can be written; asks before an existing one is overwritten."""
    check_folder(options.out)
    check_rig_overwrite(options.out)
    if options.out.exists() and not options.force:
        answer = ask(f"{options.out} exists. Overwrite it?", "no", ("yes", "no"))
        if answer != "yes":
            raise OptionError(f"{options.out}: exists; choose another with --out, or --force")


def _expected_source(suit: str | None, ask: Ask, say: Say) -> dict[str, Any]:
    """The ``source`` table of the expected suit; empty: any."""
    if suit is not None:
        try:
            return _suit_table(suit)
        except ValueError as error:
            raise OptionError(f"--suit: {error}") from None
    say("Which suit? " + ", ".join(playable_kinds()) + f"; {_UNKNOWN}: listen for all of them")
    while True:
        answer = ask("Suit", _UNKNOWN, ()).strip()
        try:
            return _suit_table(answer)
        except ValueError as error:
            say(str(error))


def _suit_table(suit: str) -> dict[str, Any]:
    """The ``source`` table of a suit written as for ``live --source``; empty: any. Raises ValueError."""
    if suit == _UNKNOWN:
        return {}
    kind, known = suit.partition("://")[0], (*playable_kinds(), _UNKNOWN)
    if kind not in playable_kinds():
        raise ValueError(f"expected {', '.join(known)}, got {kind!r}{suggestion(kind, known)}")
    return source_table(suit)


def _wait_for_suit(expected: Mapping[str, Any], wait: float, ask: Ask, say: Say) -> DetectedSender:
    """Show the address to send to, and wait up to ``wait`` seconds for a suit that can be played."""
    ports = usual_ports()
    kind = expected.get("kind")
    port = expected.get("port") or (SOURCES.load(kind)().port if kind else None)
    if port is not None:
        ports.setdefault(port, str(kind))
    arrivals = Arrivals(ports, say)
    try:
        for used in arrivals.ports_in_use:
            say(f"port {used} ({ports[used]}) belongs to another program: what is sent there is not received")
        if port in arrivals.ports_in_use:
            raise DeviceError(
                f"port {port} is in use by another program: end it, or let the suit send to another port"
                f" and say so: --suit {kind}://0.0.0.0:PORT"
            )
        _show_address(kind, port, ports, say)
        return _first_playable(arrivals, ports, kind, wait, ask, say)
    finally:
        arrivals.close()


def _show_address(kind: str | None, port: int | None, ports: Mapping[int, str], say: Say) -> None:
    address = address_of_this_machine()
    if address.startswith("127."):
        say("this machine is on no network: only a program on it can be heard")
    say(_APPS.get(kind or "", "In the app or program of your suit type, as where to send to"))
    say("")
    for line in _banner(address):
        say(line)
    say("")
    known = ", ".join(f"{p} for {k}" for p, k in ports.items())
    say(f"address {address}, port {port if port is not None else known}")
    if importlib.util.find_spec("segno") is not None:
        for line in qr_code(address if port is None else f"{address}:{port}"):
            say(line)


def _banner(text: str) -> list[str]:
    """A text of digits and dots as large digits of five lines; any other text unchanged."""
    if set(text) - set(_DIGITS):
        return [text]
    rows = [[f"{int(_DIGITS[c][row]):03b}" for c in text] for row in range(5)]
    return ["  " + " ".join(row).replace("0", " ").replace("1", "█") for row in rows]


def _first_playable(
    arrivals: Arrivals, ports: Mapping[int, str], kind: str | None, wait: float, ask: Ask, say: Say
) -> DetectedSender:
    """The first sender that can be played, of another kind than expected only by consent; describes every
    sender meanwhile."""
    started, reported, hints = time.monotonic(), set[tuple[int, str, str]](), list(_HINTS_S)
    refused: set[tuple[str, str]] = set()
    # What cannot be played may begin with other bytes each time.
    describe_suit, describe_noise = (Lines(say, Bucket(*_DESCRIPTIONS)) for _ in range(2))
    say(f"waiting for it, {wait:g} s at most; Ctrl-C gives up")
    while (waited := time.monotonic() - started) < wait:
        arrivals.listen(0.2)
        for suit in arrivals.senders.values():
            line = _describe(suit, ports, kind)
            if line and (suit.port, suit.sender, line) not in reported:
                reported.add((suit.port, suit.sender, line))
                (describe_suit if suit.kind else describe_noise)(line)
        playable = [suit for suit in arrivals.senders.values() if suit.is_playable]
        for suit in sorted(playable, key=lambda suit: suit.kind != kind):
            if kind in (None, suit.kind) or _is_accepted(suit, kind, refused, ask):
                rate = "at no even rate" if suit.rate is None else f"{suit.rate:.1f} frames a second"
                say(f"{suit.sender} plays: {suit.kind}, {rate}")
                return suit
            # It counts anew, so that it is recognised as soon as it sends what was expected.
            del arrivals.senders[suit.port, suit.sender]
        if hints and waited > hints[0] and not arrivals.senders:
            hints.pop(0)
            say("nothing yet: is the app sending, on the same network, and does a firewall let UDP in?")
    found = "; ".join(_describe(suit, ports, kind) for suit in arrivals.senders.values())
    raise DeviceError(f"nothing that can be played came in {wait:g} s" + (f": {found}" if found else ""))


def _is_accepted(suit: DetectedSender, expected: str | None, refused: set[tuple[str, str]], ask: Ask) -> bool:
    """Ask, once for each sender, whether to play another kind than expected."""
    if (suit.sender, suit.kind) in refused:
        return False
    refused.add((suit.sender, suit.kind))
    question = f"Play {suit.sender}, though it sends {suit.kind} and not {expected}?"
    return ask(question, "yes", ("yes", "no")) == "yes"


def _describe(suit: DetectedSender, ports: Mapping[int, str], expected_kind: str | None) -> str:
    """What a sender sends, with a hint if it is not what was expected."""
    sends = f"{suit.sender} sends"
    if not suit.kind or (not suit.frames and wrong_kind(suit.kind, suit.sample, suit.port)):
        return f"{sends} to port {suit.port} what cannot be played: {suit.describe()}"
    if suit.refusal:
        return f"{sends} {suit.kind}, but its body cannot be played: {suit.refusal}"
    expected = expected_kind or ports[suit.port]
    if suit.kind == expected:
        return f"{sends} {suit.kind} to port {suit.port}"
    return (
        f"{sends} {suit.kind}, not {expected}, to port {suit.port}: it is heard with"
        f" --source {suit.kind}://0.0.0.0:{suit.port}"
    )


def _ask_receivers(ask: Ask, say: Say) -> dict[str, Any]:
    """Ask for the receiver until an answer is valid; the rig's tables for it."""
    audio = probe()
    say("What plays? voice: the built-in one; osc: a program that hears OSC; midi")
    if not audio.usable:
        say(f"(no sound here: {audio.error})")
    choice = "voice" if audio.usable else "osc"
    while True:
        choice = ask("Plays", choice, ("voice", "osc", "midi"))
        answer = ask(*_ADDRESS_QUESTIONS[choice], ()) if choice in _ADDRESS_QUESTIONS else ""
        try:
            osc = host_port(answer) if choice == "osc" else None
            return _receiver_tables(osc, answer if choice == "midi" else None, choice == "voice", say)
        except (MotionError, ValueError) as error:
            say(str(error))


def _receiver_tables(
    osc: tuple[str, int] | None, midi: str | None, synth: bool | None, say: Say
) -> dict[str, Any]:
    """The rig's tables for these receivers; warns if an OSC receiver does not listen yet.

    Raises:
        MotionError: the MIDI port cannot be used, or the host cannot be resolved.
    """
    tree: dict[str, Any] = {"osc": []}
    if osc is not None:
        tree["osc"] = [{"host": osc[0], "port": osc[1]}]
        if _is_refused(*osc):
            say(f"nobody listens at {osc[0]}:{osc[1]} yet: start the synth")
    if midi is not None:
        check_port(MidiConfig(port=midi))
        tree["midi"] = {"port": midi}
    if synth:
        tree["synth"] = {"enabled": True}
    return tree


def _is_refused(host: str, port: int) -> bool:
    """Whether datagrams to a port are refused: reliable for this machine, mostly unknown for others."""
    with connect_udp(host, port, "osc") as sock:
        sock.settimeout(0.1)
        try:
            sock.send(b"/anticip/hello\0\0,\0\0\0")
            sock.recv(1)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
