"""What the motion model is given: what does not fit is refused in one line, before anything is written."""

import pytest
import torch
from support.models import build

from pyanticip.errors import ShapeError

ROWS = torch.zeros(2, 5, 231, dtype=torch.float64)


def at(value, *place):
    rows = ROWS.clone()
    rows[place] = value
    return rows


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m(ROWS.numpy()), r"features must be a tensor \(B, L, 231 or 279\), got ndarray"),
        (lambda m: m.step([0.0], m.initial_state(1)), "features must be a tensor .*, got list"),
        (lambda m: m(ROWS.float()), "features must be torch.float64 as the weights are, got torch.float32"),
        (lambda m: m(ROWS.long()), "features must be torch.float64 as the weights are, got torch.int64"),
        (lambda m: m(ROWS[:0]), r"with B >= 1 and L >= 1, got \(0, 5, 231\)"),
        (lambda m: m(ROWS[0]), r"got \(5, 231\)"),
        (lambda m: m(at(torch.nan, 1, 2, 3)), r"features must be finite, got nan at \[1, 2, 3\]"),
        (lambda m: m(at(torch.inf, 0, 0, 230)), r"features must be finite, got inf at \[0, 0, 230\]"),
        (lambda m: m(ROWS, scalars=ROWS[..., :6]), r"scalars must be \(2, 5, 7\), got \(2, 5, 6\)"),
        (lambda m: m(ROWS, predicted=ROWS[..., 0]), "predicted must be .* of torch.bool"),
    ],
)
def test_mistakes_are_named(call, words):
    with pytest.raises(ShapeError, match=words):
        call(build("motion"))


@torch.no_grad()
def test_a_refused_frame_leaves_the_stream_as_it_was():
    model, x = build("motion"), torch.randn(1, 4, 231, dtype=torch.float64)
    state = model.initial_state(1)
    for frame in x.unbind(1):
        with pytest.raises(ShapeError, match="must be finite"):
            model.step(torch.full_like(frame, torch.nan), state)
        out, state = model.step(frame, state)
    torch.testing.assert_close(out.params[:, 0], model(x).params[:, -1])
