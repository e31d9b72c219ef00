"""The options of the gate's study: what they change in the data and in the loss."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from pyanticip.errors import OptionError
from pyanticip.models import AnticipatoryTransformer, ModelConfig
from training.tasks.token.losses import balanced, losses, shuffled, shuffled_gate
from training.tasks.token.options import LanguageOptions
from training.tasks.token.synthetic import CONVERGE, MOTIF, PADDING, RANDOM, synthetic


def test_chained_phases_follow_one_another_without_padding():
    drawn = synthetic(40, 300, 20, 3, repeats=(4, 9), chained=True)
    assert drawn.ids.shape == (20, 300)
    assert not (drawn.phases == PADDING).any()
    order = {MOTIF: RANDOM, RANDOM: CONVERGE, CONVERGE: MOTIF}
    for row in drawn.phases:
        changes = np.flatnonzero(np.diff(row))
        assert len(changes) > 5
        for at in changes:
            assert order[row[at]] == row[at + 1]
    first = [int(np.argmax(row != MOTIF)) for row in drawn.phases]
    assert min(first) >= 12
    assert max(first) <= 63
    assert max(first) > 28, "more than the usual four repetitions"


def test_the_usual_sequences_are_what_they_were():
    assert np.array_equal(synthetic(40, 50, 6, 1).ids, synthetic(40, 50, 6, 1, repeats=(2, 4)).ids)
    with pytest.raises(OptionError, match=r"repeats must be 1 <= least <= most, given \(3, 2\)"):
        synthetic(40, 50, 6, 1, repeats=(3, 2))


@pytest.mark.parametrize("value", [(3, 2), (0, 2), (1.5, 2), 3, (True, 2)])
def test_repeats_are_two_whole_numbers(value):
    with pytest.raises(OptionError, match="repeats: expected two whole"):
        LanguageOptions(repeats=value)


def test_options_survive_being_written_down():
    options = LanguageOptions(
        repeats=(4, 9), chained=True, gate_weight=2.0, gate_feed="shuffled", neighbours=3
    )
    assert LanguageOptions(**options.to_dict()) == options
    with pytest.raises(OptionError, match="chained: expected true or false, given 1"):
        LanguageOptions(chained=1)


@pytest.fixture(name="pieces")
def pieces_fixture():
    torch.manual_seed(0)
    cfg = ModelConfig.small(
        d_model=16, ff=16, heads=4, fast_layers=1, slow_layers=1, window=8, vocab=11, dropout=0.0
    )
    model = AnticipatoryTransformer(cfg)
    ids = torch.randint(11, (5, 13))
    given = torch.rand(5, 12, 7)
    return model, model(ids[:, :-1], given), ids[:, 1:], given


def test_the_terms_of_the_loss(pieces):
    model, out, targets, given = pieces
    plain = losses(model, out, targets, given, LanguageOptions())
    error = F.mse_loss(out.gate, given[..., 0])
    torch.testing.assert_close(plain.gate_error, error)
    weighted = losses(model, out, targets, given, LanguageOptions(gate_weight=3.0))
    torch.testing.assert_close(weighted.total, plain.total + 3.0 * error)
    even = losses(model, out, targets, given, LanguageOptions(scalar_balance=True))
    shares = balanced(out.scalars, given) + balanced(out.initial, given)
    torch.testing.assert_close(even.total, plain.total + shares - plain.scalar_refined - plain.scalar_initial)
    torch.testing.assert_close(even.paper, plain.paper)


def test_a_gate_that_is_fed_other_commitment(pieces):
    model, out, targets, given = pieces
    options = LanguageOptions(gate_feed="shuffled", gate_weight=1.0)
    found = losses(model, out, targets, given, options)
    gate = shuffled_gate(model, out)
    logits = out.raw_logits * gate[..., None]
    torch.testing.assert_close(found.ce, F.cross_entropy(logits.flatten(0, 1), targets.flatten()))
    torch.testing.assert_close(found.gate_error, F.mse_loss(gate, shuffled(given[..., 0])))
    assert (gate - out.gate).abs().max() > 0
