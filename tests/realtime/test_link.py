"""A Link session that the body leads, or that leads it, with another process as peer: Ableton's own library
on both sides."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyanticip.errors import DeviceError
from realtime.sinks.base import ControlFrame
from realtime.sinks.link import LinkConfig, LinkSink

PEER = """
import link, sys, time
session = link.Link(90.0)
session.enabled = True
print("ready", flush=True)
for line in sys.stdin:
    state = session.captureAppSessionState()
    now = session.clock().micros()
    print(session.numPeers(), state.tempo(), state.beatAtTime(now, 1.0) % 1.0, flush=True)
"""


def test_a_missing_package_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "link", None)
    with pytest.raises(DeviceError, match=r"pip install 'pyanticip\[link\]'"):
        LinkSink(LinkConfig())


@pytest.fixture
def ask() -> Iterator[Callable[[], tuple[int, float, float]]]:
    """Query another process in the session: number of other peers, tempo, phase."""
    pytest.importorskip("link")
    peer = subprocess.Popen(
        [sys.executable, "-P", "-c", PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def query() -> tuple[int, float, float]:
        peer.stdin.write("\n")
        peer.stdin.flush()
        peers, tempo, phase = peer.stdout.readline().split()
        return int(peers), float(tempo), float(phase)

    assert peer.stdout.readline() == "ready\n"
    yield query
    peer.kill()
    peer.communicate()


Ask = Callable[[], tuple[int, float, float]]


def wait_for_peers(ask: Ask, *led: LinkSink) -> None:
    """Wait until the process and sinks have found each other."""
    start_s = time.monotonic()
    while ask()[0] == 0 or not all(sink.beat() for sink in led):
        if time.monotonic() - start_s > 20.0:
            pytest.skip("no peer is found here: no multicast")
        time.sleep(0.1)


@pytest.mark.slow
def test_the_beat_of_a_leading_session_is_followed(ask: Ask) -> None:
    lonely = LinkSink(LinkConfig(leads="session"))
    early = LinkSink(LinkConfig(leads="session", latency_ms=100.0))
    body = LinkSink(LinkConfig())
    try:
        wait_for_peers(ask, lonely, early)
        # Sessions that have met take a moment to become one.
        deadline_s = time.monotonic() + 20.0
        while time.monotonic() < deadline_s and any(
            abs(s.beat()[0] - ask()[1]) > 0.1 for s in (lonely, early)
        ):
            time.sleep(0.1)
        off = []
        for _ in range(9):
            (bpm, phase), (_, sooner) = lonely.beat(), early.beat()
            _, tempo, peer_phase = ask()
            assert bpm == pytest.approx(tempo, abs=0.1)
            off.append(
                [(each + 0.5) % 1.0 - 0.5 for each in (phase - peer_phase, sooner - peer_phase - bpm / 600.0)]
            )
        assert [sorted(map(abs, each))[4] < 0.06 for each in zip(*off, strict=True)] == [True, True]
        assert body.beat() is None, "it follows"
        assert lonely.counters() == {}, "nothing is sent"
        # The session stays unchanged, whatever the body does.
        lonely.send(ControlFrame(0, 0.0, [0.0] * 7, [0.0] * 8, tempo=(150.0, 0.0, 1.0)))
        assert ask()[1] == pytest.approx(tempo, abs=0.1)
    finally:
        for sink in (lonely, early, body):
            sink.close()


@pytest.mark.slow
def test_another_process_follows_the_beat_of_the_body(ask: Ask) -> None:
    sink: Any = LinkSink(LinkConfig())
    try:
        wait_for_peers(ask)
        before = ask()[1]
        # Without trust the body does not lead.
        sink.send(ControlFrame(0, 0.0, [0.0] * 7, [0.0] * 8, tempo=(140.0, 0.0, 0.2)))
        assert sink.counters()["sent"] == 0
        assert ask()[1] == pytest.approx(before, abs=0.1)
        start_s, off = time.monotonic(), []
        while (seconds := time.monotonic() - start_s) < 5.0:
            phase = (seconds * 133.0 / 60.0) % 1.0
            sink.send(ControlFrame(1, seconds, [0.0] * 7, [0.0] * 8, tempo=(133.0, phase, 0.9)))
            if seconds > 3.0:
                _, tempo, peer_phase = ask()
                now = ((time.monotonic() - start_s) * 133.0 / 60.0) % 1.0
                off.append(((peer_phase - now + 0.5) % 1.0 - 0.5, tempo))
            time.sleep(0.02)
        assert sorted(tempo for _, tempo in off)[len(off) // 2] == pytest.approx(133.0, rel=0.02)
        assert sorted(abs(away) for away, _ in off)[len(off) // 2] < 0.06
    finally:
        sink.close()
