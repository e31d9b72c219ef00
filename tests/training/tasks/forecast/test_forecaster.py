"""The forecaster: causality, stream against batch, and checkpoints."""

import json
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pyanticip.errors import CheckpointError, OptionError, ShapeError
from pyanticip.models.core.encodings import polynomials
from pyanticip.models.forecast.forecaster import PoseForecaster, load_forecaster, save_forecaster
from pyanticip.models.forecast.manifest import ForecastConfig

SMALL = ForecastConfig(
    joints=5, observed=4, target=6, width=16, components=3, order=2, mirror=(0, 2, 1, 4, 3)
)


def random_model(config=SMALL, seed=0):
    """A model with random weights and normalisation, so that every input affects the output."""
    torch.manual_seed(seed)
    model = PoseForecaster(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.3 * torch.randn_like(p))
    windows = torch.cumsum(torch.randn(64, config.observed + config.target, config.joints, 3), 1)
    model.fit_normalisation(windows, 2.0)
    return model


def walk(batch, length, seed=1):
    draw = torch.Generator().manual_seed(seed)
    return torch.cumsum(torch.randn(batch, length, SMALL.joints, 3, generator=draw), 1)


def streamed(model, frames):
    state, said = model.initial_state(len(frames)), []
    for frame in frames.unbind(1):
        out, state = model.step(frame, state)
        said.append(out)
    return torch.stack(said, 1), state


@given(length=st.integers(1, 12), batch=st.integers(1, 3))
def test_step_by_step_is_all_at_once(length, batch):
    model, frames = random_model(), walk(batch, length)
    with torch.no_grad():
        whole = model(frames)
        steps, state = streamed(model, frames)
    assert whole.shape == (batch, length, 6, 5, 3)
    assert torch.allclose(whole, steps, atol=1e-4)
    assert state.frames.shape == (batch, 4, 5, 3)
    assert state.seen.tolist() == [length] * batch


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@torch.no_grad()
def test_it_forecasts_in_other_precisions(dtype):
    model, frames = random_model(), walk(2, 6)
    expected = model(frames)
    steps, state = streamed(model.to(dtype), frames.to(dtype))
    assert steps.dtype == state.frames.dtype == dtype
    if dtype == torch.float64:
        # Nothing is rounded to single precision on the way.
        model.outlet.bias += 1e-12
        assert not torch.equal(model(frames.double()), steps)
    else:
        assert float((steps - expected).abs().max()) < 0.1 * float(expected.abs().max())


def test_nothing_later_and_nothing_older_than_the_window_matters():
    model, frames = random_model(), walk(1, 12)
    frames = frames.requires_grad_()
    for t in range(12):
        (slope,) = torch.autograd.grad(model(frames)[0, t].square().sum(), frames)
        touched = slope[0].abs().sum((1, 2)) > 0
        assert touched.tolist() == [max(0, t - 3) <= k <= t for k in range(12)]
    changed = frames.detach().clone()
    changed[:, 7:] += 1e6
    with torch.no_grad():
        assert torch.equal(model(frames)[:, :7], model(changed)[:, :7])


def test_a_stream_that_begins_anew_forgets():
    model = random_model()
    with torch.no_grad():
        _, state = streamed(model, walk(1, 9))
        fresh, _ = model.step(walk(1, 1, seed=5)[:, 0], model.initial_state())
        other, _ = model.step(walk(1, 1, seed=5)[:, 0], state)
        restarted, _ = model.step(walk(1, 1, seed=5)[:, 0], state._replace(seen=torch.zeros_like(state.seen)))
    assert torch.equal(fresh, restarted)
    assert not torch.allclose(fresh, other)


def test_a_mirrored_body_is_forecast_mirrored():
    model, frames = random_model(), walk(2, 4)
    with torch.no_grad():
        there = model.mirrored(model.predict(frames))
        assert torch.allclose(model.predict(model.mirrored(frames)), there, atol=1e-4)
        assert torch.equal(model.mirrored(model.mirrored(frames)), frames)
        one = model.one_view(model.mirrored(frames))
    assert not torch.allclose(one, there, atol=1e-2)


def test_an_untrained_model_says_that_the_pose_stays():
    model, frames = PoseForecaster(SMALL).eval(), walk(2, 4)
    with torch.no_grad():
        said = model.predict(frames)
    assert torch.allclose(said, frames[:, -1:].expand_as(said), atol=1e-5)


def test_the_future_basis_spans_the_motion_it_is_fitted_to():
    ramp = torch.linspace(1, 6, 6)[:, None, None] * torch.randn(32, 1, 5, 3)
    windows = torch.cat((torch.zeros(32, 4, 5, 3), ramp), 1)
    model = PoseForecaster(SMALL)
    model.fit_normalisation(windows, 1.0)
    first = model.future_basis[0] / model.future_basis[0, 0]
    assert torch.allclose(first, torch.arange(1.0, 7.0), atol=1e-3)
    assert (model.future_basis[1:].abs() < 1e-3).all()


def test_polynomials_are_orthonormal_and_free_of_the_constant():
    basis = polynomials(10, 4)
    assert torch.allclose(basis.T @ basis, torch.eye(4), atol=1e-6)
    assert torch.allclose(basis.sum(0), torch.zeros(4), atol=1e-5)
    assert polynomials(25, 7, constant=True).shape == (8, 25)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"joints": 0}, "joints must be"),
        ({"order": 10}, "order must be below"),
        ({"components": 26}, "components must be at most"),
        ({"dropout": 1.0}, "dropout must be"),
        ({"mirror": (0, 1)}, "mirror must pair"),
        ({"joints": 3, "mirror": (1, 2, 0)}, "mirror must pair"),
    ],
)
def test_options_out_of_range(change, words):
    with pytest.raises(OptionError, match=words):
        ForecastConfig(**change)
    with pytest.raises(OptionError, match="did you mean width"):
        ForecastConfig.from_dict({"widht": 3})


def test_wrong_shapes():
    model = random_model()
    with pytest.raises(ShapeError, match="expected windows"):
        model.predict(torch.zeros(1, 3, 5, 3))
    with pytest.raises(ShapeError, match="expected positions"):
        model(torch.zeros(1, 0, 5, 3))
    with pytest.raises(ShapeError, match="expected a frame"):
        model.step(torch.zeros(2, 5, 3), model.initial_state(1))
    with pytest.raises(ShapeError, match="expected windows"):
        model.fit_normalisation(torch.zeros(2, 9, 5, 3), 1.0)


def test_a_checkpoint_gives_the_same_model_back(tmp_path):
    model, frames = random_model(), walk(2, 4)
    save_forecaster(tmp_path / "run", model, training={"steps": 3})
    again = load_forecaster(tmp_path / "run")
    assert again.cfg == SMALL
    assert not again.training
    with torch.no_grad():
        assert torch.equal(again.predict(frames), model.predict(frames))
    for file in (tmp_path / "run").iterdir():
        with pytest.raises(pickle.UnpicklingError):
            pickle.loads(file.read_bytes())
    assert sorted(f.name for f in (tmp_path / "run").iterdir()) == ["model.json", "model.safetensors"]


def test_broken_checkpoints_are_one_clear_error(tmp_path):
    folder = save_forecaster(tmp_path / "run", random_model())
    description = json.loads((folder / "model.json").read_text())

    def with_description(**change):
        (folder / "model.json").write_text(json.dumps({**description, **change}))

    with_description(version=99)
    with pytest.raises(CheckpointError, match="newer than"):
        load_forecaster(folder)
    with_description(format="anticip-motion")
    with pytest.raises(CheckpointError, match="expected that of a forecaster"):
        load_forecaster(folder)
    with_description(config={"width": -1})
    with pytest.raises(CheckpointError, match="width must be"):
        load_forecaster(folder)
    for garbled in ([], [1], None, "width"):
        with_description(config=garbled)
        with pytest.raises(CheckpointError, match=r"lacks a valid config$"):
            load_forecaster(folder)
    with_description(config={**description["config"], "width": 8})
    with pytest.raises(CheckpointError, match="does not fit"):
        load_forecaster(folder)
    with_description()
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x01")
    with pytest.raises(CheckpointError, match="damaged"):
        load_forecaster(folder)
    bad = random_model()
    with torch.no_grad():
        bad.inlet.bias[0] = torch.nan
    with pytest.raises(CheckpointError, match="not finite"):
        save_forecaster(tmp_path / "other", bad)
    assert not (tmp_path / "other").exists()
