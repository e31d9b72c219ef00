"""Parts of another package, a position scheme and a gate: one class and one registry entry each."""

import re
from importlib.metadata import EntryPoint

import pytest
import torch
from support import models
from support.new_parts import Leaky, LeakyConfig, Surprise

from pyanticip.errors import OptionError
from pyanticip.models import ModelConfig
from pyanticip.models.parts import registry
from pyanticip.models.parts.registry import Entry
from training.tasks.token.module import forward_losses
from training.tasks.token.options import LanguageOptions

LENGTH = 21

pytestmark = pytest.mark.usefixtures("registered")

NEW = {
    Leaky: {"positions": {"kind": "leaky", "leak": 0.7}},
    Surprise: {"control_field": {"kind": "surprise", "sharpness": 2.0}},
}


@pytest.mark.parametrize("kind", models.KINDS)
@pytest.mark.parametrize("part", NEW)
@torch.no_grad()
def test_models_are_made_with_it_and_it_matters(kind, part):
    """Streaming and causality of such models are tested in ``test_family.py``."""
    model, still = (models.build(kind, noise=0.0, slow_stride=3, **NEW[part]) for _ in range(2))
    assert ModelConfig.from_dict(model.cfg.to_dict()) == model.cfg
    assert any(isinstance(each, part) for each in model.parts())
    # Without the past, the last steps have other outputs.
    for each in still.modules():
        if isinstance(each, Leaky):
            each.leak = 0.0
        elif isinstance(each, Surprise):
            each.sharpness.zero_()
    x = models.inputs(kind, 2, LENGTH)
    assert not torch.allclose(still(x).hidden[:, 1:], model(x).hidden[:, 1:])


@torch.no_grad()
def test_parts_begin_at_their_own_start_and_are_shown_live():
    model = models.build("motion", noise=0.0, **NEW[Leaky], **NEW[Surprise])
    assert torch.equal(model.trunk.positions.view.weight, torch.eye(16))
    assert model(models.inputs("motion", 2, LENGTH)).field.live().shape == (2, LENGTH, 2, 2)


@pytest.mark.parametrize("kind", ["anticipatory", "baseline"])
def test_what_it_is_trained_to_do_is_minimised(kind):
    model, ids = models.build(kind, dtype=torch.float32, **NEW[Surprise]), models.inputs(kind, 2, 12)
    gate, seen = model.parts()[0], []
    usual = gate.losses
    gate.losses = lambda context: seen.append(usual(context)) or seen[0]
    found = forward_losses(model, ids, LanguageOptions(kind=kind))
    gate.losses = lambda context: {}
    rest = forward_losses(model, ids, LanguageOptions(kind=kind))
    torch.testing.assert_close(found.total, rest.total + seen[0]["surprise"])
    assert found.total > rest.total
    assert found.paper == rest.paper


def test_its_options_are_checked_like_those_of_any_other():
    with pytest.raises(OptionError, match=r"unknown positions option 'leek'; did you mean leak\?"):
        ModelConfig(positions={"kind": "leaky", "leek": 0.5})
    with pytest.raises(OptionError, match="none, sinusoidal, rope, alibi, trajectory, prism, leaky, got 'x'"):
        ModelConfig(positions="x")
    with pytest.raises(OptionError, match="control_field must be one of none, field, surprise, got 'x'"):
        ModelConfig(control_field="x")


@pytest.fixture
def install(monkeypatch):
    """Installs packages whose entry points name these objects."""

    def installed(**points):
        found = [EntryPoint(name.replace("__", "."), at, registry.GROUP) for name, at in points.items()]
        monkeypatch.setattr(registry.metadata, "entry_points", lambda group: found)

    return installed


@torch.no_grad()
def test_an_installed_package_brings_it_without_a_line_of_the_registry(install):
    install(positions__mine="support.new_parts:LEAKY")
    model = models.build("motion", noise=0.0, positions={"kind": "mine", "leak": 0.7})
    assert isinstance(model.trunk.positions, Leaky)
    assert ModelConfig.from_dict(model.cfg.to_dict()) == model.cfg
    with pytest.raises(OptionError, match=r"none, sinusoidal, .*mine, got 'x'"):
        ModelConfig(positions="x")


def test_a_broken_package_is_one_line_and_built_in_names_stay(install):
    install(
        positions__lost="nowhere_at_all:ENTRY",
        positions__wrong="support.new_parts:Leaky",
        positions__rope="nowhere_at_all:ENTRY",
    )
    assert ModelConfig(positions="rope").positions.kind == "rope"
    with pytest.raises(OptionError, match=r"positions: nowhere_at_all:ENTRY cannot be used \(ModuleNotFound"):
        ModelConfig(positions="lost")
    with pytest.raises(OptionError, match=r"new_parts:Leaky cannot be used \(TypeError: it is no"):
        ModelConfig(positions="wrong")


class Refusing(Leaky):
    def __init__(self, model):
        raise RuntimeError("no\nroom")


LATE = Entry("nowhere_at_all:Leaky", LeakyConfig)
LAYER = Entry(lambda model: torch.nn.Identity(), LeakyConfig)
REFUSING = Entry(Refusing, LeakyConfig)
SHAPELESS = Entry(Leaky, 3)


def test_a_part_that_cannot_be_built_is_one_line(install):
    here = __name__
    kinds = ("late", "layer", "refusing", "shapeless")
    install(**{f"positions__{kind}": f"{here}:{kind.upper()}" for kind in kinds})
    for kind, says in (
        ("late", "'late' cannot be built (ModuleNotFoundError: No module named 'nowhere_at_all')"),
        ("layer", "'layer' cannot be built (TypeError: it makes Identity, expected Positions)"),
        ("refusing", "'refusing' cannot be built (RuntimeError: no room)"),
        ("shapeless", f"{here}:SHAPELESS cannot be used (TypeError: its config is not a subclass of PartC"),
    ):
        with pytest.raises(OptionError, match=rf"^model option positions: {re.escape(says)}"):
            models.build("motion", noise=0.0, positions={"kind": kind})


def test_a_name_of_two_packages_is_refused(monkeypatch):
    both = [EntryPoint("positions.mine", f"{at}:ENTRY", registry.GROUP) for at in ("one", "two")]
    monkeypatch.setattr(registry.metadata, "entry_points", lambda group: both)
    with pytest.raises(OptionError, match="'mine' is claimed more than once: one:ENTRY, two:ENTRY"):
        ModelConfig(positions="mine")
