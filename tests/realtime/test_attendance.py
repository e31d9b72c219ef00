"""What a person at the terminal is told about the suit."""

from __future__ import annotations

from realtime.attendance import Attendance, unheard

HERE = ("127.0.0.1", 12351)


def said(seen: list[tuple[float, dict[str, int]]]) -> list[str]:
    attendance = Attendance("mocopi", HERE, 0.0)
    return [line for now, counts in seen if (line := attendance.look(now, counts))]


def test_a_suit_that_comes_and_goes() -> None:
    frames = [
        (1.0, 0),
        (2.0, 40),
        (3.0, 90),
        (4.0, 90),
        (5.0, 90),
        (6.0, 90),
        (7.0, 90),
        (20.0, 91),
        (21.0, 92),
    ]
    assert said([(now, {"packets": n, "frames": n}) for now, n in frames]) == [
        "frames of mocopi come",
        "nothing from the suit for 3 s; waiting for it",
        "frames of mocopi come again",
    ]


def test_a_suit_that_never_comes_is_asked_for_twice_a_minute_at_most() -> None:
    lines = said([(float(now), {}) for now in range(1, 62)])
    assert len(lines) == 3
    assert lines[0] == (
        "no frame of mocopi came to 127.0.0.1:12351 in 3 s; a suit on the network needs"
        " --source mocopi://0.0.0.0:12351"
    )


def test_why_there_is_no_frame() -> None:
    alien = {"packets": 120, "alien": 120, "frames": 0}
    assert unheard("mocopi", HERE, 3.0, alien).startswith(
        "120 datagrams came to 127.0.0.1:12351, none of them"
    )
    assert "skeleton" in unheard("mocopi", HERE, 3.0, {"packets": 120})
    assert "0.0.0.0" not in unheard("vmc", ("192.168.0.7", 39539), 3.0, {})
