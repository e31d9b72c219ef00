"""Models with parts in live use: torch steps them frame by frame, as it runs whole sequences."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.ear import Ear
from support.models import build

from pyanticip.errors import CheckpointError, DeviceError, OptionError, ShapeError
from pyanticip.models import load_motion_model, save_checkpoint
from pyanticip.models.checkpoint.manifest import read_manifest
from pyanticip.motion.recording import Output, RecordingWriter, read_recording
from realtime.bench.performer import mocopi_datagrams
from realtime.clock import OfflineClock
from realtime.control.commands import PlanControl
from realtime.rig import Rig
from realtime.sources.replay import Datagram, play_offline
from realtime.stage import assemble
from realtime.step.open import open_backend

COMBINATIONS = {
    "all": {
        "control_field": True,
        "planning": True,
        "positions": "trajectory",
        "slow_stride": 1,
        "kinematics": False,
    },
    "rope": {"positions": "rope", "bias": "random", "slow_layers": 1},
    "twin": {"twin": True, "positions": "alibi"},
    "trusted": {"control_field": True, "field_input": True, "positions": "prism", "slow_stride": 1},
}


def small(**changes):
    """A model near its initial weights, in which rounding errors do not grow."""
    sizes = {"d_model": 32, "fast_layers": 1, "window": 12, "pools": 5, "slow_stride": 3, "taps": 12}
    if changes.get("planning"):
        sizes |= {"plan_codes": 30, "plan_tokens": 6}
    whole = {"control_hidden": 16, "kinematics": True}
    model = build("motion", torch.float32, 0.03, **{**sizes, **whole, **changes})
    if model.planning is not None:
        with torch.no_grad():
            model.planning.anticipator.head.weight.mul_(3.0)
    return model


@pytest.fixture(scope="module", params=COMBINATIONS, name="folder")
def folder_fixture(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts") / request.param
    return save_checkpoint(folder, small(**COMBINATIONS[request.param]))


def same(one, other, tolerance=1e-4):
    for name in ("params", "hazards", "scalars", "gate", "hidden", "field"):
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, atol=tolerance, rtol=0)
    assert (one.plan is None) == (other.plan is None)
    if one.plan is not None:
        np.testing.assert_allclose(one.plan.weights, other.plan.weights, atol=tolerance)
        np.testing.assert_array_equal(
            np.where(one.plan.weights > 1e-3, one.plan.codes, -1),
            np.where(other.plan.weights > 1e-3, other.plan.codes, -1),
        )


def test_frames_are_those_of_the_whole(folder):
    """Across ring wrap-around, several rows at once, prewarming in between, and a new stream."""
    model, backend, bare = (
        load_motion_model(folder),
        open_backend("auto", folder),
        open_backend("torch", folder),
    )
    assert backend.name == "torch" or torch.cuda.is_available()
    rows = torch.randn(22, 279, generator=torch.Generator().manual_seed(1)).numpy()
    with torch.no_grad():
        whole = model(torch.from_numpy(rows)[None])
    at = 0
    for size in (1, 1, 3, 1, 2, *([1] * 9), 5):
        at += size
        backend.prewarm()
        guess = backend.imagine(rows[at - size : at]) if size == 1 else None
        found = backend.step(rows[at - size : at])
        if guess is not None:
            same(found, guess)
        same(found, bare.step(rows[at - size : at]))
        np.testing.assert_allclose(found.params, whole.params[0, at - 1].numpy(), atol=1e-4, rtol=0)
    assert (found.field is not None) == (model.cfg.control_field is not None)
    assert (found.plan is not None) == (model.cfg.planning is not None)
    if found.field is not None:
        assert found.field.shape == (1, 2)
        assert np.all((found.field[:, 0] > 0) & (found.field[:, 0] <= 1))
    backend.reset()
    newer = rows[:1].copy()
    newer[:, model.cfg.columns :] = 1.0
    same(backend.step(newer), open_backend("torch", folder).step(rows[:1]))
    with pytest.raises(ShapeError, match="finite"):
        backend.step(np.full((1, 279), np.nan, np.float32))
    backend.close()


def test_field_and_plan_are_told_and_recorded(folder, tmp_path):
    cfg = read_manifest(folder).config
    tape = tmp_path / "show.anticip"
    skeleton, frames = mocopi_datagrams(30)
    rig = Rig.model_validate({"model": {"checkpoint": str(folder)}, "memory": {"enabled": False}})
    clock, ear = OfflineClock(), Ear()
    pipeline = assemble(rig, clock, sinks=[ear])
    with RecordingWriter(tape) as pipeline.tape:
        shown = [Datagram(n * 20_000_000, data) for n, data in enumerate((skeleton, *frames))]
        play_offline(shown, clock, pipeline.feed)
    pipeline.close()
    outputs = [record for record in read_recording(tape) if isinstance(record, Output)]
    for told in (ear.frames[-1], outputs[-1]):
        assert bool(told.field) == (cfg.control_field is not None)
        assert bool(told.plan) == (cfg.planning is not None)
        if told.field:
            trust, curvature = told.field
            assert 0.0 < trust <= 1.0
            assert curvature >= 0.0
        if told.plan:
            codes, weights = zip(*told.plan, strict=True)
            assert all(0 <= code < 30 for code in codes)
            assert list(weights) == sorted(weights, reverse=True)
            assert sum(weights) == pytest.approx(1.0, abs=1e-5)


def test_wishes_come_by_remote_control(folder):
    backend = open_backend("torch", folder)
    control = PlanControl(SimpleNamespace(backend=backend))
    if not read_manifest(folder).config.planning:
        with pytest.raises(OptionError, match="no plans"):
            control.boost(1, 2.0)
        return
    rows = torch.randn(4, 231, generator=torch.Generator().manual_seed(1)).numpy()
    assert control.boost(7, 1000.0) == "7: +1000"
    assert control.boost(3, -2) == "3: -2, 7: +1000"
    backend.step(rows[:1])
    plan = backend.step(rows[1:2]).plan
    assert plan.codes[plan.weights.argmax()] == 7
    assert plan.weights.max() > 0.9
    assert control.boost(3, 0) == "7: +1000"
    assert control.boost() == "no boosts"
    backend.step(rows[2:3])
    plan = backend.step(rows[3:]).plan
    assert not (plan.codes[plan.weights > 0.9] == 7).any()
    for wrong in (np.zeros(3), np.full(30, np.inf)):
        with pytest.raises(ShapeError, match="30 finite"):
            backend.steer(wrong)
    for wrong, words in (
        ((30, 1.0), "0 to 29"),
        ((1.5, 1.0), "0 to 29"),
        ((1,), "a code and a boost, or nothing, got 1 argument$"),
        (("a", 1.0), "a number"),
    ):
        with pytest.raises(OptionError, match=words):
            control.boost(*wrong)


def test_without_torch_it_is_told_what_to_install(folder, monkeypatch):
    with pytest.raises(CheckpointError, match="torch alone steps it: --backend torch"):
        open_backend("rust", folder)
    monkeypatch.setattr("realtime.step.open.find_spec", lambda name: None)
    with pytest.raises(DeviceError, match=r"torch alone steps it: pip install 'pyanticip\[gpu\]'$"):
        open_backend("auto", folder)
