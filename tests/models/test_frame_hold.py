"""Frames as far as they are trusted: held where they are not, the same streamed and at once, never ahead."""

import pytest
import torch
from support import models

from pyanticip.errors import OptionError
from pyanticip.models import ModelConfig
from pyanticip.models.motion.frame_hold import FrameHold, held


@pytest.mark.parametrize("length", [1, 2, 3, 31, 64, 100])
def test_the_parallel_form_is_the_loop(length):
    torch.manual_seed(length)
    x, before = torch.randn(3, length, 5, dtype=torch.float64), torch.randn(3, 5, dtype=torch.float64)
    share = torch.rand(3, length, 1, dtype=torch.float64)
    share[0, length // 2] = 0.0
    share[1, length // 2] = 1.0
    found, last = held(x, share, before), before
    for step in range(length):
        last = share[:, step] * x[:, step] + (1.0 - share[:, step]) * last
        torch.testing.assert_close(found[:, step], last, rtol=0.0, atol=1e-12)


def test_a_frame_that_is_not_trusted_is_replaced_by_the_last_that_was():
    trusted = FrameHold(4).double()
    frames = torch.randn(1, 10, 4, dtype=torch.float64)
    with torch.no_grad():
        trusted.last.weight.zero_()
        trusted.last.bias.fill_(-40.0)
        same, risk = trusted(frames, frames, torch.zeros(1, 4, dtype=torch.float64))
        torch.testing.assert_close(same, frames, rtol=0.0, atol=1e-12)
        assert float(risk.max()) < 1e-12
        trusted.last.bias.fill_(40.0)
        before = torch.randn(1, 4, dtype=torch.float64)
        stuck, _ = trusted(frames, frames, before)
    torch.testing.assert_close(stuck, before[:, None].expand_as(stuck), rtol=0.0, atol=1e-12)


def test_it_needs_a_control_field_and_is_off_by_default():
    with pytest.raises(OptionError, match=r"field_input=True does nothing with control_field=None"):
        ModelConfig(field_input=True)
    with pytest.raises(OptionError, match="token model"):
        ModelConfig.small(control_field=True, field_input=True)
    plain = models.build("motion", control_field=True)
    assert plain.trusted is None
    assert plain(models.inputs("motion", 1, 5)).distrust is None
