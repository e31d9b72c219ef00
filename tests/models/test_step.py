"""The live backends: equal outputs, prewarming without effect on the state, clear errors."""

import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from support.models import as_kept, build, rows_of

import realtime
from pyanticip.controls import EventTrigger
from pyanticip.errors import CheckpointError, DeviceError, OptionError, ShapeError
from pyanticip.models import load_motion_model, save_checkpoint
from pyanticip.models.checkpoint.manifest import MANIFEST, SHIPPED
from pyanticip.models.core.gates import decide
from pyanticip.motion.load import load_motion
from pyanticip.vocabulary import RATE
from realtime.bench.step import run, table
from realtime.step.open import open_backend

TWIN = {"twin": True, "strokes": True, "kinematics": True, "d_model": 48, "taps": 12}
DEMO_DANCE = Path(realtime.__file__).parent / "data" / "dance.bvh"
FIELDS = ("params", "hazards", "scalars", "gate", "hidden")

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
KINDS = ["rust", "torch", pytest.param("cuda-graph", marks=needs_cuda)]


def noise(rng, count):
    """Random feature rows with valid rotations."""
    return rows_of(rng, rng.standard_normal((count, 22, 3, 3)))


def assert_close(a, b, tolerance):
    for name in FIELDS:
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), atol=tolerance, rtol=0)


@pytest.mark.parametrize(
    "twin", [{}, TWIN, {**TWIN, "scaled": True, "pose_window": 20}], ids=["none", "twin", "scaled"]
)
@needs_cuda
def test_graphs_equal_torch_over_long_streams_with_wrap_around_and_resets(saved, tmp_path, twin):
    """As the Rust core does (``test_motion_stream.py``)."""
    if twin:
        saved = save_checkpoint(tmp_path / "twin", build("motion", torch.float32, 0.05, **twin))
    rng = np.random.default_rng(0)
    one, two = open_backend("cuda-graph", saved), open_backend("torch", saved)
    for i in range(32):
        if i in (9, 10, 18):
            one.reset()
            two.reset()
        rows = noise(rng, rng.integers(1, 6))
        a, b = one.step(rows), two.step(rows)
        assert_close(a, b, 1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_imagined_is_what_a_step_says_and_like_prewarming_changes_nothing_that_follows(saved, kind):
    rng = np.random.default_rng(5)
    backend, undisturbed = open_backend(kind, saved), open_backend(kind, saved)
    for _ in range(90):
        rows, others = rng.standard_normal((2, 1, 231)).astype(np.float32)
        backend.imagine(others)
        guess = backend.imagine(rows)
        backend.prewarm()
        step, expected = backend.step(rows), undisturbed.step(rows)
        assert all(np.array_equal(getattr(guess, n), getattr(step, n)) for n in FIELDS)
        assert all(np.array_equal(getattr(step, n), getattr(expected, n)) for n in FIELDS)


@pytest.mark.parametrize("kind", KINDS)
def test_several_rows_equal_one_by_one_and_reset_starts_afresh(saved, kind):
    rows = np.random.default_rng(3).standard_normal((20, 231)).astype(np.float32)
    backend = open_backend(kind, saved)
    together = backend.step(rows)
    backend.reset()
    for row in rows:
        single = backend.step(row[None])
    assert all(np.array_equal(getattr(together, n), getattr(single, n)) for n in FIELDS)


@pytest.mark.parametrize("kind", KINDS)
def test_performers_of_one_model_do_not_hear_each_other(saved, kind):
    """Copies share only the weights."""
    rows = np.random.default_rng(4).standard_normal((2, 20, 231)).astype(np.float32)
    one, two, alone = open_backend(kind, saved), open_backend(kind, saved), open_backend(kind, saved)
    for t in range(20):
        output = one.step(rows[0, t : t + 1])
        two.step(rows[1, t : t + 1])
        if t == 10:
            two.reset()
    last = open_backend(kind, saved)
    for backend in (alone, last):
        expected = backend.step(rows[0])
        assert all(np.array_equal(getattr(output, n), getattr(expected, n)) for n in FIELDS)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_any_type_and_layout(saved, kind):
    rows = np.random.default_rng(9).standard_normal((4, 231)).astype(np.float32)
    backend, others = open_backend(kind, saved), open_backend(kind, saved)
    expected = backend.step(rows)
    # A model of version 1's features reads the first columns of a row of version 2.
    newer = np.hstack((rows, np.ones((4, 48), np.float32)))
    for given in (rows.astype(np.float64), np.asfortranarray(rows), np.repeat(rows, 2, 0)[::2], newer):
        others.reset()
        actual = others.step(given)
        assert all(np.array_equal(getattr(actual, n), getattr(expected, n)) for n in FIELDS)


@pytest.mark.parametrize("kind", KINDS)
def test_results_are_the_receivers_own(saved, kind):
    rows = np.random.default_rng(4).standard_normal((2, 231)).astype(np.float32)
    backend = open_backend(kind, saved)
    first = backend.step(rows[:1])
    kept = first.params.copy()
    backend.step(rows[1:])
    backend.prewarm()
    assert np.array_equal(first.params, kept)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_rows_are_refused_and_change_nothing(saved, kind):
    backend = open_backend(kind, saved)
    rows = np.eye(2, 231, dtype=np.float32)
    backend.step(rows[:1])
    shapes = ((), 231, (1, 230), (1, 250), (0, 231))
    for wrong in (*map(np.zeros, shapes), np.full((1, 231), np.nan)):
        with pytest.raises(ShapeError, match="feature rows must be"):
            backend.step(wrong)
    untouched = open_backend(kind, saved)
    untouched.step(rows[:1])
    assert np.array_equal(backend.step(rows[1:]).hidden, untouched.step(rows[1:]).hidden)


@pytest.mark.parametrize("version", [1, 5])
def test_an_older_checkpoint_with_graphs_beside_its_weights_is_stepped(saved, tmp_path, version):
    folder = shutil.copytree(saved, tmp_path / "older")
    description = json.loads((folder / MANIFEST).read_text())
    description |= {"version": version, "graphs": "parts"}
    description["sha256"]["step.onnx"] = "0" * 64
    (folder / MANIFEST).write_text(json.dumps(description))
    (folder / "step.onnx").write_bytes(b"a graph")
    rows = noise(np.random.default_rng(8), 3)
    expected = open_backend("rust", saved).step(rows)
    for kind in ("rust", "torch", "auto"):
        assert_close(open_backend(kind, folder).step(rows), expected, 1e-5)


def test_unknown_backend_and_missing_checkpoint(saved, tmp_path):
    with pytest.raises(OptionError, match="auto, rust, torch, cuda-graph"):
        open_backend("gpu", saved)
    for kind in ("rust", "torch", "auto"):
        with pytest.raises(CheckpointError, match=r"model.json: no such file"):
            open_backend(kind, tmp_path / "nowhere")


@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA works here")
def test_cuda_graph_without_cuda(saved):
    with pytest.raises(DeviceError, match="CUDA does not work here"):
        open_backend("cuda-graph", saved)


def test_auto_is_rust_without_a_cuda_driver(saved, monkeypatch):
    monkeypatch.setattr("realtime.step.open.cuda_present", lambda: False)
    assert open_backend("auto", saved).name == "rust"


@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA works here")
def test_auto_falls_back_where_the_driver_is_there_but_torch_cannot_use_it(saved, monkeypatch):
    monkeypatch.setattr("realtime.step.open.cuda_present", lambda: True)
    assert open_backend("auto", saved).name == "rust"


def test_the_events_commitment_rule_is_the_models():
    rule, waited = EventTrigger(theta=0.8, max_buffer=5), torch.zeros(1, dtype=torch.int64)
    sure = np.tile([[0.9], [0.0]], 25)
    for g in np.random.default_rng(5).uniform(0.3, 0.9, 200):
        emit, waited = decide(torch.tensor([g]), waited, 0.8, 5)
        assert bool(emit[0]) == bool(rule.step(sure, float(g), 0.0, 1.0))  # the pause never exceeds this


@pytest.mark.skipif(not (SHIPPED / MANIFEST).is_file(), reason="no checkpoint comes with this tree")
def test_the_shipped_checkpoint_steps_alike_on_rust_and_torch(tmp_path):
    """Over resets and gaps, with wrapped rings; with the core's quantised weights, to rounding."""
    rng = np.random.default_rng(7)
    folder = save_checkpoint(tmp_path / "kept", as_kept(load_motion_model(SHIPPED)))
    one, two = open_backend("rust", folder), open_backend("torch", folder)
    same = open_backend("rust")
    for i in range(180):
        if i in (9, 150):
            for backend in (one, two, same):
                backend.reset()
        rows = noise(rng, 4 if i % 50 == 17 else 1)
        output, expected = one.step(rows), two.step(rows)
        assert_close(output, expected, 2e-5)
        assert_close(output, same.step(rows), 0.0)


@pytest.mark.skipif(not (SHIPPED / MANIFEST).is_file(), reason="no checkpoint comes with this tree")
def test_what_keeping_weights_in_bytes_costs_is_below_what_is_heard():
    """The shipped model against itself in single precision, on the dance that comes with the package."""
    rows = load_motion(DEMO_DANCE).retarget("humanoid").resample(RATE).features()[:600]
    one = open_backend("rust")
    with torch.no_grad():
        expected = load_motion_model(None)(torch.from_numpy(rows)[None]).params[0].numpy()
    off = np.stack([one.step(row[None]).params for row in rows]) - expected
    # A step of 7-bit MIDI is .008.
    assert np.abs(off).max() < 0.008
    assert np.sqrt(np.mean(np.square(off))) < 0.001


def test_bench_counts_cold_and_warm_steps_of_every_backend(saved, monkeypatch):
    monkeypatch.setattr("realtime.bench.step.TURN", 30)
    result = run(2.0, ["rust", "torch"], saved)
    assert json.loads(json.dumps(result)) == result
    assert not result["random"]
    for backend in ("rust", "torch"):
        for mode in ("cold", "warm"):
            kinds = result["steps_us"][backend][mode]
            assert kinds["fast"]["steps"] + kinds["slow"]["steps"] == kinds["all"]["steps"] == 20
            assert kinds["slow"]["steps"] == 7
            assert 0 < kinds["all"]["p50"] <= kinds["all"]["p99"]
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(table(result))
    assert "rust" in console.export_text()


def test_bench_refuses_a_backend_that_is_none(saved):
    with pytest.raises(OptionError, match="'auto'"):
        run(5.0, ["auto"], saved)


def test_bench_refuses_a_backend_that_is_named_and_absent(saved, monkeypatch):
    def absent(*_):
        raise DeviceError("no such device")

    monkeypatch.setattr("realtime.bench.step.open_backend", absent)
    with pytest.raises(DeviceError, match="no such device"):
        run(1.0, ["cuda-graph"], saved)
    assert run(1.0, None, saved)["skipped"]["rust"] == "no such device"


def test_bench_names_a_missing_checkpoint(tmp_path):
    with pytest.raises(CheckpointError, match=r"model.json: no such file"):
        run(1.0, ["rust"], tmp_path / "none")
