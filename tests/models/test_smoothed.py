"""The smoothed measures against their definitions, on motion whose jerk and means are known."""

import math

import pytest
import torch

from pyanticip.errors import OptionError
from pyanticip.models import ModelConfig, MotionTransformer
from pyanticip.models.motion.kinematics import KINEMATICS, MEASURES, BodyKinematics
from pyanticip.models.motion.smoothed import (
    BODY,
    CARRIED,
    ENDS,
    HANDS,
    JERK,
    QUANTITIES,
    SHARING,
    SIDE,
    SMOOTHED,
    SPEED,
    STRETCHES,
    VELOCITY_COLUMNS,
    SmoothedMeasures,
)
from pyanticip.vocabulary import PARAMETERS


def windows(velocity: torch.Tensor, measures: torch.Tensor | None = None) -> torch.Tensor:
    """Kept values of ends that move with ``velocity`` (T, 5) along x."""
    still = torch.zeros(len(velocity), 10)
    rest = torch.zeros(len(velocity), MEASURES) if measures is None else measures
    return torch.cat((velocity, still, rest), 1)


def test_columns_are_the_velocities_of_the_ends() -> None:
    body = BodyKinematics()
    row = torch.zeros(1, 231)
    row[:, :132] = torch.tensor([1.0, 0, 0, 0, 1.0, 0]).repeat(22)
    row[:, 132 + 3 * 12 : 132 + 3 * 13] = torch.tensor([0.0, 1.0, 0.0])  # the right forearm turns
    seen = body(row)
    assert seen.shape[1] == KINEMATICS
    assert len(VELOCITY_COLUMNS) + MEASURES == CARRIED
    found = seen[0, list(VELOCITY_COLUMNS)].view(3, 5)
    speed = seen[0, -MEASURES - 21 - 63 : -MEASURES - 21].view(21, 3)[[joint - 1 for joint in ENDS]]
    torch.testing.assert_close(found, speed.t())
    assert float(found[:, 1].norm()) > 0.1
    assert float(found[:, [0, 2, 3, 4]].abs().max()) == 0.0


@pytest.mark.parametrize("hz", [1.0, 2.0, 3.0])
def test_a_swing_is_as_rough_as_its_frequency(hz: float) -> None:
    taps = 25
    time = torch.arange(50 + taps, dtype=torch.float64) / 50.0
    # Quadrature partners, so that the mean square does not depend on where in the swing the window lies.
    phases = torch.tensor([0.0, math.pi / 2, 0.0, math.pi / 2, 0.0], dtype=torch.float64)
    velocity = 20.0 * torch.sin(2 * math.pi * hz * time[:, None] + phases).float()
    said = SmoothedMeasures(taps)(windows(velocity)[-taps:]).view(len(STRETCHES), QUANTITIES)
    # logit of the roughness: 4 ln(f / 1.8), with f damped by the smoother and the differences.
    weight = 2.0 * math.pi * hz / 50.0
    damped = math.cos(weight / 2) ** 5 * (math.sin(weight) / weight) ** 2
    expected = 4.0 * math.log(hz * math.sqrt(damped) / 1.8)
    for stretch in said[1:]:
        assert float(stretch[JERK] - stretch[SPEED]) == pytest.approx(expected, abs=0.6)
    # The mean of sin^2 over one and a half seconds of whole and half swings.
    assert float(said[-1, HANDS]) == pytest.approx(0.65 * math.log(200.0 / 0.64), abs=0.5)


def test_means_are_taken_before_the_logarithm() -> None:
    taps = 12
    velocity = torch.zeros(taps, 5)
    velocity[-3:, 0] = 2.0
    measures = torch.zeros(taps, MEASURES)
    measures[:, 1] = torch.linspace(-3.0, 1.0, taps)
    measures[:, 5] = 0.5
    said = SmoothedMeasures(taps)(windows(velocity, measures)).view(len(STRETCHES), QUANTITIES)
    for row, length in zip(said, STRETCHES, strict=True):
        count = min(length, taps)
        energy = 4.0 * 3 / max(count, 3)
        assert float(row[HANDS]) == pytest.approx(0.65 * math.log((energy + 4e-4) / 0.64), abs=1e-4)
        body = float(torch.exp(measures[-count:, 1] / 0.75).mean())
        assert float(row[BODY]) == pytest.approx(0.75 * math.log(body + 1e-6), abs=1e-4)
        share = (math.sqrt(energy) + 4e-3) ** 2 / (energy + 0.0225)
        assert float(row[SHARING]) == pytest.approx(4.0 * math.log((share + 0.3) / 3.6), abs=1e-3)
        assert float(row[SIDE]) == pytest.approx(0.5, abs=1e-5)


def test_a_still_body_and_few_frames_give_finite_numbers() -> None:
    for taps in (2, 9, 10, 25):
        said = SmoothedMeasures(taps)(torch.zeros(3, taps, CARRIED))
        assert said.shape == (3, SMOOTHED)
        assert bool(torch.isfinite(said).all())


def test_a_model_without_room_beside_them_is_refused() -> None:
    with pytest.raises(OptionError, match="d_model must be over 21"):
        MotionTransformer(ModelConfig(d_model=16, heads=4))


def test_a_new_head_holds_what_the_measures_say() -> None:
    model = MotionTransformer(ModelConfig())
    taps, said_by = model.cfg.taps, model.control.recent

    def said(measures: torch.Tensor, smoothed: torch.Tensor) -> torch.Tensor:
        """Logits of the parameters, each the same at every horizon."""
        numbers = torch.cat((measures.flatten(), smoothed.flatten()))
        found = said_by(numbers).detach().view(model.control.params)
        torch.testing.assert_close(found, found[:, :1].expand_as(found))
        return found[:, 0]

    torch.manual_seed(0)
    still, level = torch.zeros(MEASURES, taps), torch.randn(MEASURES)
    nothing, some = torch.zeros(len(STRETCHES), QUANTITIES), torch.randn(len(STRETCHES), QUANTITIES)
    held = said(level[:, None].expand(-1, taps), nothing)
    # A parameter holds its measure; the dancer's left is the listener's right.
    names = ("pitch", "loudness", "brightness", "density", "space", "pan")
    sides = torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0, -1.0])
    torch.testing.assert_close(held[[PARAMETERS.index(name) for name in names]], level * sides)
    assert held[PARAMETERS.index("roughness")] == 0.0
    # A change arrives over 80 ms in equal steps, and earlier values have no effect.
    for late in range(taps):
        changed = still.clone()
        changed[:, taps - 1 - late] = level
        torch.testing.assert_close(said(changed, nothing), held / 4 if late < 4 else 0.0 * held)
    # Roughness is jerk over speed, as logarithms, with equal weights of all windows.
    rough = said(still, some)
    assert rough.count_nonzero() == 1
    expected = (some[:, JERK] - some[:, SPEED]).mean()
    torch.testing.assert_close(rough[PARAMETERS.index("roughness")], expected)
