"""One update of a motion model: forward, losses, weights."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from pyanticip.errors import OptionError
from pyanticip.models import MotionTransformer, load_motion_model
from pyanticip.models.core.part import LossContext
from pyanticip.models.motion.transformer import MotionOutput
from training.data.batches import Batch
from training.run.module import TrainModule
from training.run.settings import derived_seed
from training.tasks.motion.losses import losses
from training.tasks.motion.options import MotionTrainOptions
from training.tasks.motion.planning import codes_of, plans_for
from training.tasks.motion.windows import INITIAL, Part

PIECES: Final = (
    *("total", "params", "events", "scalars", "gate", "orthogonality"),
    *("risk", "plan"),
)
"""The pieces of the loss, in the order of ``parts``."""

FREE: Final = ("dropout",)
"""Fields of the model's configuration that may differ from those of ``run.init``."""

TAUGHT: Final = {
    "strokes": "; train beats teaches its head to hear them",
    "pose_window": "; train poses teaches it to read them",
}
"""What else teaches a checkpoint to have a field, for the message."""


def new_model(options: MotionTrainOptions, mean: Tensor, std: Tensor) -> MotionTransformer:
    """The model of a run before its first update: the same weights for the same seed.

    Args:
        options: of the run; with ``run.init`` the weights and the normalisation are that checkpoint's.
        mean: of the training features, (231,) or more: of those that it reads.
        std: likewise.

    Raises:
        CheckpointError: ``run.init`` is damaged, or made for other features or another body.
        OptionError: it has other sizes than the options say.
    """
    with torch.random.fork_rng():
        torch.manual_seed(derived_seed(options.schedule.seed, INITIAL))
        if not options.run.init:
            model = MotionTransformer(options.config())
            columns = model.cfg.columns
            model.set_normalisation(mean[:columns], std[:columns])
            return model
        begun = begun_from(options)
        changed = {name: value for name, value in options.model.items() if name in FREE}
        model = MotionTransformer(begun.cfg.replace(**changed))
        model.load_state_dict(begun.state_dict())
        return model


def begun_from(options: MotionTrainOptions) -> MotionTransformer:
    """The model of ``run.init``.

    Raises:
        CheckpointError: it is damaged, or made for other features or another body.
        OptionError: it has other sizes than the options say.
    """
    model = load_motion_model(Path(options.run.init))
    known = model.cfg.to_dict()
    for name, value in options.model.items():
        if name not in FREE and model.cfg.replace(**{name: value}) != model.cfg:
            taught = TAUGHT.get(name, "") if value else ""
            raise OptionError(
                f"option model.{name}: the checkpoint {options.run.init} has {known.get(name)!r}, "
                f"given {value!r}{taught}"
            )
    return model


def ensemble_of(options: MotionTrainOptions) -> list[MotionTransformer]:
    """The models of ``run.ensemble``, which learn nothing themselves.

    Raises:
        CheckpointError: one is damaged, or made for other features or another body.
    """
    return [load_motion_model(Path(path)).eval().requires_grad_(False) for path in options.run.ensemble]


def widened(out: MotionOutput) -> MotionOutput:
    """The same in single precision: what mixed precision computed is judged without."""
    told = {each.name: getattr(out, each.name) for each in fields(out)}
    single: dict[str, Any] = {name: each.float() for name, each in told.items() if isinstance(each, Tensor)}
    return replace(out, **single)


SIGNAL_PACE: Final = 5.0
"""Times the learning rate that the planning signal's own weights have: they start from next to nothing."""

SIMULATOR_RATE: Final = 1e-2
"""Learning rate of the anticipation simulator (the paper's)."""


class MotionModule(TrainModule):
    """A motion model that is trained.

    Args:
        model: trained in place.
        param_weights: (8, 5) weights of the parameters' errors.
        options: of the run.
    """

    model: MotionTransformer
    options: MotionTrainOptions
    param_weights: Tensor

    def __init__(self, model: MotionTransformer, param_weights: Tensor, options: MotionTrainOptions) -> None:
        super().__init__(model, options)
        self.register_buffer("param_weights", param_weights, persistent=False)
        # In a list, not modules of this one: they have no part in its state, its mode and its optimiser.
        self.ensemble = ensemble_of(options)

    def distilled(self, batch: Batch) -> Batch:
        """The batch with the ensemble's mean forecast mixed into what the parameters should be."""
        if not self.ensemble:
            return batch
        share = self.options.loss.distillation
        with torch.no_grad():
            there = [other.to(self.device) for other in self.ensemble]
            said = torch.stack([other(batch.features).params.float() for other in there]).mean(0)
        return replace(batch, params=torch.lerp(batch.params, said, share))

    def training_step(self, batch: Part) -> dict[str, Tensor]:
        """The loss of one part; ``parts`` holds its pieces without gradient, see :data:`PIECES`."""
        options, step = self.options, batch.step
        features, plan, codes = batch.batch.features, None, None
        if self.model.planning is not None:
            codes = codes_of(self.model, batch)
            plan = plans_for(self.model, codes, features.shape[1])
        out = self.model(features, predicted=batch.own, plan=plan)
        with torch.autocast(self.device.type, enabled=False):
            out = widened(out)
            aim = self.distilled(batch.batch)
            pieces = losses(self.model, out, aim, self.param_weights, options.huber_at(step))
            weights = options.loss.model_dump()
            context = LossContext(
                out,
                {name for name, weight in weights.items() if weight},
                codes,
                batch.batch.weight,
                None if batch.batch.divisors is None else batch.batch.divisors[1],
                batch.batch.bad,
                self.model.cfg.slow_stride,
            )
            for part in self.model.parts():
                pieces |= part.losses(context)
            total = none = pieces["params"].new_zeros(())
            for name, piece in pieces.items():
                weight = weights.get(name, 1.0)
                # What nobody weighs is only told.
                total = total + weight * piece if weight or name != "risk" else total
        told = [total, *(pieces.get(name, none) for name in PIECES[1:])]
        return {"loss": total, "parts": torch.stack([piece.detach() for piece in told])}

    def clipped(self) -> list[nn.Parameter]:
        """All parameters but the simulator's of the planning signal, which stands for itself."""
        return [p for n, p in self.model.named_parameters() if not n.startswith("planning.simulator.")]

    def groups(self) -> list[dict[str, Any]]:
        """Weight decay on what has more than one dimension; the planning signal's at rates of their own."""
        schedule = self.options.schedule
        signal = {id(p) for n, p in self.model.named_parameters() if n.startswith("planning.")}
        shared = [p for p in self.model.parameters() if id(p) not in signal]
        groups: list[dict[str, Any]] = [
            {"params": [p for p in shared if p.ndim > 1], "weight_decay": schedule.weight_decay},
            {"params": [p for p in shared if p.ndim <= 1], "weight_decay": 0.0},
        ]
        if self.model.planning is not None:
            own = [p for p in self.clipped() if id(p) in signal]
            simulator = list(self.model.planning.simulator.parameters())
            pace = lambda step: SIGNAL_PACE * schedule.learning_rate(step)  # noqa: E731
            groups.append({"params": own, "weight_decay": schedule.weight_decay, "rate": pace})
            groups.append({"params": simulator, "weight_decay": 0.0, "rate": lambda step: SIMULATOR_RATE})
        return groups
