"""The seven kinds of patterns, and the study of positions on them."""

import json

import numpy as np
import pytest
import torch

from pyanticip.errors import FormatError, OptionError
from training.patterns.generators import (
    ASSIGN,
    CLOSE,
    INDENT,
    NEWLINE,
    OPEN,
    PATTERNS,
    SIDE,
    SPEAKERS,
    VOCAB,
    pattern,
)
from training.patterns.report import BEGIN, PAGE, report
from training.patterns.study import Recipe, Run, build, judge, plan, study

TINY = {"steps": 3, "batch": 4, "length": 12, "sequences": 16, "tests": 8, "d_model": 16, "ff": 16}


@pytest.mark.parametrize("kind", PATTERNS)
def test_every_kind_is_drawn_from_its_seed(kind):
    ids = pattern(kind, 40, 64, seed=1)
    assert ids.shape == (40, 64)
    assert ids.dtype == np.int64
    assert 0 <= ids.min() <= ids.max() < VOCAB
    assert np.array_equal(ids, pattern(kind, 40, 64, seed=1))
    assert not np.array_equal(ids, pattern(kind, 40, 64, seed=2))


def foretold(kind):
    """Share of tokens that follow their predecessor in the way that is most common elsewhere, beyond chance
    by the commonest tokens alone."""
    ids = pattern(kind, 2000, 40, seed=3)
    pairs = np.zeros((VOCAB, VOCAB))
    np.add.at(pairs, (ids[:1000, :-1].ravel(), ids[:1000, 1:].ravel()), 1)
    test = ids[1000:]
    right = (pairs.argmax(1)[test[:, :-1]] == test[:, 1:]).mean()
    return right - (test[:, 1:] == pairs.sum(0).argmax()).mean()


def test_all_but_random_can_be_foretold():
    """Already by the token before alone."""
    for kind in PATTERNS:
        assert (foretold(kind) > 0.03) == (kind != "random"), kind


def test_paths_do_what_their_names_say():
    def steps(kind, length):
        ids = pattern(kind, 4000, 12, seed=0)[:, :length]  # within the first stretch
        apart = np.diff(ids, axis=1) % VOCAB
        return np.minimum(apart, VOCAB - apart)

    assert np.median(steps("convergent", 3)) > 3 > np.median(steps("convergent", 12)[:, -2:])
    assert np.median(steps("divergent", 3)) < np.median(steps("divergent", 12)[:, -1:])
    line = pattern("linear", 500, 12, seed=0)
    same = np.diff(np.diff(line, axis=1) % VOCAB, axis=1) == 0
    assert same.mean() > 0.6
    circle = pattern("circular", 500, 12, seed=0)
    centre = np.hypot(circle % SIDE - 3.5, circle // SIDE - 3.5)
    assert 1.5 < np.median(centre) < 4.0
    assert (centre > 1.0).mean() > 0.97


def test_dialogue_takes_turns():
    for row in pattern("dialogue", 20, 60, seed=0):
        marks = row[row < SPEAKERS]
        assert len(marks) > 5
        assert np.all(np.diff(marks) != 0)
        turns = np.diff(np.flatnonzero(row < SPEAKERS)) - 1
        assert 3 <= turns.min() <= turns.max() <= 8


def test_code_is_indented_by_its_depth():
    for row in pattern("code", 30, 200, seed=0):
        depth = 0
        lines = np.split(row, np.flatnonzero(row == NEWLINE) + 1)[:-1]
        for line in lines:
            depth -= int(CLOSE in line)
            assert (line == INDENT).sum() == depth
            assert line[-1] == NEWLINE
            assert sum(int(t in line) for t in (ASSIGN, OPEN, CLOSE)) == 1
            depth += int(OPEN in line)


def test_bad_sizes_are_refused():
    with pytest.raises(OptionError, match="circular"):
        pattern("spiral", 1, 8, seed=0)
    with pytest.raises(OptionError, match="2 steps"):
        pattern("linear", 1, 1, seed=0)
    with pytest.raises(OptionError, match="lr"):
        Recipe(lr=0.0)
    with pytest.raises(OptionError, match="rope"):
        plan(["linear"], ["alibi"], [0])


def test_variants_start_equal_and_differ_in_positions_alone():
    recipe = Recipe(**TINY)
    models = {v: build(Run("code", v, 5), recipe) for v in ("sinusoidal", "trajectory", "shuffled", "rope")}
    first = models["sinusoidal"].state_dict()
    for model in models.values():
        state = model.state_dict()
        assert state.keys() == first.keys()
        assert all(torch.equal(state[name], first[name]) for name in first)
    ids = torch.from_numpy(pattern("code", 4, 12, seed=0))
    moved, shuffled = (models[v].moved for v in ("trajectory", "shuffled"))
    assert moved.strength == shuffled.strength == 0.25
    embedded = models["trajectory"].token(ids)
    assert torch.equal(shuffled.displacements(embedded)[0], moved.displacements(embedded)[0].roll(-1, 0))


def test_random_content_is_left_where_it_is():
    """The paper's strength for it is none, and the loss that of sinusoids to the last bit."""
    recipe = Recipe(**TINY)
    losses = [judge(build(Run("random", v, 0), recipe), Run("random", v, 0), recipe)["loss"]
              for v in ("sinusoidal", "trajectory", "trajectory-rms")]  # fmt: skip
    assert losses[0] == losses[1] != losses[2]


def test_a_study_goes_on_where_it_stopped_and_reports(tmp_path):
    recipe, runs = Recipe(**TINY), plan(["linear", "random"], ["sinusoidal", "trajectory"], [0, 1])
    said = []
    assert study(tmp_path, runs[:5], recipe, say=said.append) == {"done": 5, "kept": 0}
    assert study(tmp_path, runs, recipe, say=said.append) == {"done": 3, "kept": 5}
    assert len(said) == 8
    with pytest.raises(OptionError, match="steps"):
        study(tmp_path, runs, Recipe(**{**TINY, "steps": 4}))
    page = tmp_path / "docs"
    found = report(tmp_path, page)
    losses = [
        json.loads((tmp_path / run.file).read_text())["loss"] for run in runs if run.pattern == "linear"
    ]
    wanted = np.mean([100 * (1 - losses[1] / losses[0]), 100 * (1 - losses[3] / losses[2])])
    gain = found["gains"]["linear"]["trajectory"]
    assert gain["mean"] == pytest.approx(wanted)
    assert gain["low"] < gain["mean"] < gain["high"]
    assert found["gains"]["random"]["trajectory"]["mean"] == 0.0
    text = (page / PAGE).read_text()
    assert BEGIN in text
    assert "| linear | 5 to 15 |" in text
    assert report(tmp_path, page)["tables"] == found["tables"]
    assert text == (page / PAGE).read_text()
    with pytest.raises(FormatError, match="no runs"):
        report(page)
