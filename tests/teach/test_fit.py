import numpy as np
import pytest

from pyanticip.errors import OptionError
from pyanticip.teach import heads
from pyanticip.teach.fit import fit_parts
from pyanticip.teach.folds import EMBARGO_FRAMES, folds, frame_ids, group_same_motion, unmatched_takes
from pyanticip.teach.frames import BODY, TakeData, nearest
from pyanticip.teach.options import FitOptions, check_blocks
from pyanticip.teach.outputs import Output

WIDTH = 40


def blocks(frames: int, where: float, seed: int) -> dict[str, np.ndarray]:
    """A smooth random walk around a centre chosen by ``where``."""
    random = np.random.default_rng(seed)
    walk = np.cumsum(random.normal(size=(frames, BODY)), 0) * 0.02
    place = np.random.default_rng(round(1000 * where)).normal(size=BODY)
    body = (2 * place * where + walk).astype(np.float32)
    return {"body": body, "hidden": (body[:, :WIDTH] * 0.5).astype(np.float32)}


def take(name: str, where: float, seed: int, frames: int = 150, **wanted: float) -> TakeData:
    curves = {output: np.full(frames, value) for output, value in wanted.items()}
    return TakeData(name, blocks(frames, where, seed), 0, curves)


def test_whole_takes_are_left_out_where_another_one_wants_the_same() -> None:
    y = [np.full((100, 2), v) for v in (0.1, 0.1, 0.9, 0.9)]
    made = folds(y)
    assert [fold.left_out for fold in made] == [(0,), (1,), (2,), (3,)]
    for i, fold in enumerate(made):
        assert fold.whole
        assert set(fold.test) == set(range(100 * i, 100 * i + 100))
        assert not set(fold.test) & set(fold.train)
        assert len(fold.train) == 300


def test_a_take_that_stands_alone_is_judged_in_blocks_with_a_gap_beside_them() -> None:
    y = [np.full((250, 1), 0.1), np.full((250, 1), 0.9)]
    assert unmatched_takes(y) == [0, 1]
    made = folds(y)
    assert len(made) == 5
    for fold in made:
        assert not fold.whole
        for judged in (fold.test[fold.test < 250], fold.test[fold.test >= 250]):
            learn = fold.train[(fold.train < 250) == (judged[0] < 250)]
            assert np.abs(judged[:, None] - learn).min() == EMBARGO_FRAMES + 1, (
                "neighbours must not be learnt"
            )
    assert sorted(np.concatenate([fold.test for fold in made])) == list(range(500))


def test_short_and_many_takes() -> None:
    assert folds([np.full((40, 1), 0.5)]) == []
    mixed = folds([np.full((40, 1), 0.5), np.full((200, 1), 0.9), np.full((200, 1), 0.91)])
    assert [fold.left_out for fold in mixed] == [(1,), (2,)], "the short one is learnt from and never judged"
    many = folds([np.full((50, 1), float(i % 2)) for i in range(30)])
    assert len(many) == 10
    assert all(fold.whole for fold in many)
    assert [fold.left_out[0] for fold in many] == [0, 3, 6, 10, 13, 16, 19, 23, 26, 29], "from first to last"


def test_takes_of_one_recording_count_as_one_take() -> None:
    quats = np.random.default_rng(0).normal(size=(600, 22, 4)).astype(np.float32)
    other = np.random.default_rng(1).normal(size=(300, 22, 4)).astype(np.float32)
    overlapping = [frame_ids(quats[:300]), frame_ids(quats[50:350]), frame_ids(other)]
    assert group_same_motion(overlapping) == [(0, 1), (2,)]
    ramp = np.linspace(0.0, 1.0, 600)[:, None]
    # No other take matches it: blocks, and a moment in a test block is trained on in neither take.
    for fold in folds([ramp[:300], ramp[50:350]], overlapping[:2]):
        assert (fold.whole, fold.left_out) == (False, (0, 1))
        judged, learnt = (np.where(at < 300, at, at - 250) for at in (fold.test, fold.train))
        assert np.abs(judged[:, None] - learnt).min() > EMBARGO_FRAMES
    # The third take matches it: both are left out whole, together.
    assert [fold.left_out for fold in folds([ramp[:300]] * 3, overlapping)] == [(0, 1), (2,)]


def test_takes_that_follow_each_other_in_a_recording_do_not_reveal_each_other() -> None:
    ids = frame_ids(np.random.default_rng(0).normal(size=(400, 22, 4)).astype(np.float32))
    wanted = [np.full((100, 1), 0.5)] * 3
    spans = [(100, 200), (200, 300), (310, 400)]  # the last one begins ten frames later

    def learnt(lead_in: int) -> list[list[int]]:
        takes = [ids[a:b] for a, b in spans]
        before = [ids[a - lead_in : a] for a, _ in spans]
        made = folds([y[: b - a] for y, (a, b) in zip(wanted, spans, strict=True)], takes, before)
        assert [fold.left_out for fold in made] == [(0,), (1,), (2,)]
        at = np.concatenate([np.arange(a, b) for a, b in spans])
        for fold in made:
            judged, others = at[fold.test], at[fold.train]
            if lead_in:
                assert np.abs(judged[:, None] - others).min() == EMBARGO_FRAMES + 1
        return [np.setdiff1d(at, at[np.concatenate([f.train, f.test])]).tolist() for f in made]

    beside = EMBARGO_FRAMES
    assert learnt(0) == [[], [], []], "nothing says that they are of one recording"
    first, second, third = learnt(beside)
    assert first == list(range(200, 200 + beside))
    assert second == [*range(200 - beside, 200), *range(310, 300 + beside)]
    assert third == list(range(310 - beside, 300))
    short = [np.full((20, 1), 0.5)] * 2
    assert folds(short, [ids[100:120], ids[120:140]], [ids[75:100], ids[95:120]]) == []


def test_a_pose_that_is_held_is_in_any_number_of_recordings() -> None:
    held = np.random.default_rng(0).normal(size=(1, 22, 4)).astype(np.float32).repeat(200, 0)
    moved = np.random.default_rng(1).normal(size=(2, 20, 22, 4)).astype(np.float32)
    takes = [frame_ids(np.concatenate([part, held])) for part in moved]
    assert group_same_motion(takes) == [(0,), (1,)]


@pytest.mark.parametrize("kind", ["ridge", "knn", "mlp"])
def test_every_kind_learns_what_it_is_shown(kind: str) -> None:
    takes = [take(f"{w} {s}", w, s, mix=float(w > 0.5)) for w in (0.3, 1.0) for s in range(3)]
    (part,) = fit_parts(takes, [Output("mix")], FitOptions(kind=kind))
    assert part.kind == kind
    assert part.report["error"]["mix"] < 0.12
    assert part.report["error_of_the_mean"]["mix"] == pytest.approx(0.5, abs=0.15)
    assert [fold["whole"] for fold in part.report["folds"]] == [True] * 6


def test_ridge_finds_a_linear_map_and_says_so() -> None:
    seen_as = np.random.default_rng(0).normal(size=(12, BODY))
    takes = []
    for seed in range(4):
        walk = np.cumsum(np.random.default_rng(seed).normal(size=(300, 12)), 0) * 0.05
        body = (walk @ seen_as).astype(np.float32)
        takes.append(TakeData(f"take {seed}", {"body": body}, 0, {"mix": 0.5 + 0.1 * walk[:, 0]}))
    (part,) = fit_parts(takes, [Output("mix")], FitOptions(inputs=("body",)))
    assert part.kind == "ridge"
    assert part.report["error"]["mix"] < 0.01


def test_noise_is_not_learnt_and_the_error_admits_it() -> None:
    random = np.random.default_rng(1)
    takes = []
    for seed in range(4):
        steps = np.repeat(random.random(10), 30)
        takes.append(TakeData(f"take {seed}", blocks(300, 0.5, seed), 0, {"mix": steps}))
    (part,) = fit_parts(takes, [Output("mix")], FitOptions())
    assert part.report["error"]["mix"] > 0.8 * part.report["error_of_the_mean"]["mix"]


def test_who_chooses_by_luck_is_not_shown_to_be_lucky() -> None:
    """On noise one candidate is best by chance: the reported error is larger than that of the choice."""
    worse = []
    for seed in range(4):
        random = np.random.default_rng(seed)
        takes = [
            TakeData(f"take {s}", blocks(100, 0.5, s), 0, {"mix": np.repeat(random.random(5), 20)})
            for s in range(4)
        ]
        (part,) = fit_parts(takes, [Output("mix")], FitOptions(kind="ridge"))
        worse.append(part.report["error"]["mix"] - min(c["error"] for c in part.report["candidates"]))
        errors = [fold["error"] for fold in part.report["folds"]]
        assert part.report["error"]["mix"] == pytest.approx(np.mean(errors), abs=1e-5)
    assert min(worse) >= -1e-5
    assert max(worse) > 1e-3


def test_the_same_takes_give_the_same_numbers() -> None:
    takes = [take(f"{w}", w, 3, mix=w) for w in (0.2, 0.9)]
    for kind in ("ridge", "knn", "mlp"):
        one, two = (fit_parts(takes, [Output("mix")], FitOptions(kind=kind))[0].arrays for _ in range(2))
        assert all(np.array_equal(one[name], two[name]) for name in one)


def test_outputs_that_other_takes_teach_get_a_head_of_their_own() -> None:
    takes = [
        take("a", 0.2, 1, mix=0.2, cutoff=0.1),
        take("b", 0.9, 2, mix=0.9, cutoff=0.8),
        take("c", 0.5, 3, mix=0.5),
    ]
    parts = fit_parts(takes, [Output("mix"), Output("cutoff"), Output("idle")], FitOptions(kind="ridge"))
    assert {part.outputs: part.report["takes"] for part in parts} == {
        ("mix",): ["a", "b", "c"],
        ("cutoff",): ["a", "b"],
    }


def test_a_lead_is_learnt_from_what_comes_later() -> None:
    def moving(seed: int) -> TakeData:
        t = np.arange(600) / 50
        phase = 2 * np.pi * 0.7 * t + seed
        seen = np.random.default_rng(5).normal(size=(2, BODY))
        body = np.stack([np.sin(phase), np.cos(phase)], 1) @ seen
        noise = np.random.default_rng(seed).normal(size=body.shape)
        return TakeData(
            f"m{seed}",
            {"body": (body + 0.05 * noise).astype(np.float32)},
            0,
            {"mix": 0.5 + 0.4 * np.sin(phase)},
        )

    takes = [moving(seed) for seed in range(3)]
    (part,) = fit_parts(takes, [Output("mix")], FitOptions(kind="ridge", lead_ms=200))
    assert part.report["error"]["mix"] < 0.03
    assert part.report["error_without_lead"]["mix"] > 0.15


def test_frames_without_a_past_are_not_learnt() -> None:
    cold = take("cold", 0.3, 1, frames=200, mix=0.5)
    warm = TakeData("warm", cold.blocks, 25, {"mix": np.full(175, 0.5)})
    for one in (cold, warm):
        (part,) = fit_parts([one], [Output("mix")], FitOptions(kind="ridge"))
        assert part.report["frames"] == 175


def test_what_cannot_be_fitted_is_told() -> None:
    with pytest.raises(OptionError, match="nothing to learn from"):
        fit_parts([], [Output("mix")], FitOptions())
    for frames in (20, 26):  # none or one would be left
        with pytest.raises(OptionError, match="too few to learn 400 ms ahead"):
            fit_parts([take("a", 0.1, 0, frames=frames, mix=1.0)], [Output("mix")], FitOptions(lead_ms=400))
    blind = TakeData("a", {"body": blocks(100, 0, 0)["body"]}, 0, {"mix": np.ones(100)})
    with pytest.raises(OptionError, match="needs a model"):
        fit_parts([blind], [Output("mix")], FitOptions(inputs=("hidden",)), refused=[])
    for options in (
        {"kind": "forest"},
        {"lead_ms": 30},
        {"lead_ms": 500},
        {"beyond": "shout"},
        {"novelty": 0.0},
    ):
        with pytest.raises(OptionError):
            FitOptions(**options)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="inputs"):
        check_blocks(("body", "soul"))


def test_one_short_take_is_fitted_without_a_judgement() -> None:
    (part,) = fit_parts([take("a", 0.3, 1, frames=40, mix=0.7)], [Output("mix")], FitOptions())
    assert part.report["error"] is None
    assert part.report["not_judged"] == ["a"]
    assert part.kind != "mlp"


def test_thinning_keeps_short_takes() -> None:
    weight = np.concatenate([np.full(10_000, 10_000**-0.5), np.full(100, 0.1)])
    kept, share = heads.subsample(weight, 500)
    assert len(kept) <= 500
    assert (kept >= 10_000).sum() > 20, "1 % of the frames, a tenth of the weight"
    np.testing.assert_array_equal(share, np.full(len(kept), 1.0 / len(kept)))
    heavy = np.append(np.ones(1000), 1000.0)
    assert heads.subsample(heavy, 500)[1][-1] == 0.5, "it is met time and again, and kept once"
    kept, share = heads.subsample(np.array([1.0, 2.0, 5.0]), 3)
    assert (kept.tolist(), share.tolist()) == ([0, 1, 2], [0.125, 0.25, 0.625])


def test_what_is_new_is_far_from_all_places() -> None:
    random = np.random.default_rng(0)
    u, places = random.normal(size=(9, 4)).astype(np.float32), random.normal(size=(6, 4)).astype(np.float32)
    wanted = np.linalg.norm(u[:, None] - places, axis=-1).min(1)
    np.testing.assert_allclose(nearest(u, places), wanted, atol=1e-5)
    np.testing.assert_allclose(nearest(places, places), 0.0, atol=1e-3)


def test_knn_never_leaves_what_was_shown() -> None:
    random = np.random.default_rng(0)
    u = random.normal(size=(200, 8)).astype(np.float32)
    y = random.uniform(0.3, 0.6, (200, 2))
    head = heads.compile_head("knn", heads.fit_head("knn", 16, u, y, np.full(200, 1 / 200)))
    given = head((100 * random.normal(size=(50, 8))).astype(np.float32))
    assert given.min() >= y.min() - 1e-6
    assert given.max() <= y.max() + 1e-6
    one = np.concatenate([head(row[None]) for row in u[:20]])
    assert one == pytest.approx(head(u[:20]), abs=1e-4), "a frame alone and among others"
