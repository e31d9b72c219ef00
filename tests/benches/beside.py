"""The last table of ``make bench``: the live path compared with alternatives, which alternate within one run.

python -P tests/benches/beside.py [SECONDS]
"""

import gc
import os
import socket
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from math import nan
from statistics import median

from pythonosc.osc_bundle_builder import IMMEDIATELY, OscBundleBuilder
from pythonosc.osc_message_builder import OscMessageBuilder
from rich.console import Console
from rich.table import Table

from pyanticip.vocabulary import PARAMETERS
from realtime.bench import latency, step
from realtime.sinks.base import ControlFrame
from realtime.sinks.config import OscConfig
from realtime.sinks.osc import OscSink

ABSENT = "not installed"
TURNS = 3
BUNDLES = 200
"""Bundles of a turn."""


def frame(number: int) -> ControlFrame:
    """A frame as live sends it: scalars and parameters that vary."""
    wave = [(number * (i + 3) % 100) / 100 for i in range(8)]
    return ControlFrame(number, number / 50, wave[:7], wave)


def python_osc(sender: socket.socket, port: int) -> Callable[[ControlFrame], None]:
    """The same bundle by python-osc, as in its manual."""

    def send(current: ControlFrame) -> None:
        bundle = OscBundleBuilder(IMMEDIATELY)
        messages = [("frame", [current.seq, current.seconds]), ("scalars", list(current.scalars))]
        messages += [(f"param/{name}", [current.params[i]]) for i, name in enumerate(PARAMETERS)]
        messages += [("params", list(current.params))]
        for name, values in messages:
            message = OscMessageBuilder(f"/anticip/{name}")
            for value in values:
                message.add_arg(value)
            bundle.add_content(message.build())
        sender.sendto(bundle.build().dgram, ("127.0.0.1", port))

    return send


def liblo(port: int) -> Callable[[ControlFrame], None]:
    """The same bundle by liblo, through pyliblo3."""
    import liblo as lo

    target = lo.Address("127.0.0.1", port)

    def send(current: ControlFrame) -> None:
        bundle = lo.Bundle(lo.Message("/anticip/frame", current.seq, current.seconds))
        bundle.add(lo.Message("/anticip/scalars", *current.scalars))
        for i, name in enumerate(PARAMETERS):
            bundle.add(lo.Message(f"/anticip/param/{name}", current.params[i]))
        bundle.add(lo.Message("/anticip/params", *current.params))
        lo.send(target, bundle)

    return send


def bundles_us() -> dict[str, float]:
    """Median time in microseconds to encode and send a frame's bundle, by encoder."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind(("127.0.0.1", 0))
        port = receiver.getsockname()[1]
        ours = OscSink(OscConfig(port=port))
        ways = {"ours": ours.send, "python-osc": python_osc(sender, port)}
        if find_spec("liblo") is not None:
            ways["liblo"] = liblo(port)
        took: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(TURNS + 1):
            for name, send in ways.items():
                for number in range(BUNDLES):
                    current = frame(number)
                    start_s = time.perf_counter()
                    send(current)
                    if turn:
                        took[name].append(1e6 * (time.perf_counter() - start_s))
        ours.close()
    return {name: median(values) for name, values in took.items()}


def live(seconds: float) -> dict[str, dict[str, float]]:
    """Milliseconds from datagram to OSC and share of a core, sleeping and spinning between datagrams;
    and of a bare UDP echo."""
    runs: dict[str, list[dict[str, float]]] = {"asleep": [], "awake": [], "echo": []}
    for _ in range(TURNS):
        for name in ("asleep", "awake"):
            found = latency.run(seconds / (2 * TURNS), spin=name == "awake")
            runs[name].append({**found["latency_ms"], "core": found["core"]})
            runs["echo"].append(found["echo_ms"])
            gc.collect()
    # A turn during which the machine stalled has no figure.
    return {
        name: {
            key: median([x for run in several if (x := run[key]) is not None] or [nan]) for key in several[0]
        }
        for name, several in runs.items()
    }


def table(seconds: float) -> Table:
    """Measure everything and return the table."""
    paced, sent = live(seconds), bundles_us()
    steps = {
        name: modes["warm"]["all"] for name, modes in step.run(max(seconds / 3, 4.0))["steps_us"].items()
    }
    echo = f"a bare UDP echo {paced['echo']['p50']:.2f}, {paced['echo']['p99']:.2f}"
    rivals = f"python-osc {sent['python-osc']:.0f}; liblo "
    rivals += f"{sent['liblo']:.0f}" if "liblo" in sent else ABSENT
    torch = f"{steps['torch']['p50']:.0f}" if "torch" in steps else ABSENT

    def both(name: str) -> str:
        return f"{paced[name]['p50']:.2f}, {paced[name]['p99']:.2f}"

    found = Table(title="the live path, paced at 50 Hz")
    for column in ("", "live path", "alternative"):
        found.add_column(column)
    rows = [
        ("datagram to OSC, ms, p50, p99", both("asleep"), echo),
        ("the same with --spin", both("awake"), echo),
        ("share of a core for one performer", f"{paced['asleep']['core']:.0%}", ""),
        ("a step of the model, us, p50", f"{steps['rust']['p50']:.0f}", f"torch {torch}"),
        ("a frame's bundle, encoded and sent, us", f"{sent['ours']:.0f}", rivals),
    ]
    for row in rows:
        found.add_row(*row)
    found.caption = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {seconds:g} s in {TURNS} turns"
    return found


if __name__ == "__main__":
    Console(width=150).print(table(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0))
