"""Answers to OSCQuery clients: changing values, several performers, malformed input."""

import asyncio
import json
from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pythonosc.osc_message import OscMessage
from support.wire import message, tcp_port, udp, wait_for

from realtime.bench.performer import mocopi_datagrams
from realtime.clock import MonotonicClock
from realtime.control.rig_keys import CONTROLS
from realtime.multi_show import open_multi_show
from realtime.oscquery.offer import controls, outputs
from realtime.rig import parse_rig
from realtime.sockets import free_port
from tests.realtime.test_oscquery import (
    EXTRAS,
    OFFERED,
    answers,
    ask,
    everything_sent,
    methods,
    served,
    space,
)

ATTRIBUTES = ["VALUE", "TYPE", "RANGE", "HOST_INFO", "CONTENTS", "ACCESS", "TAGS", "", "X", "VALUE=1&TYPE"]


def test_omitted_parts_are_not_described() -> None:
    assert set(outputs("/anticip", ["tempo", "frame"])) == {"/anticip/tempo", "/anticip/frame"}
    onset = {"/anticip/event/onset", "/anticip/event/onset/cancel"}
    assert set(outputs("/anticip", ["pitch", "onset"], EXTRAS)) == {"/anticip/param/pitch", *onset}


def test_optional_messages_are_described_once_sent() -> None:
    tree = space()
    assert tree.answer("/anticip/trust")[0] == HTTPStatus.NOT_FOUND
    tree.store(everything_sent()[0])
    assert tree.answer("/anticip/trust")[0] == HTTPStatus.OK


@pytest.mark.parametrize(
    ("target", "status", "body"),
    [
        ("/nowhere", 404, None),
        ("/anticip/param/pitch/", 200, None),
        ("/anticip/param/pitch?VALUE", 204, None),
        ("/anticip/param/pitch?TYPE", 200, {"TYPE": "f"}),
        ("/anticip/param/pitch?RANGE", 200, {"RANGE": [{"MIN": 0.0, "MAX": 1.0}]}),
        ("/anticip?TYPE", 204, None),
        ("/anticip/control/gain?VALUE", 200, {"VALUE": [1.5]}),
        ("/anticip/control/start?ACCESS", 200, {"ACCESS": 2}),
        ("/?TAGS", 204, None),
        ("/?WHAT", 400, None),
        ("/fx/mix?FULL_PATH", 200, {"FULL_PATH": "/fx/mix"}),
    ],
)
def test_answers_follow_the_proposal(target: str, status: int, body: Any) -> None:
    found, data = space().answer(target)
    assert found == status
    if body is not None:
        assert json.loads(data) == body
    assert (data == b"") == (status != 200)


def test_the_tree_holds_every_node_once() -> None:
    tree = space()
    tree.store(everything_sent()[0])
    assert methods(json.loads(tree.answer("/")[1])).keys() == OFFERED.keys()
    assert json.loads(tree.answer("?HOST_INFO")[1]) == json.loads(tree.answer("/HOST_INFO")[1])
    assert json.loads(tree.answer("?HOST_INFO")[1])["EXTENSIONS"]["LISTEN"] is True


def test_optional_arguments_are_described() -> None:
    tree = space()
    tree.describe(controls(CONTROLS))
    found = {name: tree.answer(f"/anticip/control/{name}?OVERLOADS") for name in CONTROLS}
    overloads = {name: json.loads(body) for name, (status, body) in found.items() if status == HTTPStatus.OK}
    assert set(overloads) == {"rig/save", "memory/save", "record/start", "teach/start"}
    assert all(overload == {"OVERLOADS": [{"TYPE": "N"}]} for overload in overloads.values())


def test_a_changed_value_is_sent_with_its_type() -> None:
    tree = space()
    values = {"gain": 1.25, "bypass": False}
    changed = tree.describe({**OFFERED, **controls(CONTROLS, values=values)})
    # A node that had no value before is streamed as well.
    sent = {at.removeprefix("/anticip/control/"): OscMessage(m).params[0] for at, m in changed}
    assert sent == values
    assert tree.describe({**OFFERED, **controls(CONTROLS, values=values)}) == []
    again = tree.describe({**OFFERED, **controls(CONTROLS, values={**values, "bypass": True})})
    assert [OscMessage(m).params for _, m in again] == [[True]]


_SOME = st.sampled_from([*OFFERED, "/", "/anticip", "//[", "/%00", "/anticip/%2e%2e"])


@given(st.text(max_size=80) | st.tuples(_SOME, st.sampled_from(ATTRIBUTES)).map("?".join) | _SOME)
def test_any_request_is_answered(target: str) -> None:
    status, body = space().answer(target)
    assert status in (200, 204, 400, 404)
    if status == HTTPStatus.OK:
        assert isinstance(json.loads(body), dict)
    else:
        assert body == b""


@given(st.binary(max_size=200))
def test_invalid_bundles_change_nothing(data: bytes) -> None:
    tree = space()
    before = tree.answer("/")
    tree.store(data)
    tree.store(b"#bundle\0" + data)
    tree.store(b"/anticip/param/pitch\0" + data)
    assert tree.answer("/") == before or b'"VALUE"' in tree.answer("/")[1]


@served
@pytest.mark.slow
def test_every_performer_and_common_commands_are_described() -> None:
    skeleton, frames = mocopi_datagrams(60)
    control, query, suits = free_port(), tcp_port(), [free_port(), free_port()]
    performers = [{"name": name, "port": port} for name, port in zip(("ann", "bob"), suits, strict=True)]
    settings = {"control": {"port": control}, "oscquery": {"port": query, "enabled": True}, "osc": []}
    rig = parse_rig({"performer": performers, "model": {"enabled": False}, **settings}, "test")
    lines: list[str] = []

    async def show() -> dict[str, dict[str, Any]]:
        multi_show = open_multi_show(rig, MonotonicClock(), lines.append)
        playing = asyncio.create_task(multi_show.run(60.0))
        hand = udp()
        loop = asyncio.get_running_loop()
        try:
            for frame in (skeleton, *frames):
                for port in suits:
                    hand.sendto(frame, ("127.0.0.1", port))
                await asyncio.sleep(0.02)
            await asyncio.sleep(1.2)
            await asyncio.to_thread(wait_for, lambda: answers(query))
            found = methods(await asyncio.to_thread(ask, query))
            for address in ("/anticip/control/bob/gain", "/anticip/control/gain"):
                hand.sendto(message(address, 0.5), ("127.0.0.1", control))
                reply = OscMessage(await loop.sock_recv(hand, 65536))
                assert (reply.address, reply.params[0]) == (address.replace("/control/", "/reply/"), "ok")
            known = set(multi_show.control.names[0])
        finally:
            multi_show.end()
            await playing
            hand.close()
        begin = "/anticip/control/"
        commands = {a.removeprefix(begin) for a in found if a.startswith(begin)}
        families = ("rig/shape/", "rig/smoothing/", "rig/osc/", "learn/")
        mine = {a for a in commands if a.partition("/")[2].startswith(families)}
        assert commands - mine == known
        assert {a.partition("/")[0] for a in mine} == {"ann", "bob"}
        return found

    nodes = asyncio.run(show())
    for name in ("ann", "bob"):
        pitch = nodes[f"/anticip/{name}/param/pitch"]
        assert (pitch["TYPE"], pitch["ACCESS"], len(pitch["VALUE"])) == ("f", 1, 1)
    assert "/anticip/param/pitch" not in nodes
    together = nodes["/anticip/ensemble"]
    assert (together["TYPE"], len(together["VALUE"]), len(together["RANGE"])) == ("fiffff", 6, 6)
    assert nodes["/anticip/control/gain"]["DESCRIPTION"] == CONTROLS["gain"].text
    assert "/anticip/control/source" not in nodes
    assert nodes["/anticip/control/bob/source"]["ACCESS"] == 2
    assert f"describing everything to OSCQuery clients at http://127.0.0.1:{query}" in lines
