"""Learned baselines: causal, accurate on easy data, and cached."""

import numpy as np
import pytest
import torch

from training.data.examples import example_from_piece
from training.evaluate import baselines, learned
from training.evaluate.baselines import Baselines, Twins, simple_forecasts
from training.evaluate.learned import Recurrent, Ridge, ahead_of, fit_recurrent, inputs, past
from training.evaluate.measures import AHEAD
from training.teacher.kinematics import positions


def nothing(what, done, total):
    """A progress callback that does nothing."""


def test_what_rivals_see_ends_with_the_frame(move, example_of):
    """Causality: another future does not change inputs, histories and the fifteen baselines."""
    one, two = example_of(200, seed=4), example_of(200, seed=4)
    two.quats[120:] = move(200, 5)[120:].astype(np.float32)
    tuned = Baselines.load()
    for make in (inputs, lambda twins: past(twins).transpose(1, 0, 2)):
        found = [make(Twins(example.quats)) for example in (one, two)]
        assert np.array_equal(found[0][:120], found[1][:120])
        assert not np.allclose(found[0][120:], found[1][120:])
    told = [simple_forecasts(Twins(example.quats), tuned) for example in (one, two)]
    assert len(told[0]) == 15
    for name in told[0]:
        assert told[0][name].shape == (200, 8, 3)
        assert np.array_equal(told[0][name][:120], told[1][name][:120]), name


def test_inputs_are_places_speeds_and_the_turn_of_a_body_as_if_it_faced_ahead():
    yaw = 0.8 * np.arange(80) / 50.0
    quats = np.zeros((80, 22, 4))
    quats[..., 0] = 1.0
    quats[:, 0, 0], quats[:, 0, 2] = np.cos(yaw / 2), np.sin(yaw / 2)
    # An arm moves up and down while the body turns evenly.
    lift = 0.5 * np.sin(np.arange(80) / 9.0)
    quats[:, 7, 0], quats[:, 7, 3] = np.cos(lift / 2), np.sin(lift / 2)
    twins = Twins(quats.astype(np.float32))
    found = inputs(twins)
    ahead = quats.copy()
    ahead[:, 0] = (1.0, 0.0, 0.0, 0.0)
    places = positions(ahead, upright=True)[:, 1:].reshape(80, 63)
    np.testing.assert_allclose(found[:, :63], places, atol=1e-5)
    np.testing.assert_allclose(3.0 * found[2:, 63:126], 25.0 * (places[2:] - places[:-2]), atol=1e-3)
    np.testing.assert_allclose(3.0 * found[2:, 126], 0.8, atol=1e-4)
    np.testing.assert_array_equal(found[:2, 63:127], 0.0)
    seen = [*(twins.at(ms) for ms in (0, 20, 60, 160)), twins.mean(1), twins.mean(4)]
    np.testing.assert_allclose(found[:, 127:], np.concatenate(seen, axis=1), atol=1e-6)
    history = past(twins)
    for lag, back in ((0, 0), (4, 4), (9, 20), (13, 50)):
        np.testing.assert_array_equal(history[:, 60, lag], twins.at(0)[60 - back])
        np.testing.assert_array_equal(history[:, 0, lag], twins.at(0)[0])


def test_means_are_those_of_the_last_seconds(example_of):
    twins = Twins(example_of(200).quats)
    rows = twins.at(baselines.MEAN_DELAY_MS)
    np.testing.assert_allclose(twins.mean(1)[120], rows[71:121].mean(axis=0))
    np.testing.assert_allclose(twins.mean(8)[10], rows[:11].mean(axis=0))
    np.testing.assert_allclose(twins.half(2), 0.5 * (rows + twins.mean(2)))


def test_ridge_finds_what_is_linear_and_leaves_noise_alone():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(5, 2))
    rows = [rng.normal(size=(300, 5)) + 2.0 for _ in range(6)]
    found = Ridge.fit(rows, [x @ truth + 0.3 for x in rows], list("aabbcc"))
    np.testing.assert_allclose(found.weights, truth, atol=1e-2)
    np.testing.assert_allclose(found(rows[0]), rows[0] @ truth + 0.3, atol=1e-2)
    # Inputs that do not generalise to people left out get the largest penalty.
    few = [rng.normal(size=(8, 5)) for _ in range(6)]
    vain = Ridge.fit(few, [rng.normal(size=(8, 2)) for _ in few], list("abcdef"))
    plain_fit = np.linalg.lstsq(np.concatenate(few), np.zeros((48, 2)), rcond=None)[0]
    assert np.abs(vain.weights).max() < 1.0
    assert plain_fit.shape == vain.weights.shape


def test_targets_are_what_comes_and_never_the_edges():
    params = np.arange(200.0)[:, None] * np.ones(8)
    span, came = ahead_of(params)
    assert (span.start, span.stop) == (27, 200 - 27 - 20)
    for i, h in enumerate(AHEAD):
        np.testing.assert_allclose(came[:, 0, i], np.arange(span.start, span.stop) + h)
    assert len(ahead_of(params[:60])[1]) == 0


def test_the_recurrent_rival_starts_as_half_hold_half_mean_and_learns(example_of, monkeypatch):
    twins = [Twins(example_of(300, seed=s).quats) for s in range(3)]
    rows, params = [inputs(one) for one in twins], [example_of(300, seed=s).params for s in range(3)]
    with torch.no_grad():
        first = Recurrent().eval()(torch.from_numpy(rows[0])[None])[0].numpy()
    np.testing.assert_allclose(first, np.repeat(twins[0].half(4)[:, :, None], 3, 2), atol=1e-5)
    for name, value in (("STEPS", 3), ("WINDOWS", 3), ("WINDOW", 100)):
        monkeypatch.setattr(learned, name, value)
    one, two = (fit_recurrent(rows, params, 0, nothing) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    monkeypatch.setattr(learned, "STEPS", 40)
    one = fit_recurrent(rows, params, 0, nothing)
    span, came = ahead_of(params[0])
    with torch.no_grad():
        said = one(torch.from_numpy(rows[0])[None])[0].numpy()
    assert np.abs(said[span] - came).mean() < 0.8 * np.abs(first[span] - came).mean()


def test_a_training_that_was_interrupted_ends_as_if_it_had_not_been(example_of, monkeypatch, tmp_path):
    for name, value in (("STEPS", 5), ("WINDOWS", 2), ("WINDOW", 60), ("SAVE_EVERY", 2)):
        monkeypatch.setattr(learned, name, value)
    clips = [example_of(150, seed=s) for s in range(2)]
    given = [inputs(Twins(one.quats)) for one in clips], [one.params for one in clips], 0
    whole, draft, steps = fit_recurrent(*given, nothing), tmp_path / "gru-0.draft", []

    def stop(what, done, total):
        if done == 5:
            raise KeyboardInterrupt

    def same(one):
        return all(torch.equal(a, b) for a, b in zip(one.parameters(), whole.parameters(), strict=True))

    with pytest.raises(KeyboardInterrupt):
        fit_recurrent(*given, stop, draft)
    torch.manual_seed(9)
    assert same(fit_recurrent(*given, lambda what, done, total: steps.append(done), draft))
    assert steps == [5]
    draft.write_bytes(draft.read_bytes()[:-40])
    assert same(fit_recurrent(*given, nothing, draft))


def test_rivals_are_fitted_once(piece_of, monkeypatch, tmp_path):
    for name, value in (("STEPS", 2), ("WINDOWS", 2), ("WINDOW", 60), ("SAVE_EVERY", 1)):
        monkeypatch.setattr(learned, name, value)
    pieces = [piece_of(150, seed=s, subject=f"0{s}") for s in range(2)]
    examples = [example_from_piece(piece) for piece in pieces]
    said, told = [], []
    say, tell = (lambda what, done, total: said.append(what)), told.append
    one = learned.fit(examples, pieces, tmp_path, say=say, tell=tell)
    assert set(said) == {"varied copies", "GRU"}
    assert not list(tmp_path.glob("*.draft"))
    assert told == ["fitting the rivals that learn: some ten minutes, once for this set"]

    def never(*told):
        pytest.fail("fitted again")

    again = learned.fit(examples, pieces, tmp_path, say=never, tell=never)
    twins = Twins(examples[0].quats)
    for name, answer in one.answers(twins).items():
        assert answer.shape == (150, 8, 3)
        assert np.array_equal(answer, again.answers(twins)[name]), name
    for name in ("ridge.npz", "own-3.npz", "gru-0.pt"):  # truncated, as by a full disk: fitted again
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-40])
    mended = learned.fit(examples, pieces, tmp_path, say=nothing).answers(twins)
    assert all(np.array_equal(answer, mended[name]) for name, answer in one.answers(twins).items())
    learned.fit(examples, pieces, tmp_path, say=lambda *told: pytest.fail("fitted again"))
    both = learned.fit(examples, pieces, tmp_path, seeds=2, say=nothing)
    assert list(both.answers(twins)) == ["ridge", "autoregression", "GRU, seed 0", "GRU, seed 1"]
