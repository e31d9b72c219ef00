"""Training of the model's parts: a control field with labels of bad frames, and planning."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support import new_parts

from pyanticip.errors import OptionError
from pyanticip.models import save_checkpoint
from pyanticip.models.core.part import LossContext
from pyanticip.models.parts.field.control_field import (
    FieldOutput,
    FieldTrace,
    distrust_loss,
    risk_loss,
    risk_nll,
)
from pyanticip.models.parts.planning.targets import PlanChoice
from pyanticip.models.parts.registry import PARTS
from training.data.batches import Windows
from training.tasks.motion.data import RECIPES, TrainingData
from training.tasks.motion.module import PIECES, MotionModule, new_model
from training.tasks.motion.planning import codes_of, fit_codebook, fitted, plans_for
from training.tasks.motion.task import fit, load_run
from training.tasks.motion.windows import Feed, Part

PLAN = {"planning": True, "plan_codes": 12, "plan_tokens": 20, "plan_inference": "passes"}


@pytest.fixture(scope="module")
def labelled(data):
    """The synthetic data, half of its clips with labelled glitches."""
    train = []
    for number, example in enumerate(data.train):
        if number % 2:
            train.append(example)
            continue
        rng = np.random.default_rng(number)
        bad = np.arange(len(example)) // 10 % 5 == 3
        features = example.features.copy()
        features[bad, 132:198] += rng.normal(0.0, 8.0, (int(bad.sum()), 66)).astype(np.float32)
        train.append(replace(example, features=features, bad=bad))
    return TrainingData("made up", train, data.originals, data.validation, "digest")


def part_of(options, data, step=0):
    return Feed(Windows(data.train), options, options.config()).update(step)[0]


def test_a_risk_needs_a_field_and_frames_that_are_known_to_be_bad(tiny, data, labelled, tmp_path):
    with pytest.raises(OptionError, match=r"loss.risk: 0.2 needs a model with model.control_field"):
        tiny(loss={"risk": 0.2})
    options = tiny(loss={"risk": 0.2}, model={"control_field": True})
    with pytest.raises(OptionError, match=r"none of the 4 clips and copies of made up says"):
        fit(options, tmp_path / "none", data=data)
    with pytest.raises(OptionError, match=r"loss.distrust: 0.1 needs a model with model.field_input"):
        tiny(loss={"distrust": 0.1}, model={"control_field": True})
    options = tiny(loss={"distrust": 0.1}, model={"control_field": True, "field_input": True})
    with pytest.raises(OptionError, match=r"none of the 4 clips and copies of made up says"):
        fit(options, tmp_path / "none", data=data)
    assert not (tmp_path / "none").exists()
    assert RECIPES["glitched"].glitches is not None


def test_the_risk_learns_which_frames_are_bad(tiny, labelled, tmp_path):
    """Without the loss the same field does not learn the risk."""
    found = {}
    for weight in (0.0, 1.0):
        options = tiny(
            model={"control_field": True},
            loss={"risk": weight},
            schedule={"steps": 10, "peak_lr": 0.02, "ema": 0.8},
            run={"validate_every": 16, "save_every": 16, "tensorboard": False},
        )
        out = tmp_path / str(weight)
        fit(options, out, data=labelled)
        model = load_run(out)
        example = labelled.train[2]
        with torch.no_grad():
            risk = model(torch.from_numpy(example.features)[None]).field.fast[0].risk[0].numpy()
        found[weight] = risk[example.bad].mean() / risk[~example.bad].mean()
    assert found[1.0] > 3.0
    assert found[1.0] > 2.0 * found[0.0]


def test_the_field_is_in_the_loss_of_a_part(tiny, labelled):
    options = tiny(
        model={"control_field": True, "field_input": True, "dropout": 0.0},
        loss={"risk": 0.5, "field": 7.0, "distrust": 3.0},
    )
    part = part_of(options, labelled)
    model = new_model(options, torch.zeros(279), torch.ones(279))
    totals = {}
    for loss in ({"risk": 0.5, "field": 7.0}, {"risk": 0.0, "field": 0.0, "distrust": 0.0}):
        module = MotionModule(model, torch.ones(8, 5), options.replace(loss=loss))
        with torch.no_grad():
            totals[loss["risk"]] = module.training_step(part)
    out = model(part.batch.features, predicted=part.own)
    risk = float(totals[0.5]["parts"][PIECES.index("risk")])
    assert risk > 0.0
    with torch.no_grad():
        own = distrust_loss(out.distrust, part.batch.bad, part.batch.weight, part.batch.divisors[1]).item()
        blocks = risk_loss(out.field, part.batch.bad, part.batch.weight, 10, part.batch.divisors[1]).item()
        field = out.field.loss(part.batch.weight, 10, part.batch.divisors[1]).item()
    assert risk == pytest.approx(own + blocks, rel=1e-5)
    assert float(totals[0.5]["loss"] - totals[0.0]["loss"]) == pytest.approx(
        0.5 * risk + 7.0 * field + 3.0 * own, rel=1e-4
    )


def test_codes_are_those_of_the_clip_and_end_with_it(tiny, data):
    options = tiny(model=PLAN)
    model = new_model(options, torch.zeros(279), torch.ones(279))
    lost = fit_codebook(model, data.originals)
    assert 0.0 < lost < 0.95
    counts, _ = fitted(model.codebook, data.originals)
    assert counts.sum() == sum(map(len, data.originals))
    torch.testing.assert_close(model.planning.log_frequency.exp().sum(), torch.tensor(1.0))
    windows = Windows(data.train)
    for step in range(4):
        part = Feed(windows, options, options.config()).update(step)[0]
        chosen, first, length = windows.choose(
            np.random.default_rng([options.schedule.seed, 1, step]), options.schedule.batch_frames
        )
        codes = codes_of(model, part)
        assert codes.shape == (len(chosen), length + 20)
        for row, number, begin in zip(codes, chosen, first, strict=True):
            wanted = model.codebook(
                torch.from_numpy(data.train[number].features[begin : begin + length + 20])
            )
            torch.testing.assert_close(row[: len(wanted)], wanted)
            assert (row[len(wanted) :] == -1).all()


def test_plans_are_drawn_in_training_and_an_empty_one_says_nothing(tiny, data):
    options = tiny(model=PLAN)
    model = new_model(options, torch.zeros(279), torch.ones(279))
    fit_codebook(model, data.originals)
    part = part_of(options, data)
    codes = codes_of(model, part)
    length = part.batch.features.shape[1]
    shown = plans_for(model, codes, length)
    assert shown.codes.shape[:2] == codes[:, :length].shape
    assert (shown.weights[:, 1:].sum(-1) > 0.0).any()
    # An empty plan gives the same output as a model without plans.
    model.eval()
    rows = part.batch.features
    with torch.no_grad():
        codes = torch.zeros(len(rows), length, 1, dtype=torch.int64)
        nothing = PlanChoice(codes, codes.float())
        empty = model(rows, plan=nothing)
        planless = new_model(tiny(), torch.zeros(279), torch.ones(279)).eval()
        weights = {n: v for n, v in model.state_dict().items() if n in planless.state_dict()}
        planless.load_state_dict(weights)
        torch.testing.assert_close(planless(rows).params, empty.params)


def test_an_anticipator_learns(tiny, data, tmp_path):
    options = tiny(
        model={**PLAN},
        loss={"plan": 1.0},
        schedule={"steps": 10, "peak_lr": 0.02, "ema": 0.9},
        run={"validate_every": 10, "save_every": 10, "log_every": 5, "tensorboard": False},
    )
    fit(options, tmp_path / "run", data=data)
    rows = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    column = rows[0].split(",").index("plan")
    first, last = (float(rows[i].split(",")[column]) for i in (1, -1))
    assert last < first - 0.2
    model = load_run(tmp_path / "run")
    assert model.codebook.centres.abs().sum() > 0.0
    with torch.no_grad():
        out = model(torch.from_numpy(data.validation[0].features)[None])
    assert out.plan.codes.shape[2] == 12
    assert out.anticipation.shape == (1, 130, 12)


def test_a_checkpoint_to_start_from_brings_its_parts_without_their_being_named(tiny, data, tmp_path):
    made = tiny(model={**PLAN, "control_field": True})
    path = save_checkpoint(tmp_path / "made", new_model(made, torch.zeros(279), torch.ones(279)))
    options = tiny(run={"init": str(path)}, schedule={"steps": 2})
    assert fit(options, tmp_path / "run", data=data)["finished"]
    assert load_run(tmp_path / "run").cfg.planning.codes == 12
    with pytest.raises(OptionError, match=r"none of the 4 clips and copies of made up says"):
        fit(options.replace(loss={"risk": 0.2}), tmp_path / "none", data=data)  # its field can learn a risk


def block(risk):
    return FieldOutput(risk, risk, risk, risk, risk)


def test_the_risk_is_taught_as_logistic_regression():
    torch.manual_seed(0)
    logits = torch.randn(3, 20, dtype=torch.float64, requires_grad=True)
    bad = (torch.rand(3, 20) < 0.3).double()
    weight = (torch.rand(3, 20) < 0.8).double()
    found = risk_loss(FieldTrace((block(torch.nn.functional.softplus(logits)),)), bad, weight, 10)
    wanted = torch.nn.functional.binary_cross_entropy_with_logits(logits, bad, weight, reduction="sum")
    assert found.item() == pytest.approx((wanted / weight.sum()).item(), rel=1e-9)
    (gradient,) = torch.autograd.grad(found, logits)
    torch.testing.assert_close(gradient, (torch.sigmoid(logits) - bad).detach() * weight / weight.sum())
    assert torch.isfinite(risk_nll(torch.zeros(4), torch.tensor([0.0, 1.0, 0.0, 1.0]))).all()


def test_a_pool_is_bad_if_one_of_its_frames_is_and_parts_add_up():
    torch.manual_seed(1)
    fast, slow = torch.rand(4, 25), torch.rand(4, 2)
    bad = torch.zeros(4, 25)
    bad[0, 13] = 1.0
    weight = torch.ones(4, 25)
    weight[3] = 0.0
    found = risk_loss(FieldTrace((block(fast),), (block(slow),)), bad, weight, 10)
    labels = torch.zeros(4, 2)
    labels[0, 1] = 1.0
    quick = (risk_nll(fast, bad) * weight).sum() / weight.sum()
    pooled = 10.0 * (risk_nll(slow, labels)[:3]).sum() / weight.sum()
    assert float(found) == pytest.approx(float((quick + pooled) / 2), rel=1e-6)
    halves = [
        risk_loss(
            FieldTrace((block(fast[rows]),), (block(slow[rows]),)), bad[rows], weight[rows], 10, divisor=37.5
        )
        for rows in (slice(0, 2), slice(2, 4))
    ]
    assert float(found) == pytest.approx(float(sum(halves)) / 2, rel=1e-6)


def test_the_padding_of_a_clip_does_not_enter_the_losses_of_parts(tiny, data):
    options = tiny(model={"control_field": True, "dropout": 0.0, **PLAN})
    example = data.train[0]
    short = replace(
        example,
        **{name: getattr(example, name)[:130] for name in ("quats", "features", "params")},
        onsets=example.onsets[example.onsets < 130],
        phrases=example.phrases[example.phrases < 130],
    )
    feed = Feed(Windows([short]), options, options.config())
    model = new_model(options, torch.zeros(279), torch.ones(279)).eval()
    found = []
    for length in (130, 160):
        chosen = first = np.zeros(1, np.int64)
        beyond, inside = feed._beyond(chosen, first, length)
        batch = feed.windows.gather(chosen, first, length)
        part = Part(batch, torch.zeros(1, length, dtype=torch.bool), length, 0, 0, beyond, inside)
        codes = codes_of(model, part)
        plan = PlanChoice(torch.zeros(1, length, 1, dtype=torch.int64), torch.zeros(1, length, 1))
        with torch.no_grad():
            out = model(batch.features, plan=plan)
            context = LossContext(out, ("field", "plan"), codes, batch.weight, stride=10)
            torch.manual_seed(0)
            losses = [each for one in model.parts() for each in one.losses(context).items()]
        found.append({name: float(value) for name, value in losses})
    assert found[1] == pytest.approx(found[0], rel=1e-5)
    assert set(found[0]) >= {"field", "plan", "simulator"}


def test_what_a_part_of_somebody_elses_is_trained_to_do_is_minimised(tiny, data, monkeypatch):
    monkeypatch.setitem(PARTS["control_field"], "surprise", new_parts.SURPRISE)
    options = tiny(model={"control_field": "surprise", "dropout": 0.0})
    model = new_model(options, torch.zeros(279), torch.ones(279))
    part, totals = part_of(options, data), []
    for _ in range(2):
        with torch.no_grad():
            totals.append(MotionModule(model, torch.ones(8, 5), options).training_step(part)["loss"])
        model.parts()[0].losses = lambda context: {}
    with torch.no_grad():
        out = model(part.batch.features, predicted=part.own)
    torch.testing.assert_close(totals[0] - totals[1], out.field.fast[0].far.mean(), rtol=1e-3, atol=1e-6)
