"""Parts of planning: targets, losses, selection, the simulator, and the codebook of motion frames."""

import math

import numpy as np
import pytest
import torch
from scipy import special, stats
from torch import nn
from torch.distributions import Beta as TorchBeta
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from pyanticip import _core
from pyanticip.errors import OptionError, ShapeError
from pyanticip.models.core.plan import Plan, attend_plan
from pyanticip.models.parts.planning import targets as p
from pyanticip.models.parts.planning.codebook import PlanCodebook
from pyanticip.models.parts.planning.heads import AnticipationSimulator, Anticipator, Beta, _quantiles

VOCAB, HORIZON = 7, 4


@pytest.fixture(autouse=True)
def seeded():
    torch.set_num_threads(1)
    torch.manual_seed(0)


def log_scores(rows, steps, vocab=VOCAB):
    return torch.randn(rows, steps, vocab).log_softmax(-1)


def dense_of(ahead, vocab=VOCAB):
    """The target over all codes, (B, L, V)."""
    out = ahead.targets.new_zeros((*ahead.codes.shape[:2], vocab))
    return out.scatter_add(-1, ahead.codes.clamp(min=0), ahead.scores)


def target_by_hand(codes, step, horizon, vocab=VOCAB):
    target = [0.0] * vocab
    for d in range(1, horizon + 1):
        if step + d < len(codes):
            target[codes[step + d]] += math.log(horizon + 2 - d)
    total = sum(target)
    return [value / total if total else 0.0 for value in target]


def test_targets_follow_the_definition_to_the_end_of_the_sequence():
    codes = torch.randint(VOCAB, (3, 11))
    ahead = p.look_ahead(codes, HORIZON)
    dense = dense_of(ahead)
    for row in range(3):
        for step in range(11):
            expected = torch.tensor(target_by_hand(codes[row].tolist(), step, HORIZON))
            assert dense[row, step] == pytest.approx(expected, abs=1e-6)
            assert bool(ahead.whole[row, step]) == (step + HORIZON < 11)
    # Each code in one slot, and each target once.
    assert torch.equal((ahead.scores > 0).sum(-1), (dense > 0).sum(-1))
    assert ahead.targets.unique().tolist() == sorted(ahead.targets.tolist())


def test_codes_that_are_not_there_have_no_target():
    codes = torch.tensor([[3, -1, 3, -7, 5]])
    ahead = p.look_ahead(codes, 2)
    assert ahead.codes[0].tolist() == [[-1, 3], [3, -1], [-1, 5], [5, -1], [-1, -1]]
    assert ahead.around[0, :, :2].tolist() == [[-1, 3], [3, -1], [-1, 3], [3, -1], [-1, 5]]
    assert ahead.scores[0].tolist() == [[0, 1], [1, 0], [0, 1], [1, 0], [0, 0]]
    assert ahead.gone[0].long().tolist() == [[0, 0], [0, 0], [0, 1], [1, 0], [0, 1]]
    assert not bool(ahead.whole.any())
    for given in (codes, codes[:, :2], codes[:, :1]):
        assert p.look_ahead(given, 2, 0).around.shape == (1, 0, 4)


def test_losses_follow_the_definitions():
    codes = torch.randint(VOCAB, (2, 13))
    ahead = p.look_ahead(codes, HORIZON)
    output = log_scores(2, 13)
    ce, ul = p.anticipation_losses(output, ahead)
    for row in range(2):
        tokens = codes[row].tolist()
        for step in range(13):
            target = target_by_hand(tokens, step, HORIZON)
            says = output[row, step]
            cross = -sum(t * float(v) for t, v in zip(target, says, strict=True))
            past, future = (
                tokens[max(0, step - HORIZON + 1) : step + 1],
                tokens[step + 1 : step + 1 + HORIZON],
            )
            gone = set(past) - set(future)
            assert float(ce[row, step]) == pytest.approx(cross, abs=1e-5)
            expected = -sum(math.log1p(-math.exp(float(says[c]))) for c in gone)
            assert float(ul[row, step]) == pytest.approx(expected, abs=1e-5)


def test_selection_takes_what_stands_out():
    frequency = torch.tensor([0.5, 0.3, 0.1, 0.05, 0.03, 0.015, 0.005])
    scores = torch.tensor([[0.5, 0.1, 0.2, 0.1, 0.05, 0.03, 0.02]])
    found = p.select(scores.log(), frequency.log(), 4)
    contrast = (scores / frequency).log()[0]
    assert found.codes[0].tolist() == [6, 2, 3, 5] or found.codes[0].tolist()[0] == 6
    assert float(found.weights.sum()) == pytest.approx(1.0)
    expected = contrast[found.codes[0]].clamp(min=0)
    assert torch.allclose(found.weights[0], expected / expected.sum(), atol=1e-6)
    # Only codes with positive contrast: code 0 is as likely as frequent, code 1 less likely.
    everything = p.select(scores.log(), frequency.log(), 7)
    assert set(everything.codes[0][everything.weights[0] > 0].tolist()) == {2, 3, 4, 5, 6}
    nothing = p.select(frequency.log()[None], frequency.log(), 4)
    assert float(nothing.weights.sum()) == 0.0


def test_wishes_from_outside_enter_the_selection():
    frequency = torch.full((VOCAB,), 1.0 / VOCAB).log()
    output = log_scores(2, 3)
    boost = torch.zeros(VOCAB)
    boost[2], boost[5] = 9.0, -torch.inf
    found = p.select(output, frequency, 3, boost)
    assert bool((found.codes[..., 0] == 2).all())
    assert not bool(((found.codes == 5) & (found.weights > 0)).any())


@pytest.mark.parametrize("vocab", [9, 99], ids=["few codes", "more than are named"])
@pytest.mark.parametrize("paper", [False, True])
def test_plan_attention_follows_the_definition(paper, vocab):
    q, weight, table = torch.randn(2, 3, 2, 4), torch.randn(24, 8), torch.randn(vocab, 8)
    weights = torch.rand(2, 3, 5) * torch.tensor([1.0, 1.0, 0.0, 1.0, 1.0])
    weights = weights / weights.sum(-1, keepdim=True)
    weights[1, 0] = 0.0
    codes, marks, norm = torch.randint(vocab, (2, 3, 5)), torch.randn(2, 3, 8), nn.LayerNorm(8)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    embeddings = norm(table[codes] + marks[:, :, None])
    plan = Plan(codes, weights.log(), table, marks, norm, paper)
    found = attend_plan(q, plan, weight).view(2, 3, 2, 4)
    keys, values = (embeddings @ weight[8:].T).view(2, 3, 5, 2, 2, 4).unbind(3)
    for b, i, h in ((0, 0, 0), (1, 2, 1), (0, 1, 1)):
        kept = weights[b, i] > 0
        score = keys[b, i, kept, h] @ q[b, i, h]
        w = weights[b, i, kept]
        share = (score / 4).softmax(0) * w if paper else (score / 2 + w.log()).softmax(0)
        assert torch.allclose(found[b, i, h], share @ values[b, i, kept, h], atol=1e-5)
    assert not bool(found[1, 0].any())


@pytest.mark.parametrize("paper", [False, True])
def test_an_empty_plan_has_no_gradient(paper):
    q, weight = torch.randn(1, 2, 2, 4, requires_grad=True), torch.randn(24, 8, requires_grad=True)
    weights = torch.tensor([[[0.0, 0.0, 0.0], [0.5, 0.5, 0.0]]])
    codes, marks = torch.randint(5, (1, 2, 3)), torch.zeros(1, 2, 8)
    plan = Plan(codes, weights.log(), torch.randn(5, 8), marks, nn.LayerNorm(8), paper)
    gradients = torch.autograd.grad(attend_plan(q, plan, weight).square().sum(), (q, weight))
    assert all(bool(torch.isfinite(each).all()) for each in gradients)
    assert float(gradients[0][0, 0].abs().max()) == 0.0
    assert float(gradients[0][0, 1].abs().max()) > 0.0


@pytest.mark.parametrize("core", [True, False], ids=["core", "torch"])
@pytest.mark.parametrize("vocab", [6, 500])
def test_gradients_of_plan_attention_are_those_of_the_definition(monkeypatch, vocab, core):
    if not core:
        monkeypatch.setattr("pyanticip.models.core.plan._suits_core", lambda table: False)
        four_steps = 8 * 3 * 4
        monkeypatch.setattr("pyanticip.models.core.plan.MAX_CACHED_NUMBERS", four_steps)
    kind = {"dtype": torch.float64, "requires_grad": True}
    q, weight = torch.randn(2, 7, 2, 4, **kind), torch.randn(24, 8, **kind)
    table, marks = torch.randn(vocab, 8, **kind), torch.randn(2, 7, 8, **kind)
    norm = nn.LayerNorm(8).double()
    nn.init.normal_(norm.weight)
    codes = torch.randint(vocab, (2, 7, 3))
    log_weights = torch.randn(2, 7, 3, dtype=torch.float64)

    def written_out():
        embeddings = norm(table[codes] + marks[:, :, None])
        keys, values = F.linear(embeddings, weight[8:]).view(2, 7, 3, 2, 2, 4).unbind(3)
        scores = torch.einsum("blhd,blkhd->blhk", q, keys) / 2 + log_weights[:, :, None]
        return torch.einsum("blhk,blkhd->blhd", scores.softmax(-1), values).flatten(2)

    found = attend_plan(q, Plan(codes, log_weights, table, marks, norm), weight)
    torch.testing.assert_close(found, written_out())
    to, learned = torch.randn_like(found), (q, weight, table, marks, norm.weight, norm.bias)
    expected = torch.autograd.grad(written_out(), learned, to)
    torch.testing.assert_close(torch.autograd.grad(found, learned, to), expected)


def test_the_anticipator_starts_as_the_head_and_learns_its_temperature():
    anticipator = Anticipator(6, VOCAB)
    head = torch.randn(VOCAB, 6)
    anticipator.start_from(head)
    hidden = torch.randn(2, 3, 6)
    assert torch.allclose(anticipator(hidden), (hidden @ head.T).log_softmax(-1), atol=1e-6)
    with torch.no_grad():
        anticipator.log_tau.fill_(math.log(2.0))
    assert torch.allclose(anticipator(hidden), (hidden @ head.T / 2).log_softmax(-1), atol=1e-6)
    anticipator(hidden)[..., 0].sum().backward()
    assert float(anticipator.log_tau.grad.abs()) > 0


def test_beta_densities_and_quantiles():
    actual = Beta(torch.tensor([0.4, 2.0]), torch.tensor([30.0, 5.0]))
    at = torch.tensor([[0.01, 0.3], [0.02, 0.9], [0.5, 0.1]])
    found = actual.log_likelihood(torch.tensor(3.0), at.log().sum(0), torch.log1p(-at).sum(0))
    assert torch.allclose(found, TorchBeta(actual.alpha, actual.beta).log_prob(at).sum(0), atol=1e-5)
    quantiles = _quantiles(2.0, 60.0)
    expected = stats.beta(2.0, 60.0).ppf(special.expit(np.linspace(-16.0, 16.0, len(quantiles))))
    assert np.allclose(np.exp(quantiles), expected, rtol=1e-6, atol=2e-6)


def test_plans_are_drawn_as_by_sorting_scores_of_all_codes():
    """Mean contrasts by rank, and the frequency of each code in plans, against full draws. Codes differ in
    frequency, also within a band; three occur, of which one does not count and one is repeated."""
    rng, vocab, slots, draws = np.random.default_rng(0), 640, 5, 20_000
    frequency = rng.dirichlet(np.full(vocab, 3.0)).clip(1e-5)
    log_frequency = np.log(frequency / frequency.sum())
    comes, place = (np.array([each]).repeat(draws, 0) for each in ([3, 9, 7, 3], [2, 0, 1, 1]))
    shapes = np.array([[0.5, 400.0], [1.2, 80.0], [0.6, 30.0]])
    quantiles = _quantiles(*shapes[0])
    codes, found = np.zeros((draws, slots), np.int64), np.zeros((draws, slots))
    given = (comes, place, shapes, log_frequency, quantiles, 16.0, 5)
    _core.plan_draw(*given, codes, found)

    contrast = np.log(rng.beta(0.5, 400.0, (draws, vocab)).clip(1e-6)) - log_frequency
    for code, shape in ((3, shapes[2]), (7, shapes[1])):
        contrast[:, code] = np.log(rng.beta(*shape, draws).clip(1e-6)) - log_frequency[code]
    best = np.argsort(-contrast, -1)[:, :slots]
    assert np.allclose(found.mean(0), np.take_along_axis(contrast, best, -1).mean(0), atol=0.015)
    assert np.all(np.diff(found, axis=-1) <= 0.0)
    assert np.all(np.diff(np.sort(codes, -1), axis=-1) > 0), "no code twice"
    often, expected = (np.bincount(each.ravel(), minlength=vocab) for each in (codes, best))
    spread = np.sqrt(often + expected + 1.0)
    assert np.abs((often - expected) / spread).max() < 4.5
    assert min(expected[[3, 7]]) > 3000, "the comparison holds both kinds"

    again = np.zeros_like(codes)
    _core.plan_draw(*given, again, found)
    assert np.array_equal(codes, again), "the seed decides"


def fitted(target_to_mean, spread, steps=350):
    """A simulator fitted to an anticipator whose scores depend on the target in this way."""
    simulator = AnticipationSimulator(scale=HORIZON)
    optimiser = torch.optim.Adam(simulator.parameters(), lr=1e-2)
    vocab = 12
    for _ in range(steps):
        codes = torch.randint(vocab, (4, 16))
        ahead = p.look_ahead(codes, HORIZON)
        mean = target_to_mean(dense_of(ahead, vocab))
        output = TorchBeta(mean * spread, (1 - mean) * spread).sample().clamp(1e-6)
        optimiser.zero_grad()
        simulator.loss(output.log(), ahead, torch.ones(4, 16, dtype=torch.bool), zeros=8).backward()
        optimiser.step()
    return simulator


class Leaving(TorchFunctionMode):
    """Collects the sizes of floating-point tensors that are read from their device."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func.__name__ in ("cpu", "numpy", "tolist", "item", "to") and args[0].is_floating_point():
            stays = func.__name__ == "to" and torch.device("cpu") not in (*args[1:], *(kwargs or {}).values())
            self.found += [] if stays else [args[0].numel()]
        return func(*args, **(kwargs or {}))


def test_an_anticipators_scores_stay_where_they_are_while_it_is_judged():
    """A copy at every update would stall a GPU."""
    output, codes = log_scores(3, 16).requires_grad_(), torch.randint(VOCAB, (3, 16 + HORIZON))
    simulator = AnticipationSimulator(scale=HORIZON)
    with Leaving() as leaving:
        ahead = p.look_ahead(codes, HORIZON, 16)
        ce, ul = p.anticipation_losses(output, ahead)
        (ce.sum() + ul.sum() + simulator.loss(output, ahead, ahead.whole)).backward()
        output.detach().cpu()
    asked = [many for many in leaving.found if many > len(ahead.targets)]
    assert asked == [output.numel()], "the one that this test asks for"


@torch.no_grad()
def test_the_simulator_learns_the_errors_of_an_anticipator():
    with torch.enable_grad():
        simulator = fitted(lambda target: 0.05 + 0.6 * target, 30.0)
    for target in (0.0, 0.2, 0.4):
        found = simulator(torch.tensor(target))
        mean = found.alpha / (found.alpha + found.beta)
        assert float(mean) == pytest.approx(0.05 + 0.6 * target, rel=0.15), target
        assert float(found.alpha + found.beta) == pytest.approx(30.0, rel=0.5), target


@torch.no_grad()
def test_a_drawn_plan_names_what_comes_only_as_well_as_the_anticipator_does():
    vocab = 200
    codes = torch.randint(vocab, (8, 40))
    ahead = p.look_ahead(codes, HORIZON)
    frequency = torch.full((vocab,), 1.0 / vocab).log()
    comes = dense_of(ahead, vocab) > 0
    found = {}
    for name, weight in (("blind", 0.0), ("seeing", 30.0)):
        simulator = AnticipationSimulator(scale=1.0)
        for parameter in simulator.parameters():
            parameter.zero_()
        # alpha is 1 + weight * (target over a half): blind, or certain of whatever comes
        simulator.first.weight[0], simulator.last.weight[0, 0] = 100.0, weight
        simulator.first.bias[0] = -5.0
        simulator.last.bias[:] = torch.tensor([0.5, 8.0])
        choice = simulator.draw(ahead, frequency, HORIZON)
        assert choice.codes.shape == (8, 40, HORIZON)
        assert bool((choice.codes.sort(-1).values.diff(dim=-1) > 0).all())
        named = comes.gather(-1, choice.codes) & (choice.weights > 0)
        found[name] = float(named[ahead.whole].double().sum(-1).mean())
    chance = HORIZON * float(comes[ahead.whole].double().mean())
    assert found["blind"] == pytest.approx(chance, rel=0.6)
    assert found["seeing"] > 3.0


def frames(groups, each, seed=0):
    """Feature rows around a few poses, one group after the other."""
    generator = torch.Generator().manual_seed(seed)
    poses = torch.randn(groups, 231, generator=generator)
    noise = 0.05 * torch.randn(groups * each, 231, generator=generator)
    return poses.repeat_interleave(each, 0) + noise


def test_frames_of_one_pose_share_a_code_and_those_of_others_do_not():
    rows = frames(6, 40)
    book = PlanCodebook(6)
    left = book.fit(rows)
    assert left < 0.02
    codes = book(rows).view(6, 40)
    assert bool((codes == codes[:, :1]).all())
    assert len(set(codes[:, 0].tolist())) == 6
    assert book.counts(rows).tolist() == [40] * 6
    assert torch.equal(book(rows.view(2, 120, 231)), book(rows).view(2, 120))
    # The definition: the nearest centre.
    found = torch.cdist(book.points(rows), book.centres).argmin(-1)
    assert torch.equal(book(rows), found)


def test_more_codes_describe_frames_better_and_the_seed_decides():
    rows = torch.randn(400, 231)
    errors = [PlanCodebook(count).fit(rows) for count in (2, 16, 128)]
    assert errors[0] > errors[1] > errors[2]
    books = [PlanCodebook(16) for _ in range(3)]
    for book, seed in zip(books, (5, 5, 6), strict=True):
        book.fit(rows, seed=seed)
    assert torch.equal(books[0].centres, books[1].centres)
    assert not torch.equal(books[0].centres, books[2].centres)


def test_direction_of_the_hips_scalars_and_mask_do_not_matter():
    rows = frames(4, 20)
    book = PlanCodebook(4)
    book.fit(rows)
    other = rows.clone()
    other[:, :6] += 3.0
    other[:, 198:227] -= 2.0
    assert torch.equal(book(rows), book(other))


def test_equal_frames_make_no_trouble():
    rows = torch.ones(20, 231)
    book = PlanCodebook(3)
    book.fit(rows)
    assert bool(torch.isfinite(book.centres).all())
    assert book(rows).tolist() == [book(rows)[0].item()] * 20


def test_bad_frames_are_refused():
    with pytest.raises(OptionError, match="8 codes needs as many frames, got 5"):
        PlanCodebook(8).fit(torch.randn(5, 231))
    with pytest.raises(ShapeError, match=r"finite \(N, 231 or 279\)"):
        PlanCodebook(2).fit(torch.randn(5, 12))
