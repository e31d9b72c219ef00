"""`send`: streaming a file over real sockets, as a suit would."""

import errno
import json
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import numpy as np
import pytest
from support.clips import write_walk
from support.wire import udp

from pyanticip import _core
from pyanticip.errors import DeviceError, FormatError, OptionError
from realtime.programs import send as send_module
from realtime.programs.send import send


@pytest.fixture
def receiver():
    with udp(2.0) as sock:
        yield sock


def collect(sock, into):
    while True:
        try:
            into.append((time.monotonic(), sock.recv(65536)))
        except OSError:
            return


@pytest.mark.parametrize(
    ("protocol", "rate", "frames"),
    [
        ("mocopi", None, 50),
        ("mocopi", 60.0, 60),
        ("vmc", None, 60),
        ("msgpack", None, 120),
        ("msgpack", 24.0, 24),
    ],
)
def test_every_frame_arrives_in_its_time(tmp_path, receiver, protocol, rate, frames):
    port = receiver.getsockname()[1]
    received = []
    thread = threading.Thread(target=collect, args=(receiver, received), daemon=True)
    thread.start()
    summary = send(write_walk(tmp_path, seconds=1.0), protocol, "127.0.0.1", port, rate=rate, seconds=1.0)
    time.sleep(0.1)
    receiver.close()
    assert summary["frames"] == frames
    assert summary["datagrams"] == len(received) == frames + (0 if protocol == "vmc" else 1)
    assert summary["bytes"] == sum(len(datagram) for _, datagram in received)
    assert summary["refused"] == 0
    assert not summary["interrupted"]
    assert 0.8 < summary["seconds"] < 3.0


def test_a_loop_goes_on_with_its_numbers(tmp_path, receiver):
    port = receiver.getsockname()[1]
    received = []
    threading.Thread(target=collect, args=(receiver, received), daemon=True).start()
    summary = send(write_walk(tmp_path, seconds=0.2), "mocopi", "127.0.0.1", port, loop=True, seconds=0.6)
    time.sleep(0.1)
    receiver.close()
    assert summary["frames"] == 30
    decoder = _core.Decoder("mocopi")
    frames = [
        update for _, datagram in received for update in decoder.feed(datagram) if update["kind"] == "frame"
    ]
    assert [frame["seq"] for frame in frames] == list(range(30))
    assert np.diff([frame["time"] for frame in frames]) == pytest.approx(0.02, abs=1e-5)


def test_nobody_listening_is_counted_not_raised(tmp_path, receiver):
    port = receiver.getsockname()[1]
    receiver.close()
    summary = send(write_walk(tmp_path, seconds=0.3), "mocopi", "127.0.0.1", port)
    assert summary["frames"] == 15
    assert summary["refused"] > 0


@pytest.mark.parametrize(("number", "unsent"), [(errno.ENETUNREACH, 5), (errno.EMSGSIZE, None)])
def test_a_network_that_fails_meanwhile_does_not_end_it(
    tmp_path, receiver, monkeypatch, capsys, number, unsent
):
    """As while Wi-Fi comes back; a datagram too large for the network stays an error."""
    sent, opened = [], send_module.connect_udp

    class Failing:
        def __init__(self, sock):
            self.sock, self.close = sock, sock.close

        def send(self, datagram):
            sent.append(datagram)
            if 4 <= len(sent) < 9:
                raise OSError(number, "failed")
            return self.sock.send(datagram)

    monkeypatch.setattr(send_module, "connect_udp", lambda *a, **k: Failing(opened(*a, **k)))
    play = partial(send, write_walk(tmp_path, seconds=0.3), "msgpack", "127.0.0.1", receiver.getsockname()[1])
    if unsent is None:
        with pytest.raises(DeviceError, match="cannot be sent"):
            play()
    else:
        assert play(progress=True)["unsent"] == unsent
        assert capsys.readouterr().err.endswith(f" frames, {unsent} not sent\n")
        assert len(sent) > 9


@pytest.mark.parametrize(
    ("change", "error", "reason"),
    [
        ({"host": "no.such.host.invalid"}, DeviceError, "cannot resolve host 'no.such.host.invalid'"),
        ({"host": ""}, DeviceError, "host"),
        ({"port": 0}, OptionError, "port must be 1 to 65535, got 0"),
        ({"protocol": "kinect"}, OptionError, "natnet, msgpack, vrchat, phone, wek, osc, got 'kinect'"),
        ({"rate": 2000.0}, OptionError, "rate must be 1 to 1000 frames a second, got 2000"),
        ({"speed": 0.0}, OptionError, "speed must be"),
        ({"seconds": 0.0}, OptionError, "seconds must be"),
        ({"path": "none.bvh"}, FormatError, "none.bvh: no such file"),
    ],
)
def test_bad_options_are_one_clear_line(tmp_path, change, error, reason):
    good = {"path": write_walk(tmp_path), "protocol": "mocopi", "host": "127.0.0.1", "port": 9}
    with pytest.raises(error, match=reason) as caught:
        send(**(good | change))
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_ctrl_c_ends_cleanly(tmp_path, receiver):
    path = write_walk(tmp_path)
    port = receiver.getsockname()[1]
    call = f"send({str(path)!r}, 'mocopi', '127.0.0.1', {port}, loop=True)"
    # Tests started in the background have inherited that Ctrl-C is ignored.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heed}\nimport json; from realtime.programs.send import send; print(json.dumps({call}))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    receiver.settimeout(30.0)
    for _ in range(10):
        receiver.recv(65536)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err.decode()
    summary = json.loads(out)
    assert summary["interrupted"]
    assert summary["frames"] >= 5
