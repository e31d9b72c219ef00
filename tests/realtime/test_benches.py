"""The benches report what they measure; the times themselves are not tested."""

import contextlib
import json
import os
import signal
import socket
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from scipy.signal import resample
from support.wire import console_text

from pyanticip.bench import train as bench
from pyanticip.bench.train import peak_bytes
from pyanticip.cli import cli, terminal
from pyanticip.errors import OptionError
from pyanticip.models.checkpoint.manifest import MANIFEST, SHIPPED
from pyanticip.motion.datagrams import PROTOCOLS
from realtime import multi_show, show
from realtime.bench import latency, network, performers, sound
from realtime.bench.latency import run
from realtime.bench.network import NETWORKS, Played, arrive, away, compare, late, lossy, matched, stall
from realtime.bench.offline_listener import RATE, SILENCE, integrated
from realtime.programs.demo import DANCE, PERFORMANCE

KEYS = {
    "latency_ms", "jitter_ms", "frames", "missed", "dropped", "stages_us", "device", "model", "parameters",
}  # fmt: skip
STAGES = {"decode", "resample", "scalars", "step", "map", "send"}


@pytest.mark.slow
def test_bench_latency_reports_every_field() -> None:
    shipped = (SHIPPED / MANIFEST).is_file()
    result = run(1.0, model=shipped, priority=False)
    assert result.keys() >= KEYS | {"commit", "cpu", "threads", "late", "echo_late", "stamp", "prewarm"}
    assert set(result["latency_ms"]) == {"p50", "p90", "p99", "max"}
    assert set(result["stages_us"]) == STAGES
    assert all(set(stage) == {"p50", "p99"} for stage in result["stages_us"].values())
    assert result["frames"] + result["missed"] == 50
    assert result["bundles_received"] >= result["frames"]
    assert result["latency_ms"]["p50"] > 0
    assert (result["parameters"] > 0) is shipped
    json.dumps(result)


@pytest.mark.parametrize(
    ("bench", "number"),
    [*(("latency", signal.SIGINT), ("latency", signal.SIGHUP)), ("performers --count 1,2", signal.SIGTERM)],
)
def test_an_interrupted_bench_prints_nothing(monkeypatch, capfd, bench, number):
    peers, peer, obey = [], latency.start_peer, show.obey_signals

    @contextlib.contextmanager
    def interrupted(*args):
        with obey(*args):
            os.kill(os.getpid(), number)
            yield

    for module in (show, multi_show):
        monkeypatch.setattr(module, "obey_signals", interrupted)
    for module in (latency, performers):
        monkeypatch.setattr(module, "start_peer", lambda *role: peers.append(peer(*role)) or peers[-1])
    monkeypatch.setattr("sys.argv", ["pyanticip", "bench", *bench.split(), "--seconds", "60", "--no-model"])
    assert terminal.run(cli) == 130
    assert "".join(capfd.readouterr()).strip() == ""
    assert len(peers) == (2 if bench == "latency" else 1)
    assert all(process.returncode is not None for process in peers)


def test_ctrl_c_in_the_terminal_does_not_reach_the_peer():
    process = latency.start_peer("echo")
    try:
        assert os.getpgid(process.pid) != os.getpgid(0)
    finally:
        latency.close_peer(process)


def test_an_echo_process_ends_on_request():
    process = latency.start_peer("echo")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"end", ("127.0.0.1", int(process.stdout.readline())))
        assert latency.read_reply(process) == {"times_ms": []}
        assert process.wait(10) == 0, "its thread holds the lock of standard input"
    finally:
        latency.close_peer(process)


STEP = 16_666_667
SENT = [(i * STEP, bytes([i % 256])) for i in range(1200)]


def played(times, params, beats=()):
    return Played(np.asarray(times, float), np.asarray(params, float), np.asarray(beats, float))


def test_bursts_are_delayed_and_delivered_together():
    got = arrive(SENT, (away(1000, 150, lost=False),), "x")
    assert [d for _, d in got] == [d for _, d in SENT]
    held = [t for (t, _), (was, _) in zip(got, SENT, strict=True) if t - was > 1_000_000]
    assert len(held) == 9 * 20
    assert {t // 1_000_000_000 * 1_000_000_000 for t in held} == {s * 1_000_000_000 for s in range(1, 21)}
    assert max(t % 1_000_000_000 for t in held) < 50_000
    assert np.diff([t for t, _ in got]).min() == 2_000


def test_gaps_and_losses_drop_frames_but_never_the_first():
    got = arrive(SENT, (away(2000, 300, lost=True),), "x")
    assert np.diff([t for t, _ in got]).max() == pytest.approx(0.3e9, abs=2 * STEP)
    assert set(got) <= set(SENT)
    for share in (0.05, 0.2):
        assert len(arrive(SENT, (lossy(share),), "x")) == pytest.approx(1200 * (1 - share), abs=40)
    assert arrive(SENT, (lossy(1.0),), "x") == SENT[:1]


def test_jitter_has_its_deviation_and_keeps_the_order():
    slow = [(i * 1_000_000_000, b"") for i in range(4000)]
    delays = [t - was for (t, _), (was, _) in zip(arrive(slow, (late(6.4),), "x")[1:], slow[1:], strict=True)]
    assert min(delays) >= 0
    assert np.std(delays) / 1e6 == pytest.approx(6.4, rel=0.05)
    assert np.diff([t for t, _ in arrive(SENT, (late(6.4),), "x")]).min() > 0
    assert arrive(SENT, (late(6.4),), "x") == arrive(SENT, (late(6.4),), "x")
    assert arrive(SENT, (late(6.4),), "x") != arrive(SENT, (late(6.4),), "y")


def test_a_stall_delays_eight_seconds():
    got = arrive(SENT, (stall,), "x")
    assert len(got) == len(SENT)
    assert np.diff([t for t, _ in got]).max() == pytest.approx(8e9, abs=STEP)


def test_error_is_the_difference_over_the_deviation_of_moving_parameters():
    times = np.arange(0, 10, 0.02)
    clean = np.zeros((500, 8))
    clean[:, 0] = np.sin(times * 2 * np.pi)
    clean[:, 1] = 0.001 * np.sin(times * 2 * np.pi)
    other = clean.copy()
    other[:, 0] += 0.1
    other[:, 1] += 0.1
    found = compare([played(times, clean)], [played(times, other)])
    assert found["error"] == pytest.approx(0.1 / np.sqrt(0.5), rel=0.01)
    assert compare([played(times, clean)], [played(times, clean)])["error"] == 0.0
    assert (found["per_second"], found["sd_ms"]) == (pytest.approx(50, abs=0.2), 0.0)
    # A frame of delay is an error by the movement in that time: nothing is shifted.
    late_by = compare([played(times, clean)], [played(times + 0.02, clean)])["error"]
    assert late_by == pytest.approx(2 * np.sin(np.pi * 0.02), rel=0.1)
    # In proportion to the delay: a nanosecond does not count as a frame.
    assert compare([played(times, clean)], [played(times + 1e-9, clean)])["error"] < 0.001
    half = compare([played(times, clean)], [played(times + 0.01, clean)])["error"]
    assert half == pytest.approx(late_by / np.sqrt(2), rel=0.01)


def test_a_burst_raises_the_number_of_bundles_within_a_tenth_of_a_second():
    times = np.arange(0, 10, 0.02)
    once = np.where((times >= 4) & (times < 5), 5.0 + 1e-6 * np.arange(500), times)
    assert compare([played(times, np.zeros((500, 8)))], [played(once, np.zeros((500, 8)))])["most"] == 56


def test_beats_pair_up_one_to_one_within_50_ms():
    assert matched([1.0, 2.0, 3.0], [1.04, 2.06, 2.96, 3.01]) == [(0, 0), (2, 2)]
    assert matched([1.0, 1.06], [1.03]) == [(0, 0)]
    times, still = np.arange(0, 10, 0.02), np.zeros((500, 8))
    found = compare([played(times, still, [1.0, 3.0, 4.0])], [played(times, still, [3.02, 5.0, 6.0])])
    assert (found["of"], found["beats"], found["false"], found["error"]) == (2, 0.5, 1.0, None)
    # Around 2 s, where counting starts: a beat is not false because its match is before.
    about, shifted = [1.97, 3.0, 4.0], [2.01, 3.0, 4.0]
    for one, other in ((about, about), (about, shifted), (shifted, about)):
        found = compare([played(times, still, one)], [played(times, still, other)])
        assert (found["of"], found["beats"], found["false"]) == (sum(b >= 2 for b in one), 1.0, 0.0)


def test_the_command_prints_its_tables_the_same_every_time(monkeypatch):
    monkeypatch.setattr(network, "RATES", (60.0,))
    monkeypatch.setattr(network, "PROTOCOLS", PROTOCOLS[:3])
    monkeypatch.setattr(network, "SUITS", (("vmc", 60.0),))
    monkeypatch.setattr(network, "NETWORKS", {"5 % lost": NETWORKS["5 % lost"]})
    measured, measure = [], network.run
    monkeypatch.setattr(network, "run", lambda *a, **k: measured.append(measure(*a, **k)) or measured[-1])
    command = ["bench", "network", str(DANCE), "--seconds", "5"]
    as_json, shown = (CliRunner().invoke(cli, [*command, way]) for way in ("--json", "--markdown"))
    assert as_json.exit_code == 0, as_json.output
    found, again = measured
    assert json.loads(as_json.output) == found == again
    assert [row["name"] for row in found["rates"]] == [f"{protocol}, 60 Hz" for protocol in PROTOCOLS[:3]]
    errors = [row["error"] for row in found["off"]]
    assert errors == sorted(errors)
    assert 0.0 < errors[0] < 0.1
    undisturbed, lost = found["networks"]
    assert (undisturbed["error"], undisturbed["beats"]) == (0.0, 1.0)
    assert 0.0 < lost["error"] < 0.5
    assert 45 < lost["per_second"] < 55
    page = network.markdown(found)
    assert "| vmc, 60 Hz |" in page
    assert page.count("| 5 % lost |") == 1
    assert shown.output.strip() == page.strip()


def test_bad_input_is_one_line(tmp_path):
    short = tmp_path / "short.bvh"
    text = (network.Path(network.__file__).parents[1] / "data" / "performance.bvh").read_text().splitlines()
    at = next(i for i, line in enumerate(text) if line.startswith("Frames:"))
    short.write_text("\n".join([*text[:at], "Frames: 100", *text[at + 1 : at + 102]]) + "\n")
    with pytest.raises(OptionError, match=r"short.bvh: expected 4 s of motion or more, has 2\.0"):
        network.run((short,), 5.0)


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(bench, "PAIRS", 2)
    monkeypatch.setattr(bench, "POSITIONS", (4, 9))
    monkeypatch.setattr(bench, "LENGTHS", (32,))
    monkeypatch.setattr(bench, "TOKENS", 64)


def test_the_command_reports_ratio_memory_and_decoding(short):
    before = torch.get_num_threads()
    done = CliRunner().invoke(cli, ["bench", "train", "--seconds", "1", "--device", "cpu", "--json"])
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    row = result["train"][0]
    assert row["length"] == 32
    assert row["batch"] == 2
    assert row["pairs"] >= 2
    assert row["ratio"]["q25"] <= row["ratio"]["median"] <= row["ratio"]["q75"]
    ours, plain = row["parameters"]
    assert plain == pytest.approx(ours, rel=0.01)
    assert min(result["memory"][0][n] for n in ("fused", "reference", "plain")) > 0
    assert set(result["decode"]["us"]["anticipatory"]) == {"4", "9"}
    assert torch.get_num_threads() == before
    assert "fused" in console_text(bench.table(result))


def test_measurements_without_time_are_left_out_and_named(short, monkeypatch):
    def slow(size, length, threads, *_):
        time.sleep(1.1)
        return {"threads": threads, "length": length}

    monkeypatch.setattr(bench, "_training", slow)
    monkeypatch.setattr(bench, "_memory", lambda size, length, on: {"length": length})
    monkeypatch.setattr(bench, "_decoding", lambda *_: {})
    monkeypatch.setattr(bench, "LENGTHS", (32, 64))
    monkeypatch.setattr(bench, "cores", lambda: 1)
    result = bench.run(1.0, device="cpu")
    assert [row["length"] for row in result["train"]] == [32]
    assert result["memory"] == [{"length": 32}]
    assert result["left_out"] == ["length 64, 1 thread", "memory at length 64"]


def test_peak_memory_counts_tensors_that_live_at_once():
    def two_at_once():
        a = torch.zeros(1 << 18)  # 1 MiB
        b = a + 1
        del a
        return b + 1

    def one_at_a_time():
        for _ in range(8):
            torch.zeros(1 << 18)

    device = torch.device("cpu")
    assert peak_bytes(two_at_once, device) == pytest.approx(2 << 20, rel=1e-3)
    assert peak_bytes(one_at_a_time, device) == pytest.approx(1 << 20, rel=1e-3)


def test_memory_of_a_step_is_linear_in_the_length():
    small, large = (bench._memory("small", length, torch.device("cpu")) for length in (64, 256))
    assert large["fused"] < 4.1 * small["fused"]
    assert large["reference"] > 6 * small["reference"]


@pytest.mark.slow
def test_two_suits_are_measured_together(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = performers.run("2", 1.0, phases="even", model=False, picture=tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    (row,) = result["counts"]
    assert row["frames"] + row["missed"] == 100
    assert 0.0 < row["cpu"] < 2.0
    assert row["latency_ms"]["p50"] > 0.0
    assert row["bundles_received"] >= row["frames"]
    assert performers.table(result).splitlines()[2].startswith("| 2 | ")


@pytest.mark.parametrize("count", ["", "two", "0", "1,1000"])
def test_invalid_counts_are_refused(count: str) -> None:
    with pytest.raises(OptionError, match="count"):
        performers.run(count)


@pytest.mark.parametrize("lag", [-173.0, -20.0, 0.0, 7.0, 64.0, 250.0])
def test_a_known_lag_is_found(lag):
    rng = np.random.default_rng(2)
    fine = resample(rng.normal(size=60), 30_000)
    at = np.arange(1000, 29_000, 10)
    found, fit = sound.lag_ms(fine[at - round(lag)], fine[at])
    assert found == pytest.approx(lag, abs=1.0)
    assert fit > 0.99


def test_a_constant_curve_has_no_lag():
    moves, still = np.sin(np.arange(400) / 20.0), np.zeros(400)
    assert [sound.lag_ms(*curves) for curves in ((moves, still), (still, moves), (still, still))] == [
        (None, None)
    ] * 3


def test_the_envelope_of_a_sound_has_no_delay():
    t = np.arange(48_000 * 4) / 48_000
    loud = 0.5 + 0.4 * np.sin(2 * np.pi * 1.0 * t)
    sine = (loud**2 * np.sin(2 * np.pi * 440 * t)).astype(np.float32)
    level = sound.envelope(np.column_stack([sine, sine]))
    assert len(level) == 400
    found, fit = sound.lag_ms(level, loud[np.arange(400) * 480])
    assert found == pytest.approx(0.0, abs=1.0)
    assert fit > 0.99


def test_beats_are_paired_once():
    errors = sound.nearest_errors(np.array([1.0, 2.0, 3.0]), [1.02, 1.05, 2.2, 2.97])
    assert errors == pytest.approx([0.02, -0.03])
    assert sound.nearest_errors(np.zeros(0), [1.0]) == []


@pytest.mark.slow
def test_bench_sound_measures_lead_and_delay():
    result = sound.run([PERFORMANCE], ["default"], 6.0, beats=lambda quats: np.array([150, 200], np.int64))
    (row,) = result["rows"]
    assert result["lead_ms"] == "auto"
    assert row["beats"] == 2
    assert row["lead_ms"] > 40
    assert abs(row["sent_ms"]) < 200
    assert row["level_r"] > 0.5
    assert sound.markdown(result).count("\n") == 2
    with pytest.raises(OptionError, match="nobody"):
        sound.run([PERFORMANCE], ["nobody"], 6.0, beats=lambda quats: np.zeros(0, np.int64))


def tone(*parts: tuple[float, float]) -> np.ndarray:
    """Seconds of a stereo sine of 1 kHz at a peak level in dBFS."""
    levels = np.concatenate([np.full(round(s * RATE), 10 ** (db / 20)) for s, db in parts])
    sine = levels * np.sin(2 * np.pi * 1000 * np.arange(len(levels)) / RATE)
    return np.stack([sine, sine], axis=1)


@pytest.mark.parametrize(
    ("parts", "lufs"),
    [
        ([(5.0, -23.0)], -23.0),
        ([(5.0, -33.0)], -33.0),
        ([(2.5, -36.0), (15.0, -23.0), (2.5, -36.0)], -23.0),
        ([(2.5, -72.0), (2.5, -36.0), (15.0, -23.0), (2.5, -36.0), (2.5, -72.0)], -23.0),
        ([(5.0, -26.0), (5.0, -20.0), (5.0, -26.0)], -23.0),
    ],
)
def test_the_meter_reads_the_cases_of_ebu_tech_3341(parts, lufs):
    """Each tone a quarter as long as there."""
    assert integrated(tone(*parts)) == pytest.approx(lufs, abs=0.1)


def test_the_meter_of_silence() -> None:
    assert integrated(np.zeros((RATE, 2))) == SILENCE
    assert integrated(np.zeros((100, 2))) == SILENCE
