"""The training step of the motion model: forward pass, losses, parameter groups."""

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
from training.run.module import TrainModule, decay_groups
from training.run.settings import derived_seed
from training.tasks.motion.losses import losses
from training.tasks.motion.options import MotionTrainOptions
from training.tasks.motion.planning import codes_of, plans_for
from training.tasks.motion.windows import INITIAL, Part

PIECES: Final = (
    *("total", "params", "events", "scalars", "gate", "orthogonality"),
    *("risk", "plan"),
)
"""Names of the terms of the loss, in the order of ``parts``."""

CHANGEABLE: Final = ("dropout",)
"""Fields of the model's configuration that may differ from those of ``run.init``."""

HINTS: Final = {
    "strokes": "; train beats adds them",
    "pose_window": "; train poses adds it",
}
"""For the error message: commands that add a field to a checkpoint."""


def new_model(options: MotionTrainOptions, mean: Tensor, std: Tensor) -> MotionTransformer:
    """Create the model of a run before its first update: the same weights for the same seed.

    Args:
        options: options of the run; with ``run.init``, weights and normalisation are that checkpoint's.
        mean: means of the training features; at least as many as the model reads.
        std: their standard deviations.

    Raises:
        CheckpointError: ``run.init`` is damaged, or made for other features or another body.
        OptionError: it has other sizes than in the options.
    """
    with torch.random.fork_rng():
        torch.manual_seed(derived_seed(options.schedule.seed, INITIAL))
        if not options.run.init:
            model = MotionTransformer(options.config())
            columns = model.cfg.columns
            model.set_normalisation(mean[:columns], std[:columns])
            return model
        initial = initial_model(options)
        changed = {name: value for name, value in options.model.items() if name in CHANGEABLE}
        model = MotionTransformer(initial.cfg.replace(**changed))
        model.load_state_dict(initial.state_dict())
        return model


def initial_model(options: MotionTrainOptions) -> MotionTransformer:
    """Load the model of ``run.init``.

    Raises:
        CheckpointError: it is damaged, or made for other features or another body.
        OptionError: it has other sizes than in the options.
    """
    model = load_motion_model(Path(options.run.init))
    config = model.cfg.to_dict()
    for name, value in options.model.items():
        if name not in CHANGEABLE and model.cfg.replace(**{name: value}) != model.cfg:
            hint = HINTS.get(name, "") if value else ""
            raise OptionError(
                f"option model.{name}: the checkpoint {options.run.init} has {config.get(name)!r}, "
                f"got {value!r}{hint}"
            )
    return model


def ensemble_of(options: MotionTrainOptions) -> list[MotionTransformer]:
    """Load the models of ``run.ensemble``, which are not trained.

    Raises:
        CheckpointError: one is damaged, or made for other features or another body.
    """
    return [load_motion_model(Path(path)).eval().requires_grad_(False) for path in options.run.ensemble]


def widened(out: MotionOutput) -> MotionOutput:
    """Convert an output to single precision, for losses outside of mixed precision."""
    values = {each.name: getattr(out, each.name) for each in fields(out)}
    single: dict[str, Any] = {name: each.float() for name, each in values.items() if isinstance(each, Tensor)}
    return replace(out, **single)


PLANNING_RATE_FACTOR: Final = 5.0
"""Factor on the learning rate of the planning signal's weights, which start near zero."""

SIMULATOR_RATE: Final = 1e-2
"""Learning rate of the anticipation simulator, as in the paper."""


class MotionModule(TrainModule):
    """Trains a motion model.

    Args:
        model: trained in place.
        param_weights: (8, 5) weights of the parameters' errors.
        options: options of the run.
    """

    model: MotionTransformer
    options: MotionTrainOptions
    param_weights: Tensor

    def __init__(self, model: MotionTransformer, param_weights: Tensor, options: MotionTrainOptions) -> None:
        super().__init__(model, options)
        self.register_buffer("param_weights", param_weights, persistent=False)
        # A list, so that they are no submodules: not in the state, the optimiser or train().
        self.ensemble = ensemble_of(options)

    def distilled(self, batch: Batch) -> Batch:
        """The batch with the ensemble's mean forecast mixed into the target parameters."""
        if not self.ensemble:
            return batch
        share = self.options.loss.distillation
        with torch.no_grad():
            models = [model.to(self.device) for model in self.ensemble]
            forecast = torch.stack([model(batch.features).params.float() for model in models]).mean(0)
        return replace(batch, params=torch.lerp(batch.params, forecast, share))

    def training_step(self, batch: Part) -> dict[str, Tensor]:
        """The loss of one part; ``parts`` holds its terms without gradient, ordered as :data:`PIECES`."""
        options, step = self.options, batch.step
        features, plan, codes = batch.batch.features, None, None
        if self.model.planning is not None:
            codes = codes_of(self.model, batch)
            plan = plans_for(self.model, codes, features.shape[1])
        out = self.model(features, predicted=batch.own, plan=plan)
        with torch.autocast(self.device.type, enabled=False):
            out = widened(out)
            target = self.distilled(batch.batch)
            pieces = losses(self.model, out, target, self.param_weights, options.huber_at(step))
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
            total = zero = pieces["params"].new_zeros(())
            for name, piece in pieces.items():
                weight = weights.get(name, 1.0)
                # The risk is computed for the metrics even without a weight.
                total = total + weight * piece if weight or name != "risk" else total
        terms = [total, *(pieces.get(name, zero) for name in PIECES[1:])]
        return {"loss": total, "parts": torch.stack([piece.detach() for piece in terms])}

    def clipped_parameters(self) -> list[nn.Parameter]:
        """All parameters but those of the planning signal's simulator, which has its own optimisation."""
        return [p for n, p in self.model.named_parameters() if not n.startswith("planning.simulator.")]

    def groups(self) -> list[dict[str, Any]]:
        """Parameter groups: weight decay on matrices only, and separate rates for the planning signal."""
        schedule = self.options.schedule
        planning_ids = {id(p) for n, p in self.model.named_parameters() if n.startswith("planning.")}
        shared = [p for p in self.model.parameters() if id(p) not in planning_ids]
        groups = decay_groups(shared, schedule.weight_decay)
        if self.model.planning is not None:
            own = [p for p in self.clipped_parameters() if id(p) in planning_ids]
            simulator = list(self.model.planning.simulator.parameters())
            planning_rate = lambda step: PLANNING_RATE_FACTOR * schedule.learning_rate(step)  # noqa: E731
            groups.append({"params": own, "weight_decay": schedule.weight_decay, "rate": planning_rate})
            groups.append({"params": simulator, "weight_decay": 0.0, "rate": lambda step: SIMULATOR_RATE})
        return groups
