"""What comes to the scores from outside, in every layout: places and plans, from made-up sources."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pyanticip.models.config import ModelConfig
from pyanticip.models.core.band import make_band
from pyanticip.models.core.fused import make_fused
from pyanticip.models.core.part import Positions
from pyanticip.models.core.plan import Plan
from pyanticip.models.core.steering import Extras, PositionMix, PositionVectors, Steering
from pyanticip.models.core.streaming import State
from pyanticip.models.core.trunk import Trunk

FIELDS = ("hidden", "scalars", "initial", "gate", "share")
CURSORS, WIDTH = 3, 4


@dataclass
class RunningState(State):
    """The sum so far."""

    total: Tensor


class RunningSum(Positions):
    """Position vectors that depend on all that has been, so that a mistake in the stream shows."""

    cursors, width = CURSORS, WIDTH

    def __init__(self, d_model):
        super().__init__()
        self.map = nn.Linear(d_model, 2 * CURSORS * WIDTH)

    def initial_state(self, batch):
        return RunningState(self.map.weight.new_zeros(batch, self.map.out_features))

    def vectors(self, x, state):
        sums = torch.cumsum(self.map(x), 1)
        if state is not None:
            sums = sums + state.total[:, None]
        q, k = torch.tanh(0.3 * sums).view(*x.shape[:2], 2, CURSORS, WIDTH).unbind(2)
        return PositionVectors(q, k), None if state is None else RunningState(sums[:, -1])


def trunk(places=True, seed=0, **changes):
    torch.manual_seed(seed)
    sizes = {"d_model": 16, "heads": 4, "fast_layers": 2, "slow_layers": 2, "ff": 24, "window": 8, "pools": 4}
    made = Trunk(ModelConfig(**{**sizes, "slow_stride": 3, "dropout": 0.0, **changes}))
    if places:
        made.positions = RunningSum(16)
        for block in (*made.fast, *made.slow):
            block.mix = PositionMix(4, CURSORS)
    made = made.double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return made


def a_plan(rows, length, width=16, k=5):
    log_weights = torch.randn(rows, length, k, dtype=torch.float64)
    log_weights[torch.rand(rows, length, k) < 0.3] = float("-inf")
    log_weights[:, 4] = float("-inf")
    table, marks = (torch.randn(*n, width, dtype=torch.float64) for n in ((30,), (rows, length)))
    norm = torch.nn.LayerNorm(width).double()
    return Plan(torch.randint(30, (rows, length, k)), log_weights, table, marks, norm)


@torch.no_grad()
def test_a_stream_says_what_the_sequence_says():
    """With what :mod:`test_family` does not put together: places and plans from outside, a bias refined by
    the step before, and a control field."""
    made, mode = trunk(control_field=True), "refined_prev"
    x, given = torch.randn(2, 24, 16).double(), torch.rand(2, 24, 7).double()
    plan = a_plan(2, 24)
    whole, _ = made(x, given, mode=mode, plan=plan)
    rest = plan.chunk(11, 24)
    later = Plan(rest.codes[1:], rest.log_weights[1:], plan.table, rest.marks[1:], plan.norm)
    fresh, _ = made(x[1:, 11:], given[1:, 11:], mode=mode, plan=later)
    made.reference = True
    reference, _ = made(x, given, mode=mode, plan=plan)
    state, at, outs = made.initial_state(2), 0, []
    for size in (3, 1, 7, *[1] * 7, 6):
        if at == 11:
            state.reset(torch.tensor([False, True]))
        part = slice(at, at + size)
        out, state = made(x[:, part], given[:, part], state, mode=mode, plan=plan.chunk(at, at + size))
        outs.append(out)
        at += size
    for name in FIELDS:
        got, wanted = torch.cat([getattr(out, name) for out in outs], 1), getattr(whole, name)
        for one, other in (
            (getattr(reference, name), wanted),
            (got[0], wanted[0]),
            (got[1, :11], wanted[1, :11]),
            (got[1:, 11:], getattr(fresh, name)),
        ):
            torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)


@torch.no_grad()
def test_scores_are_those_of_the_definition():
    """Content, places and gates in one softmax, written out."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 9, 4, 6, dtype=torch.float64, generator=generator) for _ in range(3))
    places = PositionVectors(*(torch.randn(2, 9, CURSORS, WIDTH, dtype=torch.float64) for _ in range(2)))
    alpha, mu = torch.randn(4, CURSORS, dtype=torch.float64), torch.rand(4, dtype=torch.float64)
    gate = torch.rand(2, 9, dtype=torch.float64).log()
    content = torch.einsum("bihd,bjhd->bhij", q, k) * 6**-0.5
    place = torch.einsum("hc,bicd,bjcd->bhij", alpha.abs(), places.queries, places.keys)
    scores = mu[:, None, None] * content + (1 - mu)[:, None, None] * place / (CURSORS * WIDTH) ** 0.5
    scores = scores + gate[:, None, None]
    for past in (8, 4):
        distance = torch.arange(9)[:, None] - torch.arange(9)
        hidden = (distance < 0) | (distance > past)
        wanted = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        wanted = torch.einsum("bhij,bjhd->bihd", wanted, v).flatten(2)
        options = {"device": q.device, "dtype": q.dtype}
        steering = Steering(places=places)
        for layout in (
            make_fused(9, past, steering, **options),
            make_band(9, past, steering, count=None, **options),
        ):
            got, _ = layout.attend(q, k, v, None, Extras(gate, alpha, mu))
            torch.testing.assert_close(got, wanted)


@torch.no_grad()
def test_the_plan_is_attended_to_beside_the_past():
    made = trunk(places=False)
    attention = made.fast[0].attention
    x, plan = torch.randn(2, 9, 16).double(), a_plan(2, 9)
    layout = make_band(9, 4, Steering(), count=None, device=x.device, dtype=x.dtype)
    with_plan, _ = attention(x, layout, None, None, plan)
    without, _ = attention(x, layout, None)
    q, _, _ = attention.qkv(x).view(2, 9, 3, 4, 4).unbind(2)
    embeddings = plan.norm(plan.table[plan.codes] + plan.marks[:, :, None])
    _, k, v = attention.qkv(embeddings).view(2, 9, 5, 3, 4, 4).unbind(3)
    scores = torch.einsum("blhd,blkhd->blhk", q, k) / 2 + plan.log_weights[:, :, None]
    mixed = torch.einsum("blhk,blkhd->blhd", scores.softmax(-1).nan_to_num(0.0), v).flatten(2)
    torch.testing.assert_close(with_plan, without + attention.out(mixed))
    assert torch.equal(with_plan[:, 4], without[:, 4])
    # Only the first block of the fast pathway looks at it.
    seen = []
    for name, block in made.named_modules():
        if name.endswith("attention"):
            block.register_forward_hook(
                lambda m, args, out, name=name: seen.append((name, args[4] is not None))
            )
    made(x, torch.rand(2, 9, 7).double(), plan=plan)
    assert [name for name, planned in seen if planned] == ["fast.0.attention"]
