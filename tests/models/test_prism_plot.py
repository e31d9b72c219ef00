"""Presets, and the picture of where cursors are."""

import numpy as np
import pytest
import torch

from pyanticip.errors import OptionError, ShapeError
from pyanticip.models.config import ModelConfig
from pyanticip.models.parts.positions.prism.plot import plot_program_counter, record_histograms
from pyanticip.models.token.baseline import BaselineTransformer
from pyanticip.models.token.prism_presets import PRESETS, prism_config


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_configurations(preset):
    cfg = prism_config(preset, prism_copy=True)
    assert cfg.positions.kind == "prism"
    assert cfg.vocab == 64
    assert cfg.positions.copying
    assert cfg.d_model == PRESETS[preset]["d_model"]
    with pytest.raises(OptionError, match="preset must be one of 'tiny', 'small', 'paper', got 'huge'"):
        prism_config("huge")


def model(**changes):
    torch.manual_seed(0)
    return BaselineTransformer(prism_config("tiny", d_model=16, prism_hidden=8, prism_cursors=3, **changes))


def test_what_is_recorded_is_what_the_cursors_do():
    made = model(prism_again=2)
    ids = torch.randint(0, 64, (2, 14))
    whole = record_histograms(made, lambda: made(ids))
    assert {name: h.shape for name, h in whole.items()} == {
        "positions": (2, 14, 6, 64),
        "again": (2, 14, 6, 64),
    }
    np.testing.assert_allclose(whole["positions"].sum(-1), 1, atol=1e-5)

    def stream():
        state = made.initial_state(2)
        for t in range(14):
            _, state = made.step(ids[:, t], state)

    for name, histograms in record_histograms(made, stream).items():
        np.testing.assert_allclose(histograms, whole[name], atol=1e-5)
    assert not made.positions._forward_hooks
    with pytest.raises(OptionError, match="no PRISM positions"):
        record_histograms(BaselineTransformer(ModelConfig.small(vocab=8)), lambda: None)


def test_the_picture_shows_every_cursor(tmp_path):
    pytest.importorskip("matplotlib")
    histograms = np.zeros((9, 4, 30), np.float32)
    for t in range(9):
        histograms[t, :, t] = 1
    figure = plot_program_counter(histograms, list("123=123.e"), title="copy")
    panels = [axes for axes in figure.axes if axes.images]
    titles = [axes.get_title() for axes in panels]
    assert titles == ["query cursor 0", "key cursor 0", "query cursor 1", "key cursor 1"]
    np.testing.assert_array_equal(panels[0].images[0].get_array(), histograms[:, 0, :9].T)
    assert [label.get_text() for label in panels[-1].get_xticklabels()] == list("123=123.e")
    figure.savefig(tmp_path / "counter.png")
    assert (tmp_path / "counter.png").stat().st_size > 5000
    fewer = plot_program_counter(histograms, cursors=[1], places=5)
    assert [axes.get_title() for axes in fewer.axes if axes.images] == ["query cursor 1", "key cursor 1"]
    with pytest.raises(ShapeError, match="expected 9 tokens, one for each step, got 3"):
        plot_program_counter(histograms, ["a", "b", "c"])
    with pytest.raises(ShapeError, match=r"expected histograms \(L, 2 C, P\)"):
        plot_program_counter(histograms[None])
    with pytest.raises(OptionError, match="cursors are 0 to 1, got 2"):
        plot_program_counter(histograms, cursors=[2])
