"""The training step on a task: model, loss, parameter groups."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.models.core.part import LossContext
from pyanticip.models.parts.positions.fixed import Sinusoidal
from pyanticip.models.parts.positions.prism.module import PrismPositions
from pyanticip.models.token.baseline import BaselineTransformer
from training.run.module import TrainModule, decay_groups, linear_weights
from training.run.settings import derived_seed
from training.tasks.algorithmic import TASKS
from training.tasks.algorithmic.batches import IGNORED, INITIAL, Batch
from training.tasks.algorithmic.options import TaskOptions

PIECES: Final = ("loss", "wrong")
"""Cross-entropy of the answer's tokens, and the share of them that is wrong."""


def capacity(options: TaskOptions, longest: int = 0) -> int:
    """Number of tokens of the longest example, of training or of length ``longest`` if that is more.

    Shifted sinusoids need a table for all evaluated lengths already in training.
    """
    task = TASKS[options.task]
    reach = max(longest, options.top)
    if options.positions == "sinusoidal":
        reach = max(reach, *task.lengths(options.top))
    return task.tokens(reach)


def new_model(options: TaskOptions, longest: int = 0) -> BaselineTransformer:
    """Create the untrained model of a run: the same weights for the same seed.

    Args:
        options: options of the run.
        longest: length that it must be able to read; 0: those of training. The weights do not depend on it.
    """
    with torch.random.fork_rng():
        torch.manual_seed(derived_seed(options.schedule.seed, INITIAL))
        model = BaselineTransformer(options.config(capacity(options, longest)), matched=False)
        if options.start.latch:
            for source in prism_positions(model)[:1]:
                latch(source, options.start.latch)
        if options.start.embedding:
            nn.init.normal_(model.token.weight, 0.0, options.start.embedding)
        return model


def prism_positions(model: BaselineTransformer) -> list[PrismPositions]:
    """The PRISM positions of a model, in the order of its layers; empty for other positions."""
    return [each for each in (model.positions, model.again) if isinstance(each, PrismPositions)]


@torch.no_grad()
def latch(cursors: PrismPositions, gain: float) -> None:
    """Initialise every unit of the cursors' recurrence as a latch that keeps its state: its candidate is
    ``gain`` times its state, with an open reset gate."""
    recurrence = cursors.recurrent
    recurrence.recurrent[2] = gain * torch.eye(recurrence.hidden)
    recurrence.input_bias[: recurrence.hidden] = 1.0


def fitted(weights: Mapping[str, Tensor], model: BaselineTransformer) -> dict[str, Tensor]:
    """Adapt weights to a model for other lengths, by its own table of sinusoids."""
    own = model.state_dict()
    return {name: own[name] if name.endswith(".table") and name in own else v for name, v in weights.items()}


def cursor_weights(model: nn.Module) -> list[nn.Parameter]:
    """The cursors' weights in the attention scores of every layer, which have their own learning rate."""
    return [weight for name, weight in model.named_parameters() if name.rpartition(".")[2] == "alpha"]


@contextmanager
def shifted(model: BaselineTransformer, share: float, length: int) -> Iterator[None]:
    """Shift a model's sinusoidal positions by a share of the room that ``length`` tokens leave.

    Other positions are not changed. (Randomly shifted absolute positions, McLeish et al. 2024: one shift per
    batch, in training only.)
    """
    encoding = model.positions
    room = len(encoding.table) - length if isinstance(encoding, Sinusoidal) else 0
    if not isinstance(encoding, Sinusoidal) or room < 1:
        yield
        return
    table = encoding.table
    encoding.table = table[int(share * (room + 1)) :]
    try:
        yield
    finally:
        encoding.table = table


@contextmanager
def limited_places(model: BaselineTransformer, length: int) -> Iterator[None]:
    """Limit the places of a model's cursors to those that ``length`` tokens can reach: a cheaper scan.

    A cursor moves at most one place up per token, so the result is the same.
    """
    cursors = prism_positions(model)
    original = [source.cfg.places for source in cursors]
    for source, places in zip(cursors, original, strict=True):
        source.set_places(min(places, max(length + 2, 3)))
    try:
        yield
    finally:
        for source, places in zip(cursors, original, strict=True):
            source.set_places(places)


def move_entropy(logits: Tensor) -> Tensor:
    """Mean entropy, nats, of the moves of cursors: of the reset, and of the choice of up, down or neither.

    Args:
        logits: (..., 4 C): reset, up, down and neither, each for C cursors.
    """
    moves = logits.view(*logits.shape[:-1], 4, -1)
    reset, logs = moves[..., 0, :], moves[..., 1:, :].log_softmax(-2)
    reset_entropy = F.softplus(reset) - reset * reset.sigmoid()
    mean: Tensor = (reset_entropy - (logs.exp() * logs).sum(-2)).mean()
    return mean


class TaskModule(TrainModule):
    """Trains a model on a task."""

    model: BaselineTransformer
    options: TaskOptions

    def __init__(self, model: BaselineTransformer, options: TaskOptions) -> None:
        super().__init__(model, options)
        self._entropies: list[Tensor] = []
        for source in prism_positions(model) if options.loss.crisp else ():
            source.gates.register_forward_hook(self._record_entropy)

    def _record_entropy(self, gates: nn.Module, inputs: Any, logits: Tensor) -> None:
        if self.training:
            self._entropies.append(move_entropy(logits))

    def training_step(self, batch: Batch) -> dict[str, Tensor]:
        """The loss of an update; ``parts`` holds its terms without gradient, see :data:`PIECES`."""
        inputs, targets = batch.rows.ids[:, :-1], batch.rows.targets()
        length = inputs.shape[1]
        with shifted(self.model, batch.shift, length), limited_places(self.model, length):
            out = self.model(inputs)
        logits = out.logits
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
        position = torch.arange(length, device=inputs.device)
        weight = (position < batch.rows.length[:, None].to(inputs.device) - 1).to(loss.dtype)
        context, total = LossContext(out, weight=weight), loss
        for part in self.model.parts():
            total = total + sum(part.losses(context).values())
        if self._entropies and batch.step >= self.options.loss.crisp_from * self.options.schedule.steps:
            total = total + self.options.loss.crisp * torch.stack(self._entropies).sum()
        self._entropies.clear()
        counted = targets != IGNORED
        wrong = ((logits.argmax(-1) != targets) & counted).sum() / counted.sum()
        return {"loss": total, "parts": torch.stack((loss.detach(), wrong.to(loss.dtype)))}

    def groups(self) -> list[dict[str, Any]]:
        """Parameter groups: decay on matrices only; the recurrence with its own decay, the cursors' weights
        with their own rate."""
        schedule = self.options.schedule
        cursors = cursor_weights(self.model)
        recurrences = [
            p for name, p in self.model.named_parameters() if name.endswith(".recurrent.recurrent")
        ]
        apart = {id(weight) for weight in (*recurrences, *cursors)}
        weights = [weight for weight in self.model.parameters() if id(weight) not in apart]
        groups = decay_groups(weights, schedule.weight_decay, linear_weights(self.model))
        if recurrences:
            groups.append({"params": recurrences, "weight_decay": schedule.recurrent_decay})
        if cursors:
            own = {"betas": schedule.cursor_betas, "rate": lambda n: schedule.cursor_lr * schedule.share(n)}
            groups.append({"params": cursors, "weight_decay": 0.0, **own})
        return groups
