"""Places and gates in the scores, in every layout."""

import torch

from pyanticip.models.core.band import make_band
from pyanticip.models.core.fused import make_fused
from pyanticip.models.core.steering import Extras, PositionVectors, Steering

CURSORS, WIDTH = 3, 4


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
