"""OSC over TCP: other programs read it; a receiver that stalls, dies or never existed blocks nothing."""

import errno
import itertools
import os
import select
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pythonosc.dispatcher import Dispatcher
from pythonosc.osc_bundle import OscBundle
from pythonosc.osc_message import OscMessage
from pythonosc.osc_tcp_server import ThreadingOSCTCPServer
from support.concert import jack_server
from support.wire import message

from pyanticip.errors import DeviceError
from pyanticip.vocabulary import PARAMETERS
from realtime.sinks.base import ControlFrame
from realtime.sinks.config import OscConfig
from realtime.sinks.osc import OscSink
from realtime.sinks.tcp import TcpWire, framed
from realtime.sockets import free_port
from realtime.status import SinkWatch, sink_words

LEVELS = [i / 8 for i in range(8)]


def frame(seq: int) -> ControlFrame:
    return ControlFrame(seq, 0.02 * seq, [0.1] * 7, LEVELS, tempo=(112.5, 0.25, 0.75))


def open_sink(port: int, **options: Any) -> OscSink:
    return OscSink(OscConfig.model_validate({"port": port, "transport": "tcp", **options}))


def send_until(sink: OscSink, condition: Callable[[], object], seconds: float = 20.0) -> int:
    """Send frames 0, 1 ... every 5 ms until the condition holds; returns how many."""
    deadline = time.monotonic() + seconds
    count = 0
    while not condition():
        assert time.monotonic() < deadline, (sink.counters(), sink.trouble)
        sink.send(frame(count))
        count += 1
        time.sleep(0.005)
    return count


def test_retries_to_an_absent_receiver_become_rarer(monkeypatch: pytest.MonkeyPatch) -> None:
    now, attempts = 0, []

    def refused(wire: TcpWire) -> socket.socket:
        attempts.append(now / 1e9)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(TcpWire, "_open", refused)
    monkeypatch.setattr("realtime.sinks.tcp.time.monotonic_ns", lambda: now)
    wire = TcpWire("127.0.0.1", 9, "slip")
    while now < 50e9:
        now += 10_000_000
        wire.send(b"frame")
    pauses = [after - before for before, after in itertools.pairwise(attempts)]
    assert pauses == pytest.approx([0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0, 8.0], abs=0.011)
    assert wire.counts["refused"] == 5000
    assert "refused" in wire.trouble
    # A connection of a second resets the delay, a shorter one does not.
    for stayed_s, pause_s in ((0.9, 8.0), (1.1, 0.25)):
        wire._connected, wire._since_ns = True, now
        now += round(stayed_s * 1e9)
        wire._disconnect("gone")
        assert wire._retry_at_ns - now == pause_s * 1e9


def test_a_pending_connection_has_other_error_codes_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    class Windows:
        """Returns WSAEWOULDBLOCK, then WSAEINVAL, then WSAEISCONN, which errno names so on Windows."""

        says = iter((errno.EWOULDBLOCK, 10022, errno.EISCONN))

        def connect_ex(self, address: object) -> int:
            return next(self.says)

        def getsockname(self) -> tuple[str, int]:
            return "127.0.0.1", 50000

    monkeypatch.setattr(TcpWire, "_open", lambda wire: Windows())
    wire = TcpWire("127.0.0.1", 9, "slip")
    assert [wire._connect() for _ in range(2)] == [False, True]
    assert wire.trouble == ""


class Reader:
    """A receiver that accepts, and reads on request only."""

    def __init__(self, port: int = 0) -> None:
        self.listener = socket.create_server(("127.0.0.1", port))
        self.port = self.listener.getsockname()[1]
        self.peer: socket.socket | None = None
        self.data = b""

    def read(self) -> bytes:
        if self.peer is None:
            self.listener.settimeout(5)
            self.peer, _ = self.listener.accept()
        while select.select([self.peer], [], [], 0.1)[0] and (data := self.peer.recv(1 << 20)):
            self.data += data
        return self.data

    def packets(self) -> list[bytes]:
        """The complete packets, by their length prefixes."""
        data, found = self.read(), []
        while len(data) >= 4 and len(data) >= 4 + (size := struct.unpack(">I", data[:4])[0]):
            found.append(data[4 : 4 + size])
            data = data[4 + size :]
        return found

    def close(self) -> None:
        if self.peer is not None:
            self.peer.close()
        self.listener.close()


@pytest.fixture
def reader() -> Iterator[Reader]:
    made = Reader()
    yield made
    made.close()


def sequence(packets: list[bytes]) -> list[int]:
    """Frame numbers of complete bundles; raises for anything else."""
    found = [{m.address: m.params for m in OscBundle(p) if isinstance(m, OscMessage)} for p in packets]
    return [messages["/anticip/frame"][0] for messages in found]


@given(st.binary(max_size=300))
def test_a_slip_packet_follows_rfc_1055(data: bytes) -> None:
    packet = framed(data, "slip")
    assert packet == framed(bytearray(data), "slip")
    assert framed(bytearray(data), "length") == framed(data, "length") == len(data).to_bytes(4) + data
    assert packet[:1] == packet[-1:] == b"\xc0"
    inner = packet[1:-1]
    assert b"\xc0" not in inner
    out, escaped = bytearray(), False
    for byte in inner:
        if escaped:
            out.append({0xDC: 0xC0, 0xDD: 0xDB}[byte])
        elif byte != 0xDB:
            out.append(byte)
        escaped = byte == 0xDB and not escaped
    assert bytes(out) == data
    assert not escaped


@pytest.mark.parametrize("framing", ["slip", "length"])
@pytest.mark.skipif(shutil.which("oscdump") is None, reason="liblo's oscdump is not here")
def test_liblo_reads_every_frame(framing: str) -> None:
    port = free_port()
    with subprocess.Popen(
        ["oscdump", "-L", f"osc.tcp://:{port}/"], stdout=subprocess.PIPE, text=True
    ) as dump:
        sink = open_sink(port, framing=framing, send=["frame", "params"])
        send_until(sink, lambda: sink.counters()["sent"] >= 20)
        lines = [dump.stdout.readline().split()[1:] for _ in range(40)]
        dump.terminate()
        sink.close()
    numbers = [int(line[2]) for line in lines if line[0] == "/anticip/frame"]
    assert numbers == list(range(numbers[0], numbers[0] + 20))
    assert all([float(x) for x in line[2:]] == LEVELS for line in lines if line[0] == "/anticip/params")


@pytest.mark.parametrize(("framing", "mode"), [("slip", "1.1"), ("length", "1.0")])
def test_python_osc_reads_it(framing: str, mode: str) -> None:
    received: list[tuple[Any, ...]] = []
    dispatcher = Dispatcher()
    dispatcher.map("/anticip/params", lambda address, *values: received.append(values))
    with ThreadingOSCTCPServer(("127.0.0.1", 0), dispatcher, mode=mode) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        sink = open_sink(server.server_address[1], framing=framing)
        send_until(sink, lambda: len(received) >= 5)
        sink.close()
        server.shutdown()
    assert set(received) == {tuple(LEVELS)}


@pytest.mark.slow
@pytest.mark.skipif(
    any(shutil.which(name) is None for name in ("scsynth", "jackd", "jack_lsp")),
    reason="scsynth or JACK is not here",
)
def test_scsynth_receives_the_values() -> None:
    port = free_port()
    buses = {parameter: ["/c_set", bus] for bus, parameter in enumerate(PARAMETERS)}
    sink = open_sink(port, framing="length", send=["param"], addresses=buses)
    with jack_server(48_000) as name:
        env = {**os.environ, "JACK_DEFAULT_SERVER": name, "JACK_NO_START_SERVER": "1"}
        words = ["scsynth", "-t", str(port)]
        synth = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            send_until(sink, lambda: sink.counters()["sent"] >= 5, seconds=30)
            request = message("/c_getn", 0, 8)
            with socket.create_connection(("127.0.0.1", port), timeout=5) as ask:
                ask.sendall(struct.pack(">I", len(request)) + request)
                size = struct.unpack(">I", ask.recv(4, socket.MSG_WAITALL))[0]
                answer = OscMessage(ask.recv(size, socket.MSG_WAITALL))
            assert (answer.address, answer.params[2:]) == ("/c_setn", LEVELS)
        finally:
            sink.close()
            synth.terminate()
            output = synth.communicate(timeout=10)[0]
    assert "FAILURE" not in output


def test_a_receiver_that_does_not_read_loses_whole_frames(reader: Reader) -> None:
    sink = open_sink(reader.port, framing="length")
    # More than the buffers of both sockets hold.
    count = send_until(sink, lambda: sink.counters()["dropped"] > 200)
    sent = sink.counters()["sent"]
    assert sent + sink.counters()["dropped"] <= count
    reader.listener.settimeout(5)
    numbers = sequence(reader.packets())
    assert numbers == sorted(set(numbers))
    assert len(numbers) < count
    # It reads again: the queued packets, the newest last, and then new ones.
    sink.send(frame(count))
    numbers = sequence(reader.packets())
    assert numbers[-1] == count
    assert numbers == sorted(set(numbers))
    assert count - 1 in numbers
    sink.close()


def test_a_lost_connection_is_reported_and_reopened(reader: Reader) -> None:
    sink, watch = open_sink(reader.port, framing="length"), SinkWatch()
    assert sink.name == f"osc tcp://127.0.0.1:{reader.port}"
    send_until(sink, lambda: sink.counters()["sent"] >= 3)
    assert sequence(reader.packets())
    assert watch.look([sink]) == []
    assert sink_words([sink]) == []
    reader.close()
    send_until(sink, lambda: sink.trouble == "connection refused")
    assert watch.look([sink]) == [f"{sink.name}: connection refused; trying again"]
    assert watch.look([sink]) == []
    assert sink_words([sink]) == [f"away={sink.name}"]
    sent = sink.counters()["sent"]
    back = Reader(reader.port)
    send_until(sink, lambda: sink.counters()["sent"] > sent + 3)
    assert watch.look([sink]) == [f"{sink.name} is there"]
    numbers = sequence(back.packets())
    assert len(numbers) >= 3
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    sink.close()
    back.close()


def test_data_from_the_receiver_is_discarded(reader: Reader) -> None:
    sink = open_sink(reader.port)
    send_until(sink, lambda: sink.counters()["sent"] >= 1)
    reader.read()
    reader.peer.setblocking(False)
    sent_bytes = 0
    deadline = time.monotonic() + 20
    while sent_bytes < 20_000_000:
        sink.send(frame(0))
        try:
            sent_bytes += reader.peer.send(b"x" * (1 << 16))
            reader.peer.recv(1 << 16)
        except BlockingIOError:
            pass
        assert time.monotonic() < deadline, sent_bytes
    assert not sink.trouble
    sink.close()


def test_unknown_hosts_and_transports_are_one_line() -> None:
    with pytest.raises(DeviceError, match=r"tcp://nowhere\.invalid:9000: cannot resolve host"):
        TcpWire("nowhere.invalid", 9000, "slip")
    with pytest.raises(ValidationError, match="transport"):
        OscConfig.model_validate("osc.tcp://127.0.0.1:9000")
    config = OscConfig.model_validate("tcp://127.0.0.1:9000")
    assert (config.transport, config.host, config.port, config.framing) == ("tcp", "127.0.0.1", 9000, "slip")
    assert (config.url, OscConfig().url) == ("tcp://127.0.0.1:9000", "127.0.0.1:9000")
