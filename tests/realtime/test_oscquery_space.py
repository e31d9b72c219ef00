"""What OSCQuery clients are answered: values that change, and requests and bytes that make no sense."""

from __future__ import annotations

import json
from http import HTTPStatus

from hypothesis import given
from hypothesis import strategies as st

from realtime.control.rig_keys import CONTROLS
from realtime.oscquery.offer import controls
from tests.realtime.test_oscquery import OFFERED, space

ATTRIBUTES = ["VALUE", "TYPE", "RANGE", "HOST_INFO", "CONTENTS", "ACCESS", "TAGS", "", "X", "VALUE=1&TYPE"]


def test_a_value_that_changes_is_a_message_of_its_type() -> None:
    made = space()
    values = {"gain": 1.25, "bypass": False}
    changed = made.describe({**OFFERED, **controls(CONTROLS, values=values)})
    # One that had no value before is told as well.
    assert {m.address.removeprefix("/anticip/control/"): m.params[0] for m in changed} == values
    assert made.describe({**OFFERED, **controls(CONTROLS, values=values)}) == []
    again = made.describe({**OFFERED, **controls(CONTROLS, values={**values, "bypass": True})})
    assert [m.params for m in again] == [[True]]


_SOME = st.sampled_from([*OFFERED, "/", "/anticip", "//[", "/%00", "/anticip/%2e%2e"])


@given(st.text(max_size=80) | st.tuples(_SOME, st.sampled_from(ATTRIBUTES)).map("?".join) | _SOME)
def test_no_request_is_too_strange(target: str) -> None:
    status, body = space().answer(target)
    assert status in (200, 204, 400, 404)
    if status == HTTPStatus.OK:
        assert isinstance(json.loads(body), dict)
    else:
        assert body == b""


@given(st.binary(max_size=200))
def test_bytes_that_are_no_bundle_change_nothing(data: bytes) -> None:
    made = space()
    before = made.answer("/")
    made.hear(data)
    made.hear(b"#bundle\0" + data)
    assert made.answer("/") == before or b'"VALUE"' in made.answer("/")[1]
