"""The training step of token models: forward pass, losses, parameter groups, validation and metrics."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, Literal

import torch
from torch import Tensor
from torch.distributed import ReduceOp, all_reduce

from pyanticip.bridge import bridge_scalars
from pyanticip.models import AnticipatoryTransformer, build_language_model
from pyanticip.models.core.part import LossContext
from pyanticip.models.parts.planning.heads import SIMULATOR_LR
from pyanticip.models.token.baseline import BaselineOutput
from pyanticip.models.token.transformer import LanguageModel, LanguageOutput
from training.run.module import TrainModule, decay_groups, linear_weights
from training.run.recorder import Recorder
from training.run.settings import derived_seed
from training.tasks.token.losses import PARTS, LanguageLosses, losses
from training.tasks.token.options import LanguageOptions
from training.tasks.token.windows import INITIAL, Batch, Prepared, Windows

LOSS: Final = "loss"
"""Column of the paper's loss."""

TRAINED: Final = tuple({"paper": LOSS}.get(name, name) for name in PARTS)
"""Columns of the losses in training."""


class LanguageRecorder(Recorder):
    """See :class:`training.run.recorder.Recorder`.

    Column ``predicted`` is the share of the model's own scalars, ``seconds`` the time spent in updates and
    validations so far. The losses of the model's parts have their own columns.

    Args:
        prepared: folder, options and validation data of the run.
        start: update that the run starts or resumes from.
        module: the trained module.
    """

    displayed_loss: ClassVar = LOSS
    selection_metric: ClassVar = "valid_ce"
    options: LanguageOptions

    def __init__(self, prepared: Prepared, start: int, module: "LanguageModule") -> None:
        super().__init__(prepared.folder, prepared.options, start)
        self.windows: Windows = prepared.data.valid
        self.module = module
        self._set_pieces(piece_names(module, torch.from_numpy(self.windows.take(self.windows.spread(1)))))

    def _set_pieces(self, pieces: Sequence[str]) -> None:
        """Set the columns, including one for each of these losses of the model's parts."""
        self.module.pieces = tuple(pieces)
        self.loss_names = (*TRAINED, *pieces)
        self.validated = tuple(f"valid_{name}" for name in self.loss_names)
        self.columns = (
            *("step", "lr", *self.loss_names, "grad_norm", "predicted"),
            *(*self.validated, "seconds"),
        )

    def state_dict(self) -> dict[str, Any]:
        """State of the recorder, and the losses of parts that have columns."""
        return {**super().state_dict(), "pieces": self.module.pieces}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Inverse of :meth:`state_dict`; runs of older versions resume without such columns."""
        self._set_pieces(state_dict.get("pieces", ()))
        super().load_state_dict(state_dict)

    def extra_columns(self, done: int, means: dict[str, float]) -> dict[str, float]:
        """Learning rate, and share of the model's own scalars."""
        own = 1.0 if self.options.loss.scalars == "self" else self.options.sampled(done - 1)
        return {**super().extra_columns(done, means), "predicted": own}

    def validate(self, module: Any, done: int) -> dict[str, float]:
        """Every term of the loss on the validation windows, each process on its share."""
        assert isinstance(module, LanguageModule)
        windows = self.windows
        mine = windows.spread(self.options.data.valid_windows)[self.rank :: self.world]
        size = max(1, self.options.schedule.batch // (self.world * self.options.run.accumulate))
        pieces = [torch.from_numpy(windows.take(mine[at : at + size])) for at in range(0, len(mine), size)]
        sums = summed_losses(module, pieces)
        if self.world > 1:
            all_reduce(sums, ReduceOp.SUM)
        return dict(zip(self.validated, (sums[:-1] / sums[-1]).tolist(), strict=True))


def new_model(options: LanguageOptions, vocab: int) -> LanguageModel:
    """Create the untrained model of a run: the same weights for the same seed."""
    with torch.random.fork_rng():
        torch.manual_seed(derived_seed(options.schedule.seed, INITIAL))
        kind: Literal["anticipatory", "baseline"] = (
            "baseline" if options.kind == "baseline" else "anticipatory"
        )
        return build_language_model(options.config(vocab), kind)


def forward_losses(
    model: LanguageModel, ids: Tensor, options: LanguageOptions, predicted: Tensor | None = None
) -> LanguageLosses:
    """Run windows (B, L + 1) through a model and compute its losses.

    The scalars that steer the model, and that its heads learn, are computed from the token embeddings without
    gradient. In training a model that plans gets simulated plans, which know the future by design; otherwise
    it uses its own.

    Args:
        model: of either kind.
        ids: (B, L + 1) tokens.
        options: which scalars steer, and the loss.
        predicted: (B, L) bool: positions steered by the model's own scalars.
    """
    inputs, targets = ids[:, :-1], ids[:, 1:]
    plan = None
    if model.planning is not None and model.training:
        plan = model.planning.simulate(ids, inputs.shape[1])
    if not isinstance(model, AnticipatoryTransformer):
        out = model(inputs, plan=plan)
        return with_parts(losses(model, out, targets, None, options), model, out, ids)
    with torch.autocast(ids.device.type, enabled=False):
        computed = bridge_scalars(model.embed(inputs).detach(), k=options.loss.neighbours)
        computed = computed.to(ids.device, torch.float32)
    if options.loss.scalars == "self":
        out = model(inputs, mode="initial", plan=plan)
    else:
        out = model(inputs, computed, predicted=predicted, plan=plan)
    return with_parts(losses(model, out, targets, computed, options), model, out, ids)


def with_parts(
    base: LanguageLosses, model: LanguageModel, out: LanguageOutput | BaselineOutput, ids: Tensor
) -> LanguageLosses:
    """Add the losses of the model's parts to the total."""
    context, total = LossContext(out, codes=ids), base.total
    pieces: dict[str, Tensor] = {}
    for part in model.parts():
        for name, piece in part.losses(context).items():
            total = total + piece
            pieces[name] = pieces[name] + piece if name in pieces else piece
    return replace(base, total=total, pieces=pieces)


class LanguageModule(TrainModule):
    """Trains a token model."""

    model: LanguageModel
    options: LanguageOptions
    pieces: tuple[str, ...] = ()
    """Names of the losses of the model's parts that are reported."""

    def training_step(self, batch: Batch) -> dict[str, Tensor]:
        """The loss of one part; ``parts`` holds its terms without gradient, ordered as :data:`PARTS` and then
        :attr:`pieces`."""
        sampling = self.options.loss.own_scalars > 0.0
        result = forward_losses(self.model, batch.ids, self.options, batch.predicted if sampling else None)
        return {"loss": result.total, "parts": result.stacked(self.pieces)}

    def groups(self) -> list[dict[str, Any]]:
        """Weight decay on the matrices of linear layers only.

        Embeddings are excluded: those of rare tokens, mostly without gradient, would decay towards the
        origin, and their scalars with them.
        """
        planning = self.model.planning
        # At its own rate: it has to follow changes of the anticipator.
        simulator = [] if planning is None else list(planning.simulator.parameters())
        simulator_ids = {id(weight) for weight in simulator}
        weights = [weight for weight in self.model.parameters() if id(weight) not in simulator_ids]
        groups = decay_groups(weights, self.options.schedule.weight_decay, linear_weights(self.model))
        if simulator:
            groups.append({"params": simulator, "weight_decay": 0.0, "rate": lambda step: SIMULATOR_LR})
        return groups


@torch.no_grad()
def summed_losses(module: LanguageModule, batches: list[Tensor]) -> Tensor:
    """Sums over windows of every term of the loss, then the number of windows: (terms + 1,) float64.

    Without dropout and scheduled sampling; the module's mode is restored.
    """
    training = module.training
    module.eval()
    sums = torch.zeros(len(PARTS) + len(module.pieces) + 1, dtype=torch.float64, device=module.device)
    try:
        with module.autocast():
            for ids in batches:
                result = forward_losses(module.model, ids.to(module.device), module.options)
                sums[:-1] += result.stacked(module.pieces).double() * len(ids)
                sums[-1] += len(ids)
    finally:
        module.train(training)
    return sums


@torch.no_grad()
def piece_names(module: LanguageModule, ids: Tensor) -> tuple[str, ...]:
    """Names of the losses of the model's parts, from a trial with windows ``ids`` (B, L + 1)."""
    if not module.model.parts():
        return ()
    training = module.training
    module.eval()
    try:
        return tuple(forward_losses(module.model, ids.to(module.device), module.options).pieces)
    finally:
        module.train(training)
