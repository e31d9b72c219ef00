"""Each end by itself: no future is read but where it is told, a head learns, mistakes are one line."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pyanticip.models import ModelConfig, MotionTransformer
from training import beat_ends, end_curves
from training.beat_ends import half_of, later, main, paced, summary
from training.end_curves import MIRRORED, READ, EndsHead, Frames, hear, losses, read_ends, teach_ends


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    sizes = {"d_model": 32, "heads": 2, "fast_layers": 1, "slow_layers": 1, "ff": 32, "control_hidden": 48}
    return MotionTransformer(ModelConfig(**sizes)).eval()


@pytest.fixture(scope="module")
def examples(example_of):
    return [example_of(200, seed, subject) for seed, subject in enumerate(("a", "a", "b"))]


@pytest.fixture(scope="module")
def clips(model, examples):
    return hear(model, examples)


def head_of(frames):
    """A head whose every part says something."""
    torch.manual_seed(1)
    head = EndsHead(frames.body.shape[1], frames.units.shape[1]).eval()
    head.standardise(frames)
    torch.nn.init.normal_(head.skip.weight)
    return head


def test_hazards_see_no_future(model, examples, clips):
    features = examples[0].features.copy()
    features[120:] = examples[1].features[120:]
    (other,) = hear(model, [replace(examples[0], features=features)])
    frames = Frames(clips[:1])
    head = head_of(frames)
    one, two = (head.logits(Frames([clip]), slice(0, 200)) for clip in (clips[0], other))
    torch.testing.assert_close(one[:120], two[:120], atol=1e-3, rtol=0)
    assert (one[120:] - two[120:]).abs().mean() > 0.05


def test_a_clip_says_the_same_behind_another(clips):
    frames = Frames(clips)
    assert len(frames) == 600
    head = head_of(frames)
    alone = head.logits(Frames(clips[1:2]), slice(0, 200))
    torch.testing.assert_close(head.logits(frames, slice(200, 400)), alone)


def test_shapes_and_what_an_end_is_read_from(clips):
    clip, frames = clips[0], Frames(clips)
    assert clip.scalars.shape == (200, 5, 4)
    assert clip.vectors.shape == (200, 5, 9)
    assert clip.units.shape == (200, 48)
    assert clip.curves.shape == (200, 6)
    rows = torch.tensor([0, 50, 201])
    ends = frames.ends(rows)
    assert ends.shape == (3, 5, READ)
    # Scalars of the last frames come first, the oldest 40 frames ago; a clip begins with its first frame.
    torch.testing.assert_close(ends[1, :, :4], frames.scalars[50].float())
    torch.testing.assert_close(ends[1, :, 56:60], frames.scalars[10].float())
    torch.testing.assert_close(ends[2, :, 56:60], frames.scalars[200].float())
    logits, each, whole = head_of(frames)(ends, frames.body[rows], frames.units[rows])
    assert (logits.shape, each.shape, whole.shape) == ((3, 25), (3, 5, 13), (3, 13))


def test_a_mirrored_body_reads_the_same_with_its_ends_exchanged():
    torch.manual_seed(0)
    moved = torch.randn(30, 177)
    places, speeds = (
        torch.tensor(columns).view(3, 5)
        for columns in (end_curves.PLACE_COLUMNS, end_curves.VELOCITY_COLUMNS)
    )
    other, swap = moved.clone(), [1, 0, 3, 2, 4]
    for columns in (places, speeds):
        other[:, columns] = moved[:, columns[:, swap]]
        other[:, columns[0]] *= -1.0
    other[:, 0] *= -1.0
    for one, two in zip(read_ends(moved), read_ends(other), strict=True):
        left, right = one.float(), two.float()[:, swap]
        right[:, 4], left[:, 4] = right[:, 4].abs(), left[:, 4].abs()
        torch.testing.assert_close(left, right, atol=2e-3, rtol=2e-3)
    assert sum(MIRRORED) == 1.0


def test_a_head_learns_and_is_the_same_for_the_same_seed(clips, monkeypatch):
    monkeypatch.setattr(end_curves, "FRAMES", 128)
    frames, rows = Frames(clips), torch.arange(600)
    early, one, two, other = (
        teach_ends(frames, steps=steps, seed=seed) for steps, seed in ((1, 0), (150, 0), (150, 0), (3, 1))
    )
    with torch.no_grad():
        before, after = (losses(head, frames, rows) for head in (early, one))
    assert after[0] < before[0] - 0.3
    assert after[1] < before[1]
    assert torch.equal(one.first.weight, two.first.weight)
    assert not torch.equal(one.first.weight, other.first.weight)


def test_what_is_told_is_asked_later_and_without_the_trunk(clips):
    usual, told = Frames(clips), Frames(clips, 5)
    assert torch.equal(told.bins[5:200], usual.bins[:195])
    assert torch.equal(told.seen[205:400], usual.seen[200:395])
    assert not told.seen[[0, 4, 200, 204, 400, 404]].any()
    assert told.units.shape == (600, 0)
    assert head_of(told).narrow is None
    assert head_of(told).logits(told, slice(0, 600)).isfinite().all()


def test_onsets_later_stay_inside(examples):
    example = replace(examples[0], onsets=np.array([10, 194, 197]))
    assert later(example, 5).onsets.tolist() == [15, 199]
    assert later(example, 0).onsets.tolist() == [10, 194, 197]


def test_copies_are_the_same_again_and_keep_who_it_is(piece_of):
    pieces = [piece_of(300, seed, f"{seed:02d}") for seed in range(2)]
    first, again = (list(paced(pieces, 2)) for _ in range(2))
    assert [e.subject for e in first] == ["00"] * 3 + ["01"] * 3
    assert len(first[0]) == 300
    assert {len(e) for e in first} != {300}
    assert all(np.array_equal(a.features, b.features) for a, b in zip(first, again, strict=True))
    assert half_of("05_02/1") == half_of("05_02")
    assert {half_of(f"05_{n:02d}") for n in range(20)} == {0, 1}


def test_the_mean_is_over_seeds_and_the_range_at_100_ms():
    rows = [{"dance (9)": [0.6, 0.4, 0.2]}, {"dance (9)": [0.8, 0.3, 0.2]}]
    assert summary(rows) == {"dance (9)": "0.70 0.35 0.20 (0.30-0.40)"}


@pytest.mark.parametrize("half", [False, True])
def test_nobody_is_judged_by_a_head_that_knows_the_clip(half, piece_of, model, monkeypatch, tmp_path, capsys):
    kept = [piece_of(150, 0, "01")]
    left = [replace(piece_of(200 + n, n, "05"), name=f"05_{n:02d}") for n in range(1, 7)]
    judged_by, heads = {}, []

    def teach(frames, seed):
        known = set((frames.last - frames.first + 1).tolist())
        heads.append((seed, known))
        return teach_ends(frames, steps=1, seed=seed)

    def said_of(examples, gate, logits):
        judged_by.update({example.name: (len(example), heads[-1][1]) for example in examples})
        return usual(examples, gate, logits)

    usual = beat_ends.beat_probe.said_of
    monkeypatch.setattr(beat_ends, "load_motion_model", lambda path: model)
    monkeypatch.setattr(beat_ends.beat_probe, "sides", lambda *given: (kept, left))
    monkeypatch.setattr(beat_ends, "group_of", lambda name, categories: "dance")
    monkeypatch.setattr(beat_ends, "teach_ends", teach)
    monkeypatch.setattr(beat_ends.beat_probe, "said_of", said_of)
    options = ["--without", "05", "--copies", "0", "--faster", "0", "--seeds", "2", *["--half"] * half]
    assert main(["--data", str(tmp_path), *options]) == 0
    assert [seed for seed, _ in heads] == ([0, 0, 1, 1] if half else [0, 1])
    assert len(judged_by) == 6
    for name, (frames, known) in judged_by.items():
        others = {len(piece.quats) for piece in left if half_of(piece.name) != half_of(name)}
        assert known == {150} | (others if half else set())
        assert frames not in known
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()[:2]] == ["seed 0", "seed 1"]


@pytest.mark.parametrize(
    "options",
    [["--seeds", "0"], ["--copies", "-1"], ["--told", "30"], ["--told", "-20"], ["--half"]],
)
def test_a_mistake_is_one_line(options, tmp_path, capsys):
    assert main(["--data", str(tmp_path), *options]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.startswith(f"beat_ends: {options[0]}")


def test_no_data_is_one_line(tmp_path, capsys, monkeypatch, model):
    monkeypatch.setattr(beat_ends, "load_motion_model", lambda path: model)
    assert main(["--data", str(tmp_path / "none")]) == 1
    assert "no such folder" in capsys.readouterr().err
