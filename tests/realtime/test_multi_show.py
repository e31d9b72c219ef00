"""Several performers in one process: independent of each other, and commanded by name."""

import asyncio
import contextlib
import json
import re
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from click.testing import CliRunner
from support.playing import captured_bundles
from support.wire import DatagramReceiver, command, messages, paced, run_here, start, wait_for

from pyanticip import _core
from pyanticip.cli import cli
from pyanticip.errors import DeviceError, OptionError, RigError
from pyanticip.memory import load_memory, save_memory
from pyanticip.memory import rehearse as remember
from realtime import multi_show as show_module
from realtime.bench.performer import mocopi_datagrams, sway
from realtime.clock import MonotonicClock, OfflineClock
from realtime.control.server import commands_of_all
from realtime.loop import run_loop
from realtime.multi_show import open_multi_show
from realtime.programs.live import live
from realtime.rig import Rig, load_rig, parse_rig
from realtime.rig.load import rig_for_performer
from realtime.sinks.base import ControlFrame
from realtime.sinks.midi.translator import Translator
from realtime.sockets import bind_udp, free_port
from realtime.sources.replay import Datagram, play_offline
from realtime.sources.shared import SharedSource, Turns
from realtime.sources.udp import UdpSource
from realtime.stage import assemble

TWO = [{"name": "alice", "from": "10.0.0.1"}, {"name": "bob", "from": "10.0.0.2:5000"}]


def rig(**more: Any) -> Rig:
    return parse_rig({"performer": TWO, "control": {"enabled": False}, **more}, "test")


def suit(frames: int, seed: int, rate: float = 50.0) -> list[tuple[int, bytes]]:
    """Datagrams of a mocopi suit, with their arrival times."""
    skeleton, _ = mocopi_datagrams(1)
    quats, rest = sway(frames, 27, rate, seed), np.zeros((27, 3), np.float32)
    rest[0] = (0.1, 0.95, 0.2)
    jitter = np.random.default_rng(seed).integers(0, 4_000_000, frames)
    made = [_core.encode_mocopi_frame(n, quats[n], rest, stream_time=n / rate) for n in range(frames)]
    return [(0, skeleton), *((round(n * 1e9 / rate) + int(jitter[n]), made[n]) for n in range(frames))]


def merge(**senders: list[tuple[int, bytes]]) -> list[Datagram]:
    items = [Datagram(t, data, name) for name, those in senders.items() for t, data in those]
    return sorted(items, key=lambda item: item.t_ns)


ALICE, BOB, STRANGER = "10.0.0.1:7000", "10.0.0.2:5000", "10.0.0.9:1"


def test_each_performer_s_output_equals_that_of_a_show_alone() -> None:
    """Two suits and an unknown sender at one socket; one suit is silent for a while and ends early."""
    alice, bob, stranger = suit(240, 1), suit(300, 2, 60.0), suit(150, 3)
    bob = [(t, data) for t, data in bob if not 1_000_000_000 < t < 2_000_000_000 and t < 3_500_000_000]
    items = merge(**{ALICE: alice, BOB: bob, STRANGER: stranger})
    many, end = rig(), 5_000_000_000
    clock = OfflineClock()
    source = UdpSource("mocopi", "127.0.0.1", 0)
    turns = Turns()
    shared = SharedSource(source, turns)
    pipelines, sent = {}, {}
    for one in many.performers:
        pipelines[one.name] = assemble(rig_for_performer(many, one.name), clock)
        sent[one.name] = captured_bundles(pipelines[one.name])
        performer_source = shared.add_performer(one.sender)
        performer_source.receive = pipelines[one.name].feed

    def route(*datagram: Any) -> None:
        shared.route(*datagram)
        while turns.run_next():
            pass

    play_offline(items, clock, route)
    source.close()
    for name, own in (("alice", ALICE), ("bob", BOB)):
        pipelines[name].run_until(end)
        alone = OfflineClock()
        sender = own if name == "bob" else "10.0.0.1"
        tree = {"source": {"from": sender}, "osc": [{"prefix": f"/anticip/{name}"}]}
        single = assemble(parse_rig(tree, "test"), alone)
        expected = captured_bundles(single)
        play_offline([item for item in items if item.sender in (own, STRANGER)], alone, single.feed)
        single.run_until(end)
        assert len(expected) > 230
        assert sent[name] == expected
        status = pipelines[name].status()
        assert "ignored=1" in status
        assert f"from={own}" in status
        assert f"/anticip/{name}/frame".encode() in sent[name][-1]
        for pipeline in (pipelines[name], single):
            pipeline.close()


@pytest.mark.parametrize(
    ("performers", "more", "line"),
    [
        ([{"name": "a", "port": 1}, {"name": "a", "port": 2}], {}, "performer: two are called 'a'"),
        ([{"name": "a/b", "port": 1}], {}, "performer.0.name: .*'a/b'"),
        (
            [{"name": "a", "port": 1, "cue": [{"name": "c", "take": "t", "at": n} for n in (1, 2)]}],
            {},
            "performer.a.cue: two are called 'c'",
        ),
        (
            [{"name": "a", "from": "h"}, {"name": "b", "from": "h"}],
            {},
            "a and b `from` and `port` .* h, 12351",
        ),
        ([{"name": "a", "from": "h"}, {"name": "b", "from": "h:1"}], {}, "`from` and `port` are the same"),
        ([{"name": "a", "from": "h"}, {"name": "b"}], {}, "each needs `from`, or a port"),
        (
            [{"name": "a", "from": "g", "source": "vmc://127.0.0.1:12351"}, {"name": "b", "from": "h"}],
            {},
            "same kind",
        ),
        ([{"name": "a", "source": "auto"}], {}, "performer.a: .* kind, not auto"),
        ([{"name": "a", "prot": 1}], {}, "performer.0.prot: unknown key; did you mean port"),
        ([{"name": "ensemble"}], {}, "performer: ensemble cannot be a name"),
        ([{**TWO[0], "channel": 2}], {"midi": {"mpe": 5}}, "performer.channel: an MPE zone has channels"),
        ([{**one, "teach": "p"} for one in TWO], {}, "performer.teach: two are taught by one project"),
        (TWO, {"osc": [{"performer": "eve"}]}, "osc.performer: no performer 'eve'; alice, bob"),
        ([], {"osc": [{"performer": "eve"}]}, "there are no"),
    ],
)
def test_ambiguous_performers_are_one_line(performers, more, line):
    with pytest.raises(RigError, match=line) as error:
        parse_rig({"performer": performers, **more}, "stage.toml")
    assert str(error.value).startswith("stage.toml: ")
    assert "\n" not in str(error.value)


def test_two_at_one_port_or_at_their_own() -> None:
    tree = {"performer": [*TWO, {"name": "eve", "from": "10.0.0.1", "port": 5}, {"name": "ian", "port": 6}]}
    rigs = [rig_for_performer(parse_rig(tree, ""), n) for n in ("alice", "bob", "eve", "ian")]
    assert [rig.source.listen[1] for rig in rigs] == [12351, 12351, 5, 6]


def test_settings_of_one_performer(tmp_path: Path) -> None:
    file = tmp_path / "stage.toml"
    file.write_text(
        'record = "take.anticip"\n'
        "[[osc]]\nprefix = '/stage/'\naddresses.pitch = ['/n_set', 1000, 'freq']\n"
        "[[osc]]\nport = 9001\nperformer = 'bob'\naddresses.pitch = '/freq'\n"
        "[[performer]]\nname = 'alice'\nport = 5000\nloudness = [0.02, 0.1, 0.6]\n"
        "[[performer]]\nname = 'bob'\nport = 5001\npreset = 'plucked'\nsteady = false\n"
    )
    many = load_rig(file)
    alice, bob = rig_for_performer(many, "alice"), rig_for_performer(many, "bob")
    assert [target.prefix for target in alice.osc] == ["/stage/alice"]
    assert alice.osc[0].addresses == {"pitch": ("/alice/n_set", 1000, "freq")}
    assert bob.osc[1].addresses == {"pitch": ("/freq",)}
    assert bob.osc[1].prefix == "/anticip", "who hears one performer alone needs no name"
    assert (alice.performer.loudness, bob.performer.loudness) == ((0.02, 0.1, 0.6), None)
    assert (alice.performer.steady, bob.performer.steady) == (True, False)
    assert (alice.synth.enabled, bob.synth.enabled) == (False, True), "who asks for a voice has one"
    assert bob.synth.preset == "plucked"
    assert (alice.record, bob.record) == tuple(str(tmp_path / f"take-{n}.anticip") for n in ("alice", "bob"))
    assert alice.file is None, "what one saves must not replace the rig of all"
    assert many.file == file
    voice = parse_rig({"performer": TWO, "synth": {"enabled": True}}, "")
    assert [rig_for_performer(voice, name).synth.enabled for name in ("alice", "bob")] == [True, False]
    assert not rig_for_performer(many.for_recording(), "bob").synth.enabled, (
        "where nothing plays nobody's voice does"
    )
    plain = Rig()
    assert plain.performers == ()
    answer = CliRunner().invoke(cli, ["rig", "check", str(file)])
    assert "alice" in answer.output
    assert "bob" in answer.output


def test_each_performer_has_a_channel_and_a_project() -> None:
    tree = {
        "performer": [
            {**TWO[0], "channel": 3},
            {**TWO[1], "channel": 5, "teach": "bobs"},
            {"name": "c", "port": 5},
        ],
        "midi": {"port": "virtual", "clock": "body", "control": [{"from": "pitch", "to": 1, "channel": 9}]},
        "teach": "ours",
    }
    many = parse_rig(tree, "")
    alice, bob, other = (rig_for_performer(many, name) for name in ("alice", "bob", "c"))
    assert [one.midi.port for one in (alice, bob, other)] == [
        "virtual:pyanticip alice",
        "virtual:pyanticip bob",
        None,
    ]
    assert [one.midi.clock for one in (alice, bob)] == ["body", None]
    assert [each.channel for each in (*bob.midi.note, *bob.midi.controls)] == [5, 5]
    assert [one.teach for one in (alice, bob, other)] == ["ours", "bobs", None]
    frame = ControlFrame(7, 0.14, [0.5] * 7, [0.25] * 8, [("onset", 0.5, 0.1)])
    channels = [
        {item.message[0] & 15 for item in Translator(one.midi).frame(frame) if item.message[:1] < b"\xf0"}
        for one in (alice, bob)
    ]
    assert channels == [{2}, {4}]
    hardware = parse_rig({**tree, "midi": {"port": "USB"}}, "")
    assert [rig_for_performer(hardware, name).midi.port for name in ("alice", "bob", "c")] == [
        "USB",
        "USB",
        None,
    ]


def test_a_performer_with_a_project_can_be_taught(tmp_path: Path) -> None:
    performers = [{"name": "alice", "port": free_port()}, {"name": "bob", "port": free_port()}]
    performers[1]["teach"] = str(tmp_path / "bobs")
    settings = {"model": {"enabled": False}, "osc": [], "control": {"port": free_port()}}
    many = parse_rig({"performer": performers, **settings}, "")

    async def commands() -> dict[str, set[str]]:
        multi_show = open_multi_show(many, MonotonicClock(), lambda line: None)
        found = {name: set(show.actions()) for name, show in multi_show.shows.items()}
        await multi_show.run(0.1)
        return found

    found = asyncio.run(commands())
    assert "teach/start" in found["bob"] - found["alice"]
    assert (tmp_path / "bobs").is_dir()


def test_each_performer_saves_a_memory_and_a_rig_of_their_own(tmp_path: Path) -> None:
    for name in ("ours", "hers"):
        poses = sway(250, 22, 50.0, 1)
        save_memory(remember([(name, poses)]), tmp_path / f"{name}.memory", {name: poses})
    (tmp_path / "rig.toml").write_text(
        f"[control]\nport = {free_port()}\n[monitor]\nenabled = true\nport = {free_port()}\n"
        f"[memory]\nfile = '{tmp_path}/ours.memory'\n[[cue]]\nname = 'we'\ntake = 'ours'\nat = 2.0\n"
        f"[[performer]]\nname = 'alice'\nport = {free_port()}\nmemory = '{tmp_path}/hers.memory'\n"
        "[[performer.cue]]\nname = 'she'\ntake = 'hers'\nat = 1.0\n"
        f"[[performer]]\nname = 'bob'\nport = {free_port()}\n"
    )
    checked = CliRunner().invoke(cli, ["rig", "check", str(tmp_path / "rig.toml")])
    assert "alice: says cues she\n  bob: says cues we\n" in checked.output
    many = load_rig(tmp_path / "rig.toml")

    async def saved() -> list[str]:
        multi_show = open_multi_show(many, MonotonicClock(), lambda line: None)
        words = []
        for name, show in multi_show.shows.items():
            for what, arguments in (("memory/save", ()), ("rig/save", (f"for-{name}",))):
                words.append(await show.actions()[what](*arguments))
        await multi_show.run(0.1)
        return words

    memories = asyncio.run(saved())[::2]
    for name, file, take in (("alice", memories[0], "hers"), ("bob", memories[1], "ours")):
        assert re.fullmatch(rf"show-{name}-\d{{8}}-\d{{6}}\.memory", Path(file).name)
        assert load_memory(file).takes == [take]
        own = load_rig(tmp_path / f"for-{name}.toml")
        assert own.control == many.control, "not the port that only its monitor knows"
        assert own.model == many.model, "not the backend that was chosen for all"
        assert own.memory.file == str(tmp_path / f"{take}.memory")
        assert [cue.take for cue in own.cue] == [take]
    # Cues of a performer without a memory of their own are places in the rig's memory.
    tree = {"cue": [{"name": "a", "take": "t", "at": 1}], "memory": {"file": "x", "sha256": "00"}}
    theirs = [{"name": "alice", "port": 1, "cue": []}, {"name": "bob", "port": 2, "memory": "y"}]
    alice, bob = (
        rig_for_performer(parse_rig({**tree, "performer": theirs}, ""), name) for name in ("alice", "bob")
    )
    assert (alice.memory.file, alice.cue) == ("x", ())
    assert (bob.memory.file, bob.memory.sha256, bob.cue) == ("y", None, ())


def test_a_recording_started_by_one_performer_has_their_name(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    performers = [{"name": "alice", "port": free_port()}, {"name": "bob", "port": free_port()}]
    settings = {"model": {"enabled": False}, "osc": [], "control": {"port": free_port()}}

    async def recorded() -> list[str]:
        multi_show = open_multi_show(
            parse_rig({"performer": performers, **settings}, ""), MonotonicClock(), str
        )
        made = [await show.actions()["record/start"]("take") for show in multi_show.shows.values()]
        await multi_show.run(0.1)
        return made

    assert asyncio.run(recorded()) == ["take-alice.anticip", "take-bob.anticip"]


def test_only_live_plays_several() -> None:
    with pytest.raises(OptionError, match="`live`"):
        assemble(rig(), OfflineClock())


def test_commands_are_for_one_or_for_all() -> None:
    done: list[tuple[Any, ...]] = []

    def make_command(who: str, refuses: bool = False) -> Any:
        def command(*arguments: object) -> str:
            if refuses:
                raise OptionError("not now")
            done.append((who, *arguments))
            return "frozen"

        return command

    def recording(who: str) -> Any:
        async def later(name: str) -> str:
            done.append((who, name))
            return name

        return later

    actions = {
        who: {
            "freeze": make_command(who),
            "plan": make_command(who),
            "load": make_command(who, who == "bob"),
            "record/start": recording(who),
        }
        for who in ("alice", "bob")
    }
    families = {who: {"rig/": make_command(who)} for who in actions}
    shared = frozenset({"freeze", "plan", "load", "record/start"})
    commands, several = commands_of_all(actions, families, shared)
    assert commands["freeze"](1) == "frozen"
    assert commands["bob/freeze"](0) == "frozen"
    assert done == [("alice", 1), ("bob", 1), ("bob", 0)]
    assert "plan" not in commands
    assert set(several) == {"alice/rig/", "bob/rig/"}
    with pytest.raises(OptionError, match=r"^bob: not now$"):
        commands["load"]()
    assert done[-1] == ("alice",), "nobody is left out because another refused"

    async def record() -> str:
        return await commands["record/start"]("take")

    assert asyncio.run(record()) == "take"

    async def fails(name: str) -> str:
        raise ZeroDivisionError

    actions["alice"]["record/start"] = fails
    commands, _ = commands_of_all(actions, families, shared)
    with pytest.raises(OptionError, match=r"^alice: ZeroDivisionError$"):
        asyncio.run(record())
    assert done[-1] == ("bob", "take"), "nobody is left out because another failed"
    for name in ("freeze", "rig", "record"):
        with pytest.raises(OptionError, match=f"performer.{name}: .* is a command"):
            open_multi_show(rig(performer=[{"name": name}], record="/nowhere/x"), MonotonicClock(), str)


def test_messages_of_a_socket_name_its_performers(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, says = list[str](), list[Any]()
    monkeypatch.setattr(show_module, "UdpSource", lambda *_, say, **__: says.append(say) or Mock())
    three = parse_rig({"performer": [*TWO, {"name": "carol", "port": free_port()}]}, "")
    rigs = {one.name: rig_for_performer(three, one.name) for one in three.performers}
    show_module._performer_sources(rigs, contextlib.ExitStack(), lines.append)
    for say in says:
        say("cannot")
    assert lines == ["alice, bob: cannot", "carol: cannot"]


def test_a_show_that_fails_to_start_leaves_nothing_open() -> None:
    control = free_port()
    in_use = bind_udp("127.0.0.1", control, "test")
    port = free_port()
    tree = {
        "performer": TWO, "source": {"port": port}, "model": {"enabled": False}, "osc": [],
        "control": {"port": control},
    }  # fmt: skip
    with pytest.raises(DeviceError, match="in use"):
        open_multi_show(parse_rig(tree, ""), MonotonicClock(), lambda line: None)
    lacking = {**tree, "model": {"checkpoint": "/nowhere"}}
    with pytest.raises(DeviceError, match="in use"):  # and nothing was loaded
        live(parse_rig(lacking, ""), say=lambda line: None)
    in_use.close()
    bind_udp("127.0.0.1", port, "test").close()


def test_a_performer_without_a_suit_does_not_delay_the_end() -> None:
    """Alice's suit never sends: the end of her show must not block the loop in which Bob fades out."""
    two = rig(osc=[], model={"enabled": False}, source={"port": free_port()})
    multi_show = open_multi_show(two, MonotonicClock(), str)
    bob, order = multi_show.shows["bob"].pipeline, list[tuple[str, str, bool]]()

    def make_child(whose: str) -> Any:
        def record(what: str) -> None:
            order.append((what, whose, multi_show.shows["bob"]._is_over))

        ends = {what: partial(record, what) for what in ("begin_close", "close")}
        return SimpleNamespace(name=whose, state="yes", poll=list, **ends)

    for name, show in multi_show.shows.items():
        show.children.append(make_child(name))
    for t, data in suit(25, 1):
        bob.feed(data, time.monotonic_ns() + t - 500_000_000, BOB)
    assert bob.state == "playing"
    run_loop(multi_show.run(0.1))
    # Nothing waits for parts that have not been asked to end yet.
    assert order == [(what, name, True) for what in ("begin_close", "close") for name in ("alice", "bob")]


def test_a_performer_is_not_given_another_s_suit() -> None:
    two = rig(osc=[], model={"enabled": False}, source={"port": free_port()})
    multi_show = open_multi_show(two, MonotonicClock(), str)
    alice, bob = (show.commands for show in multi_show.shows.values())
    for commands, theirs in ((alice, BOB), (bob, ALICE)):
        with pytest.raises(OptionError, match=f"{theirs} is .*'s suit"):
            commands.obey("source", theirs)
    for commands, free in ((alice, STRANGER), (alice, "10.0.0.2"), (bob, BOB), (bob, "")):
        commands.obey("source", free)
    run_loop(multi_show.run(0.0))


def bundles(ear: DatagramReceiver) -> dict[str, list[dict[str, list[Any]]]]:
    """Received bundles by performer, as the addresses behind the name."""
    found: dict[str, list[dict[str, list[Any]]]] = {}
    for data in ear.close():
        values_by_address = {
            address.removeprefix("/anticip/"): values for address, values in messages(data).items()
        }
        name = next(iter(values_by_address)).partition("/")[0]
        found.setdefault(name, []).append(
            {address.removeprefix(f"{name}/"): values for address, values in values_by_address.items()}
        )
    return found


@pytest.mark.slow
def test_two_live_suits_and_their_replays(tmp_path: Path) -> None:
    """Bob follows Alice by 200 ms, falls silent and returns; an unknown sender uses the same port."""
    port, control = free_port(), free_port()
    ear = DatagramReceiver()
    suits = {name: bind_udp("127.0.0.1", 0, name) for name in ("alice", "bob", "stranger")}
    where = {name: f"127.0.0.1:{sock.getsockname()[1]}" for name, sock in suits.items()}
    performers = "".join(
        f"[[performer]]\nname = '{name}'\nfrom = '{where[name]}'\n" for name in ("alice", "bob")
    )
    (tmp_path / "rig.toml").write_text(
        f"[source]\nport = {port}\n[control]\nport = {control}\n{performers}[[osc]]\nport = {ear.port}\n"
    )
    show = start("live", "--rig", "rig.toml", "--json", "--record", "take.anticip", cwd=tmp_path)
    skeleton, frames = mocopi_datagrams(420)
    wait_for(lambda: show.poll() is not None or ear.datagrams, 60.0)
    assert show.poll() is None, show.communicate()[1]
    commands = {100: ("alice/gain", 0.5), 200: ("freeze", 1), 220: ("freeze", 0), 230: ("bob/smoothing", 2.0)}
    by_then, to = [], ("127.0.0.1", port)
    for n in paced(400):
        by_then.append(len(ear.datagrams))
        for name, own in (("alice", n), ("bob", n - 10), ("stranger", n)):
            if n % 100 == 10:
                suits[name].sendto(skeleton, to)
            if own >= 0 and n >= 10 and not (name == "bob" and 250 <= n < 330):
                suits[name].sendto(frames[own], to)
        if n in commands:
            suits["alice"].sendto(command(*commands[n]), ("127.0.0.1", control))
    time.sleep(0.3)
    show.send_signal(2)
    lines, errors = show.communicate(timeout=30)
    assert show.returncode == 0, errors
    played = bundles(ear)
    for sock in suits.values():
        sock.close()
    summary = json.loads(lines)["performers"]
    assert "remote control: /anticip/control at 127.0.0.1" in errors
    for name in ("alice", "bob"):
        assert f"{name}: ignoring mocopi from {where['stranger']}" in errors
        assert f"/anticip/control/{name}/source {where['stranger']} hands over" in errors
        again = DatagramReceiver()
        osc = f"127.0.0.1:{again.port}"
        run_here("replay", f"take-{name}.anticip", "--speed", "max", "--osc", osc, "--json", cwd=tmp_path)
        alone = {m["frame"][0]: m for m in bundles(again)["frame"] if "frame" in m}
        sent = [m for m in played[name] if "frame" in m]
        assert len(alone) > 380
        assert len(alone) == len(sent) + summary[name]["counters"]["superseded"]
        for m in sent:
            assert {k: v for k, v in m.items() if "event" not in k} == {
                k: v for k, v in alone[m["frame"][0]].items() if "event" not in k
            }
    assert len(played["ensemble"]) > 350
    # Only the received bundles are compared: a busy machine may skip some.
    received = [
        messages(data).get("/anticip/ensemble") for data in ear.datagrams[by_then[210] : by_then[249]]
    ]
    together = np.array([values for values in received if values])
    assert len(together) > 20
    _, leader, lag_ms, trust, distance, _ = together.T
    assert (leader == 0).all()
    assert np.abs(np.median(lag_ms) - 200.0) <= 40.0
    assert np.median(trust) > 0.5
    assert (distance >= 0.0).all()
