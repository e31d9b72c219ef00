"""The completion network: torch against the Rust core, training, and comparison with simpler systems."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from support.clips import swing
from support.takes import pieces_of_side

from pyanticip import _core
from pyanticip.errors import OptionError
from pyanticip.vocabulary import CANONICAL_JOINTS
from training.data.augment import yaw
from training.data.batches import sampling_weights
from training.data.corrupt import SUITS, dropped_joints
from training.data.examples import at_rate
from training.evaluate import sensors
from training.evaluate.takes import KINDS
from training.run.averaged import train_averaged
from training.tasks.completion.fit import WINDOW, draw_window, fit, global_rotations, swap_upper_bodies
from training.tasks.completion.net import JOINTS, CompletionNet, joint_positions, matrices, nearest
from training.tasks.completion.teacher import parameters
from training.tasks.options import CompletionOptions
from training.teacher.kinematics import MIRROR, multiply, positions

WEIGHTS = Path(__file__).parents[2] / "rust/anticip-motion/data/completion.safetensors"


@pytest.fixture(scope="module")
def clip(data_dir):
    return at_rate(pieces_of_side(data_dir / "cmu", "validation")[0]).quats[:300]


def hidden(quats, joints):
    mask = np.isin(np.arange(JOINTS), joints)
    seen, _ = dropped_joints(quats, np.ones(JOINTS, np.bool_), np.flatnonzero(~mask).tolist())
    return seen, mask


@pytest.mark.parametrize("joints", [SUITS["six"], (5, 9, 13), (13,)])
def test_what_is_trained_is_what_plays(clip, joints) -> None:
    net = CompletionNet().eval()
    net.load_state_dict(load_file(WEIGHTS))
    seen, mask = hidden(clip, joints)
    with torch.no_grad():
        world = torch.from_numpy(global_rotations(seen).astype(np.float32))[None]
        there = torch.from_numpy(mask.astype(np.float32))[None]
        said, doubt, facing = net(world, there, torch.from_numpy(nearest(mask))[None])
        wanted = joint_positions(facing[:, :, None] @ said)[0].numpy()
    made, confidence = _core.complete_body(seen, mask)
    found = joint_positions(matrices(torch.from_numpy(global_rotations(made).astype(np.float32)))).numpy()
    assert np.abs(found - wanted).max() < 2e-3, "metres"
    assert confidence[:, ~mask] == pytest.approx(np.exp(-doubt[0].exp().numpy() / 0.5)[:, ~mask], abs=2e-3)
    assert (confidence[:, mask] == 1.0).all()


def test_a_stream_is_the_whole_clip_and_nothing_looks_ahead(clip) -> None:
    seen, mask = hidden(clip, SUITS["six"])
    whole, _ = _core.complete_body(seen, mask)
    other = np.array(seen)
    other[200:] = other[199]
    assert (_core.complete_body(other, mask)[0][:200] == whole[:200]).all()
    assert (_core.complete_body(seen[:120], mask)[0] == whole[:120]).all()


def test_hands_and_knees_are_nearer_than_at_rest(clip) -> None:
    for joints in (SUITS["six"], (5, 9, 13)):
        seen, mask = hidden(clip, joints)
        made, confidence = _core.complete_body(seen, mask)

        def off(quats):
            return np.linalg.norm(positions(quats, upright=True) - positions(clip, upright=True), axis=-1)[
                50:, [9, 13, 15, 19]
            ].mean()

        assert off(made) < 0.6 * off(seen)
        assert 0.05 < confidence[50:, ~mask].mean() < 1.0


def test_the_loss_hears_what_the_teacher_says(clip) -> None:
    world = matrices(torch.from_numpy(global_rotations(clip).astype(np.float32)))[None]
    said = parameters(joint_positions(world), world[:, :, 0], range(16, 61, 2))
    assert said[0].numpy() == pytest.approx(_core.teacher_parameters(clip), abs=2e-5)


def test_the_loss_has_a_gradient_where_nothing_moves() -> None:
    turns = torch.eye(3).expand(1, 80, JOINTS, 3, 3).clone().requires_grad_()
    parameters(joint_positions(turns), turns[:, :, 0]).sum().backward()
    assert torch.isfinite(turns.grad).all()


def test_arms_are_crossed_with_somebody_elses_only_where_both_legs_are_measured() -> None:
    torch.manual_seed(0)
    quats = torch.nn.functional.normalize(torch.randn(60, 3, JOINTS, 4), dim=-1)
    mask = torch.zeros(60, JOINTS)
    mask[:30, [0, 16, 20]] = 1.0
    mask[30:, [0, 16]] = 1.0
    known = (torch.rand(60, JOINTS) < 0.5).float()
    made, told = swap_upper_bodies(quats, mask, known)
    other = (made != quats).flatten(2).any(-1).any(-1)
    assert 0 < other[:30].sum() < 30
    assert not other[30:].any()
    kept = [0, *range(14, JOINTS)]
    assert (made[:, :, kept] == quats[:, :, kept]).all(), "hips and legs stay"
    assert torch.equal(told[:, kept], known[:, kept])
    above = slice(1, 14)
    wanted = torch.where(other[:, None], known.roll(1, 0), known)
    assert torch.equal(told[:, above], wanted[:, above]), "what is somebody else's is known as they are"
    # The trunk is turned about the vertical only, to the heading of the hips.
    turned = matrices(made)[:, :, 3, 1, 1] - matrices(quats.roll(1, 0))[:, :, 3, 1, 1]
    assert turned[other].abs().max() < 1e-5, "upright as before"


def test_a_window_is_a_piece_of_the_clip_sometimes_slower_or_faster() -> None:
    angle = 0.02 * np.arange(2 * WINDOW)
    clip = np.zeros((len(angle), JOINTS, 4), np.float32)
    clip[..., 0], clip[..., 1] = np.cos(angle / 2)[:, None], np.sin(angle / 2)[:, None]
    rng = np.random.default_rng(0)
    found = np.array([draw_window(clip, rng)[:, 3] for _ in range(90)])
    angles = 2.0 * np.arctan2(found[..., 1], found[..., 0])
    speeds = np.diff(angles) / 0.02
    np.testing.assert_allclose(speeds, speeds[:, :1].repeat(WINDOW - 1, 1), atol=2e-3)
    changed = np.abs(speeds[:, 0] - 1.0) > 5e-3
    assert 0.2 < changed.mean() < 0.45
    assert 0.69 < speeds.min() < 0.8 < 1.3 < speeds.max() < 1.41
    # Windows begin anywhere and end within the clip.
    assert angles[:, 0].min() < 0.1 * angle[-1]
    assert 0.95 * angle[-1] < angles.max() <= angle[-1]
    short = draw_window(clip[:10], rng)
    assert short[20:] == pytest.approx(clip[9:10].repeat(WINDOW - 20, 0), abs=1e-3), (
        "what is too short, holds"
    )


def test_who_has_four_times_the_minutes_is_drawn_twice_as_often() -> None:
    found = sampling_weights([100, 300, 1600], ["a", "a", "b"])
    np.testing.assert_allclose(found, [1 / 12, 3 / 12, 8 / 12])
    np.testing.assert_allclose(sampling_weights([7], ["a"]), [1.0])


def test_it_learns(monkeypatch) -> None:
    for name, value in (("WINDOWS", 2), ("CompletionNet", lambda: CompletionNet(24))):
        monkeypatch.setattr(f"training.tasks.completion.fit.{name}", value)
    clips = [np.asarray(swing(20).retarget("humanoid").quats)] * 2
    masks = [np.ones(JOINTS, np.bool_)] * 2
    short = fit(clips, ["a", "b"], masks, steps=2)
    longer = fit(clips, ["a", "b"], masks, steps=25)
    seen = torch.from_numpy(global_rotations(clips[0][:100]).astype(np.float32))[None]
    mask = np.isin(np.arange(JOINTS), SUITS["six"])
    given = seen, torch.from_numpy(mask.astype(np.float32))[None], torch.from_numpy(nearest(mask))[None]

    def off(net):
        with torch.no_grad():
            said, _, facing = net(*given)
            return float((facing[:, :, None] @ said - matrices(seen)).abs()[..., ~mask, :, :].mean())

    assert off(longer) < off(short)
    with pytest.raises(OptionError, match="loss became nan at update 1; nothing was written"):
        fit([clips[0] * np.nan], ["a"], masks[:1], steps=2)
    with pytest.raises(OptionError, match="loss became inf at update 1"):
        train_averaged(torch.nn.Linear(1, 1), lambda: torch.tensor(np.inf, requires_grad=True), 2)


def test_of_joints_that_a_take_lacks_nothing_is_learned(monkeypatch) -> None:
    monkeypatch.setattr("training.tasks.completion.fit.CompletionNet", lambda: CompletionNet(8))
    # Without the chest, parent of the arms; the left shoulder, which the mirrored copy has; and toes.
    lacking = [CANONICAL_JOINTS.index(name) for name in ("chest", "left_shoulder", "left_toes", "right_toes")]
    mask = ~np.isin(np.arange(JOINTS), lacking)
    quats, _ = dropped_joints(swing(20).retarget("humanoid").quats, np.ones(JOINTS, np.bool_), lacking)
    net = fit([quats], ["a"], [mask], steps=3)
    with torch.no_grad():
        learned = (net.head.bias.view(JOINTS, -1) != 0.0).any(1).numpy()
    unknown = ~mask & ~mask[list(MIRROR)]
    assert unknown.sum() == 3
    np.testing.assert_array_equal(learned[1:], ~unknown[1:])


def test_where_the_weights_cannot_go_is_told_before_the_training(tmp_path, command) -> None:
    (tmp_path / "a.bvh").touch()
    (tmp_path / "mine.safetensors").write_bytes(b"mine")

    def told(out):
        return command("train", "completion", "--data", tmp_path, "--out", tmp_path / out)

    for out, says in (
        ("nowhere/c.safetensors", "nowhere does not exist"),
        ("c.txt", "expected a name that ends in .safetensors"),
        ("mine.safetensors", "already exists"),
    ):
        code, _, stderr = told(out)
        assert (code > 0, says in stderr.splitlines()[-1]) == (True, True), stderr
    assert (tmp_path / "mine.safetensors").read_bytes() == b"mine"
    code, _, stderr = told(WEIGHTS)
    assert (code, "give a new file for the weights" in stderr) == (2, True)


def test_the_weights_were_made_as_the_command_makes_them() -> None:
    assert CompletionOptions(data=WEIGHTS, out=WEIGHTS).steps == 10_000


def test_what_is_silent_in_training_speaks_when_it_plays() -> None:
    torch.manual_seed(0)
    net = CompletionNet(16)
    torch.nn.init.normal_(net.head.weight)
    quats = torch.nn.functional.normalize(torch.randn(1, 8, JOINTS, 4), dim=-1)
    mask = torch.ones(1, JOINTS)
    near = torch.arange(JOINTS)[None]
    doubts = net(*(given.expand(2000, *given.shape[1:]) for given in (quats, mask, near)))[1]
    assert (doubts[0] != doubts[1]).any()
    net.eval()
    assert torch.equal(net(quats, mask, near)[1], net(quats, mask, near)[1])
    torch.testing.assert_close(doubts.mean(0), net(quats, mask, near)[1][0], atol=0.2, rtol=0.0)


def test_what_ridge_is_taught_is_the_body_without_its_heading_and_goes_back() -> None:
    rng = np.random.default_rng(0)
    quats = rng.normal(size=(60, JOINTS, 4))
    quats /= np.linalg.norm(quats, axis=-1, keepdims=True)
    world, mask = global_rotations(quats), np.isin(np.arange(JOINTS), SUITS["six"])
    same = np.abs((sensors._local(world) * quats).sum(-1))
    np.testing.assert_allclose(same, 1.0, atol=1e-9)
    turned, facing = sensors._turned(world, mask)
    columns = sensors._without_heading(world, mask)
    np.testing.assert_allclose(np.abs((sensors._of_columns(columns) * turned).sum(-1)), 1.0, atol=1e-6)
    about = np.broadcast_to(facing[:, None], turned.shape)
    np.testing.assert_allclose(np.abs((multiply(about, turned) * world).sum(-1)), 1.0, atol=1e-9)
    # Turning everything changes nothing.
    all_round = global_rotations(yaw(quats, np.zeros((60, 3)), 1.3)[0])
    np.testing.assert_allclose(sensors._without_heading(all_round, mask), columns, atol=1e-6)
    past = sensors._past(columns).reshape(60, len(sensors.PAST), JOINTS, 6)
    for n, back in enumerate((0, 2, 5, 10, 25)):
        np.testing.assert_array_equal(past[40, n], columns[40 - back])
        np.testing.assert_array_equal(past[1, n], columns[max(1 - back, 0)])


def test_the_table_of_sensors(tmp_path, data_dir, monkeypatch) -> None:
    monkeypatch.setattr("training.tasks.motion.data.cores", lambda: 1)
    takes = tmp_path / "takes"
    takes.mkdir()
    for name in ("02_01.bvh", "05_01.bvh", "06_01.bvh"):
        (takes / name).write_bytes((data_dir / "cmu" / name).read_bytes())
    report = sensors.evaluate(takes, "train", tmp_path / "cache")
    assert set(report["rows"]) == set(sensors.SENSORS)
    assert report["rows"]["six"][sensors.ALL]["completed"] < report["rows"]["six"][sensors.ALL]["at rest"]
    assert set(report["error"]) <= {sensors.ALL, *KINDS}
    known = "this checkpoint learned from subject 02, 05, who is judged here"
    assert report["warnings"][-1] == known
    for words in ("six, all kinds", f"Warning: {known}.", "400 ms ahead, over that with the whole body"):
        assert words in sensors.markdown(report)
