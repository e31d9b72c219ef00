"""The study of geometry on motion: equal runs, resumed by the file, and honest tables of what there is."""

import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from pyanticip.errors import FormatError, OptionError
from pyanticip.models import ModelConfig
from training.data.batches import Windows, event_targets
from training.data.examples import Example
from training.study import motion, motion_data, motion_report, motion_scores
from training.study.runs import read
from training.study.scale import SIZES, parameters
from training.tasks.motion.losses import event_nll

TINY = motion.Recipe(
    steps=3,
    batch_frames=160,
    copies=1,
    model={"d_model": 28, "ff": 32, "slow_layers": 1, "fast_layers": 1, "control_hidden": 16, "pools": 4},
)


@pytest.fixture(scope="module")
def small_study(takes, tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    done = motion.study(out, motion.plan(("trajectory", "none"), [0, 1]), takes, TINY)
    assert done == {"done": 4, "kept": 0}
    return out


def untimed(file):
    return {k: v for k, v in json.loads(file.read_text()).items() if "seconds" not in k}


def test_every_variant_has_as_many_parameters_and_differs_in_its_one_thing():
    """At the size of the study, within 1 % of the model with the trajectory bias."""
    whole = motion.Recipe().config("trajectory")
    assert whole == ModelConfig(**SIZES)
    for name, changes in motion.VARIANTS.items():
        cfg = motion.Recipe().config(name)
        assert parameters(cfg) == pytest.approx(parameters(whole), rel=0.01), name
        same = {**asdict(cfg), "ff": whole.ff, "fast_layers": whole.fast_layers}
        assert {k for k, v in same.items() if v != asdict(whole)[k]} == set(changes), name
    assert motion.Recipe().config("no-slow").fast_layers == whole.fast_layers + whole.slow_layers


def test_plans_take_all_variants_of_a_seed_before_the_next():
    runs = motion.plan(tuple(motion.VARIANTS), [3, 4])
    assert len({run.file for run in runs}) == len(runs) == 2 * len(motion.VARIANTS)
    assert [run.seed for run in runs] == sorted(run.seed for run in runs)
    with pytest.raises(OptionError, match=r"variant: .*'magic'"):
        motion.plan(("magic",), [0])


def test_variants_of_a_seed_see_the_same_windows(takes, monkeypatch, tmp_path):
    data = motion_data.load(takes, 1)
    seen = []
    plain = Windows.gather

    def gather(self, chosen, first, length):
        seen.append((chosen.tolist(), first.tolist(), length))
        return plain(self, chosen, first, length)

    monkeypatch.setattr(Windows, "gather", gather)
    longer = replace(TINY, steps=6)
    for variant, seed in (("trajectory", 5), ("no-slow", 5), ("trajectory", 6)):
        model, curve = motion.fit(longer.options(variant, seed), data, tmp_path)
        assert model.cfg == TINY.config(variant)
        assert [point["step"] for point in curve] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    one, same, other = seen[:6], seen[6:12], seen[12:]
    assert one == same
    assert one != other
    assert list(tmp_path.iterdir()) == []


def test_runs_are_repeatable_and_kept(takes, small_study, tmp_path):
    runs = motion.plan(("trajectory", "none"), [0, 1])
    said = []
    assert motion.study(small_study, runs, takes, TINY, say=said.append) == {"done": 0, "kept": 4}
    assert said == []
    assert motion.study(tmp_path, runs[1:2], takes, TINY, say=said.append) == {"done": 1, "kept": 0}
    assert untimed(tmp_path / runs[1].file) == untimed(small_study / runs[1].file)
    assert len(said) == 1
    with pytest.raises(OptionError, match=r"done with lr=0.002, not 0.1"):
        motion.study(small_study, runs, takes, replace(TINY, lr=0.1))


def test_runs_of_other_motion_are_refused(takes, small_study):
    with pytest.raises(OptionError, match="other motion"):
        motion.study(small_study, motion.plan(("rope",), [0]), takes, replace(TINY, copies=0))


def test_a_run_trains_its_model_and_is_judged_on_subjects_it_did_not_see(small_study):
    run = read(small_study / "motion-trajectory-seed0.json")
    assert {split: set(rows) for split, rows in run["scores"].items()} == {
        "validation": {"06", "35"},
        "test": {"07"},
    }
    row = run["scores"]["test"]["07"]
    assert np.array(row["error"]).shape == (8, 5)
    assert row["frames"] == 200 - 2 * motion_scores.EDGE
    assert all(0 <= hits <= told for hits, told, _ in [row["onset"]])
    assert [point["step"] for point in run["curve"]] == [1.0, 2.0, 3.0]
    other = read(small_study / "motion-none-seed0.json")
    assert other["scores"] != run["scores"]
    assert other["motion"] == run["motion"]


def example(frames=160, onsets=(40, 90), phrases=()):
    rng = np.random.default_rng(0)
    return Example(
        "a",
        "06",
        np.tile(np.array([1.0, 0.0, 0.0, 0.0], dtype=np.float32), (frames, 22, 1)),
        rng.normal(size=(frames, 231)).astype(np.float32),
        rng.uniform(size=(frames, 8)).astype(np.float32),
        np.array(onsets, dtype=np.int64),
        np.array(phrases, dtype=np.int64),
    )


def test_surprise_is_the_loss_that_events_are_trained_with():
    clip = example()
    logits = torch.randn(160, 2, 25, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    targets = [event_targets(events, 160) for events in (clip.onsets, clip.phrases)]
    bins, seen = (torch.from_numpy(np.stack([t[i] for t in targets], 1))[None] for i in (0, 1))
    wanted = event_nll(logits[None], bins, seen)[0].sum(-1).numpy()
    got = motion_scores.event_surprise(clip, torch.sigmoid(logits).numpy())
    np.testing.assert_allclose(got, wanted[motion_scores.EDGE : 160 - motion_scores.EDGE], rtol=1e-6)


def test_base_rate_is_the_constant_that_pays_least():
    clips = [example(), example(200, (20, 60, 61, 150), (100,))]
    rates = motion_data.base_rates(clips)

    def paid(rate):
        return sum(
            F.binary_cross_entropy(torch.full((b.shape[0], 25), rate, dtype=torch.float64), hit, weight=risk,
                                   reduction="sum")
            for b, hit, risk in tables
        )  # fmt: skip

    for kind in (0, 1):
        tables = []
        for clip in clips:
            bins, seen = (
                torch.from_numpy(x) for x in event_targets((clip.onsets, clip.phrases)[kind], len(clip))
            )
            index = torch.arange(25)
            risk = (index <= bins[:, None]) & (index < seen[:, None])
            tables.append((bins, (index == bins[:, None]).double(), risk.double()))
        best = paid(float(rates[kind]))
        assert best < paid(0.95 * float(rates[kind]))
        assert best < paid(1.05 * float(rates[kind]))


def test_report_pairs_by_seed_and_says_how_much_is_there(small_study, tmp_path):
    first = motion_report.report(small_study, tmp_path)
    page = (tmp_path / motion_report.PAGE).read_text()
    (tmp_path / motion_report.PAGE).write_text(page + "\nwritten by hand\n")
    motion_report.report(small_study, tmp_path)
    assert (tmp_path / motion_report.PAGE).read_text() == page + "\nwritten by hand\n"
    assert f"4 of {5 * len(motion.VARIANTS)} runs" in page
    assert (tmp_path / motion_report.FIGURE).read_bytes()[:4] == b"\x89PNG"
    assert set(first["differences"]["validation"]) == {"trajectory - none"}
    gap = first["differences"]["validation"]["trajectory - none"]["200 ms"]
    held = read(small_study / motion.REFERENCE)["scores"]["validation"]

    def ratio(variant, seed):
        rows = read(small_study / f"motion-{variant}-seed{seed}.json")["scores"]["validation"]
        mine, theirs = (np.mean([row["error"] for row in r.values()], 0)[:, 3] for r in (rows, held))
        return np.mean(mine / theirs)

    apart = [ratio("trajectory", s) - ratio("none", s) for s in (0, 1)]
    assert gap["mean"] == pytest.approx(np.mean(apart))
    # Student's t with one degree of freedom: 12.706 standard errors.
    half = 12.706 * np.std(apart, ddof=1) / math.sqrt(2)
    assert gap["high"] - gap["mean"] == pytest.approx(half, rel=1e-3)
    assert gap["subjects_low"] <= gap["mean"] <= gap["subjects_high"]


def test_hold_is_one_of_itself(small_study):
    study = motion_report.load(small_study)
    rows = list(study.rows(None, "held out").values())
    assert [m.value(rows, rows) for m in motion_report.MEASURES[:3]] == pytest.approx([1.0] * 3)


def test_reports_refuse_what_does_not_belong_together(small_study, tmp_path):
    for file in small_study.glob("*.json"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    run = read(tmp_path / "motion-none-seed1.json")
    for change, words in (({"motion": "x"}, "motion"), ({"variant": "odd"}, "not a run")):
        (tmp_path / "motion-none-seed1.json").write_text(json.dumps({**run, **change}))
        with pytest.raises(FormatError, match=words):
            motion_report.load(tmp_path)
    (tmp_path / "motion-none-seed1.json").write_text(
        json.dumps({**run, "recipe": {**run["recipe"], "steps": 7}})
    )
    with pytest.raises(FormatError, match="steps 7, others 3"):
        motion_report.load(tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(FormatError, match="no runs"):
        motion_report.load(empty)
