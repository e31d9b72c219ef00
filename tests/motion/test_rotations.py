"""Quaternion arithmetic on arrays, against SciPy's rotations."""

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from pyanticip.motion import rotations

Array = NDArray[np.float64]
RNG = np.random.default_rng(0)
QUATS = rotations.normalized(RNG.normal(size=(2, 40, 4)))
VECTORS = RNG.normal(size=(2, 40, 3))
AXES = np.eye(3)


def scipy(quats: Array) -> Rotation:
    return Rotation.from_quat(quats[..., [1, 2, 3, 0]].reshape(-1, 4))


def pairs(a: Array, b: Array) -> tuple[Array, Array]:
    """All pairs."""
    return np.repeat(a, len(b), axis=0), np.tile(b, (len(a), 1))


def test_products_inverses_and_turned_vectors() -> None:
    a, b = QUATS
    apart = (scipy(a) * scipy(b)).inv() * scipy(rotations.multiply(a, b))
    assert apart.magnitude().max() < 1e-12
    np.testing.assert_allclose(rotations.multiply(a, rotations.conjugate(a))[:, 0], 1.0)
    np.testing.assert_allclose(rotations.rotate(a, VECTORS[0]), scipy(a).apply(VECTORS[0]), atol=1e-12)
    np.testing.assert_array_equal(rotations.rotate(a[:1], VECTORS[0])[0], rotations.rotate(a, VECTORS[0])[0])


def test_angles_are_exact_when_tiny_and_near_half_a_turn_whatever_the_signs() -> None:
    for angle in (0.0, 1e-9, 1e-3, 1.0, np.pi - 1e-9, np.pi):
        turn = np.array([np.cos(angle / 2.0), 0.0, np.sin(angle / 2.0), 0.0])
        there = rotations.multiply(QUATS[0], turn)
        for sign in (1.0, -1.0):
            np.testing.assert_allclose(rotations.angle_between(QUATS[0], sign * there), angle, atol=1e-13)


@pytest.mark.parametrize("axes", [(), *((a,) for a in range(3)), *itertools.product(range(3), repeat=3)])
def test_euler_angles_of_any_order_and_number(axes: tuple[int, ...]) -> None:
    angles = 9.0 * RNG.normal(size=(5, 4, len(axes)))
    found = rotations.from_euler(angles, axes)
    assert found.shape == (5, 4, 4)
    expected = Rotation.identity(20)
    for axis, part in zip(axes, angles.reshape(20, -1).T, strict=True):
        expected = expected * Rotation.from_rotvec(part[:, None] * AXES[axis])
    assert (expected.inv() * scipy(found)).magnitude().max() < 1e-9


def test_axes_are_taken_to_where_they_are_told_near_half_turns_too() -> None:
    near = np.concatenate([AXES, -AXES, AXES + 1e-7, VECTORS[0]])
    along, across = pairs(near, np.concatenate([AXES + 0.01, -AXES - 0.02, VECTORS[1, :9]]))
    turns = scipy(rotations.from_axes(along, across))
    along = along / np.linalg.norm(along, axis=-1, keepdims=True)
    np.testing.assert_allclose(turns.apply(AXES[0]), along, atol=1e-9)
    # Perpendicular, and on the right side.
    rest = across - (across * along).sum(-1, keepdims=True) * along
    rest /= np.linalg.norm(rest, axis=-1, keepdims=True)
    np.testing.assert_allclose(turns.apply(AXES[1]), rest, atol=1e-6)


@pytest.mark.parametrize("along", [*AXES, [0.0, 0.0, 0.0], [1.0, 2.0, -3.0]])
def test_axes_that_are_parallel_or_none_turn_nothing(along: list[float]) -> None:
    for across in (np.zeros(3), np.array(along), -2.0 * np.array(along)):
        np.testing.assert_array_equal(rotations.from_axes(np.array(along), across), [1.0, 0.0, 0.0, 0.0])


def test_the_smallest_rotation_between_two_directions() -> None:
    units = np.concatenate([AXES, -AXES, VECTORS[0] / np.linalg.norm(VECTORS[0], axis=-1, keepdims=True)])
    a, b = pairs(units, units)
    found = rotations.rotation_between(a, b)
    np.testing.assert_allclose(rotations.rotate(found, a), b, atol=1e-7)
    angle = np.arctan2(np.linalg.norm(np.cross(a, b), axis=-1), (a * b).sum(-1))
    np.testing.assert_allclose(rotations.angle_between(found, np.eye(4)[:1]), angle, atol=1e-7)
    back = rotations.rotation_between(units, -units)
    np.testing.assert_allclose(rotations.rotate(back, units), -units, atol=1e-12)


POLES = (np.pi / 2.0 - 2e-9, np.pi / 2.0, -np.pi / 2.0)


def test_angles_about_z_y_and_x_are_those_of_the_rotation_at_the_poles_too() -> None:
    z, y, x = np.moveaxis(np.pi * RNG.uniform(-1.0, 1.0, (30, 3)), -1, 0)
    for pitch in (0.5 * y, *(np.full(30, pole) for pole in POLES)):
        turned = rotations.from_euler(np.stack([z, pitch, x], -1), (2, 1, 0))
        back = rotations.to_euler_zyx(turned)
        again = rotations.from_euler(back, (2, 1, 0))
        assert rotations.angle_between(again, turned).max() < 1e-6
        np.testing.assert_allclose(back[:, 1], pitch, atol=1e-7)
        rounded = turned.astype(np.float32)  # as clips hold them
        again = rotations.from_euler(rotations.to_euler_zyx(rounded), (2, 1, 0))
        assert rotations.angle_between(again, turned).max() < 1e-6
