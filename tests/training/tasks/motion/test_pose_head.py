"""The pose ahead: turns, what the head starts as, what it costs live."""

import numpy as np
import torch

from pyanticip.models import ModelConfig, MotionTransformer
from pyanticip.models.motion.pose import PoseHead, six_of, to_matrix, turns_of
from training.tasks.motion.validation import pose_figures, positions
from training.teacher.kinematics import positions as teacher_positions

POSE = ModelConfig(
    d_model=28, heads=4, fast_layers=1, slow_layers=1, ff=32, control_hidden=32, pools=4, pose_horizons=(100,)
)


def unit(seed, *shape):
    quats = torch.randn(*shape, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return quats / quats.norm(dim=-1, keepdim=True)


def test_turns_lead_from_now_to_later_whatever_the_heading():
    now, later = unit(0, 5), unit(1, 5)
    turn = to_matrix(six_of(turns_of(now, later)))
    assert torch.allclose(to_matrix(six_of(now)) @ turn, to_matrix(six_of(later)))
    yaw = unit(2, 1).expand(5, 4)
    # yaw * q, written with the same product: conj(conj(yaw)) * q.
    sign = torch.tensor([1.0, -1.0, -1.0, -1.0], dtype=torch.float64)
    turned = [turns_of(yaw * sign, q) for q in (now, later)]
    assert torch.allclose(to_matrix(six_of(turns_of(*turned))), turn)


def test_matrices_are_those_of_scipy():
    from scipy.spatial.transform import Rotation

    quats = unit(3, 7)
    wanted = Rotation.from_quat(quats[:, [1, 2, 3, 0]].numpy()).as_matrix()
    np.testing.assert_allclose(to_matrix(six_of(quats)).numpy(), wanted, atol=1e-12)


def test_it_starts_as_holding_the_pose(example_of):
    head = PoseHead(28, 32, 3)
    turns = to_matrix(head(torch.randn(2, 5, 28)))
    assert turns.shape == (2, 5, 3, 22, 3, 3)
    assert torch.allclose(turns, torch.eye(3).expand_as(turns))
    model, hold = pose_figures(MotionTransformer(POSE).eval(), example_of(120, 1, "01"))[0]
    np.testing.assert_allclose(model, hold, rtol=1e-3)
    assert model[2] == 115


def test_places_are_the_teachers():
    quats = unit(4, 3, 22)
    quats[:, 0] = torch.tensor([1.0, 0.0, 0.0, 0.0])
    given = positions(to_matrix(six_of(quats)).float()).numpy()
    np.testing.assert_allclose(given, teacher_positions(quats.numpy(), upright=False), atol=1e-5)


def test_forward_neither_computes_nor_needs_it():
    torch.manual_seed(0)
    model = MotionTransformer(POSE).eval()
    torch.manual_seed(0)
    bare = MotionTransformer(ModelConfig.from_dict({**POSE.to_dict(), "pose_horizons": []})).eval()
    state = model.state_dict()
    assert {name for name in state if name not in bare.state_dict()} == {
        f"pose.{layer}.{kind}" for layer in ("first", "last") for kind in ("weight", "bias")
    }
    bare.load_state_dict({name: value for name, value in state.items() if not name.startswith("pose.")})
    x = torch.randn(1, 30, 231)
    with torch.no_grad():
        assert torch.equal(model(x).params, bare(x).params)
    assert ModelConfig.from_dict(ModelConfig().to_dict()).pose_horizons == ()
