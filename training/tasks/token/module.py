"""One update of a token model (forward, loss, weights), and what it writes down."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, Literal

import torch
from torch import Tensor, nn
from torch.distributed import ReduceOp, all_reduce

from pyanticip.bridge import bridge_scalars
from pyanticip.models import AnticipatoryTransformer, build_language_model
from pyanticip.models.core.part import LossContext
from pyanticip.models.parts.planning.heads import SIMULATOR_LR
from pyanticip.models.token.baseline import BaselineOutput
from pyanticip.models.token.transformer import LanguageModel, LanguageOutput
from training.run.module import TrainModule
from training.run.recorder import Recorder
from training.run.settings import derived_seed
from training.tasks.token.losses import PARTS, LanguageLosses, losses
from training.tasks.token.options import LanguageOptions
from training.tasks.token.windows import INITIAL, Batch, Prepared, Windows

LOSS: Final = "loss"
"""Column of the paper's loss, the one figures are compared by."""

TRAINED: Final = tuple({"paper": LOSS}.get(name, name) for name in PARTS)


class LanguageRecorder(Recorder):
    """See :class:`training.run.recorder.Recorder`.

    In a row ``predicted`` is the share of the model's own scalars, ``seconds`` the time spent in updates and
    validations so far. The losses of the model's parts have columns of their own.

    Args:
        prepared: where to write, and the data to validate on.
        start: update the run goes on from.
        module: what is trained.
    """

    shown: ClassVar = LOSS
    judged_by: ClassVar = "valid_ce"
    options: LanguageOptions

    def __init__(self, prepared: Prepared, start: int, module: "LanguageModule") -> None:
        super().__init__(prepared.folder, prepared.options, start)
        self.windows: Windows = prepared.data.valid
        self.module = module
        self._tell(piece_names(module, torch.from_numpy(self.windows.take(self.windows.spread(1)))))

    def _tell(self, pieces: Sequence[str]) -> None:
        """Have columns for these losses of the model's parts."""
        self.module.pieces = tuple(pieces)
        self.trained = (*TRAINED, *pieces)
        self.validated = tuple(f"valid_{name}" for name in self.trained)
        self.columns = (
            *("step", "lr", *self.trained, "grad_norm", "predicted"),
            *(*self.validated, "seconds"),
        )

    def state_dict(self) -> dict[str, Any]:
        """As the recorder's, and which losses have columns."""
        return {**super().state_dict(), "pieces": self.module.pieces}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """See :meth:`state_dict`; a run from before there were such columns goes on without."""
        self._tell(state_dict.get("pieces", ()))
        super().load_state_dict(state_dict)

    def extras(self, done: int, means: dict[str, float]) -> dict[str, float]:
        """The learning rate, and the share of the model's own scalars."""
        own = 1.0 if self.options.loss.scalars == "self" else self.options.sampled(done - 1)
        return {**super().extras(done, means), "predicted": own}

    def validate(self, module: Any, done: int) -> dict[str, float]:
        """Every part of the loss on the validation windows, each process on its share."""
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
    """The untrained model of a run: the same weights for the same seed."""
    with torch.random.fork_rng():
        torch.manual_seed(derived_seed(options.schedule.seed, INITIAL))
        kind: Literal["anticipatory", "baseline"] = (
            "baseline" if options.kind == "baseline" else "anticipatory"
        )
        return build_language_model(options.config(vocab), kind)


def forward_losses(
    model: LanguageModel, ids: Tensor, options: LanguageOptions, predicted: Tensor | None = None
) -> LanguageLosses:
    """Run windows (B, L + 1) through a model and compare with what comes next.

    Scalars to steer by and to learn from are those of the token embeddings without gradient. A model that
    plans looks at simulated plans in training, which know the future by design, and else at its own.

    Args:
        model: of either kind.
        ids: (B, L + 1) tokens.
        options: which scalars steer, and the loss.
        predicted: (B, L) bool, steps steered by the model's own scalars.
    """
    inputs, targets = ids[:, :-1], ids[:, 1:]
    plan = None
    if model.planning is not None and model.training:
        plan = model.planning.simulate(ids, inputs.shape[1])
    if not isinstance(model, AnticipatoryTransformer):
        out = model(inputs, plan=plan)
        return with_parts(losses(model, out, targets, None, options), model, out, ids)
    with torch.autocast(ids.device.type, enabled=False):
        found = bridge_scalars(model.embed(inputs).detach(), k=options.loss.neighbours)
        given = found.to(ids.device, torch.float32)
    if options.loss.scalars == "self":
        out = model(inputs, mode="initial", plan=plan)
    else:
        out = model(inputs, given, predicted=predicted, plan=plan)
    return with_parts(losses(model, out, targets, given, options), model, out, ids)


def with_parts(
    found: LanguageLosses, model: LanguageModel, out: LanguageOutput | BaselineOutput, ids: Tensor
) -> LanguageLosses:
    """What the model's parts are trained to do comes to what is minimised, and nothing else changes."""
    context, total = LossContext(out, codes=ids), found.total
    pieces: dict[str, Tensor] = {}
    for part in model.parts():
        for name, piece in part.losses(context).items():
            total = total + piece
            pieces[name] = pieces[name] + piece if name in pieces else piece
    return replace(found, total=total, pieces=pieces)


class LanguageModule(TrainModule):
    """A token model that is trained."""

    model: LanguageModel
    options: LanguageOptions
    pieces: tuple[str, ...] = ()
    """The losses of the model's parts that are told."""

    def training_step(self, batch: Batch) -> dict[str, Tensor]:
        """The loss of one part; ``parts`` holds its pieces without gradient, see :data:`PARTS`,
        and those of :attr:`pieces`."""
        sampling = self.options.loss.own_scalars > 0.0
        found = forward_losses(self.model, batch.ids, self.options, batch.predicted if sampling else None)
        return {"loss": found.total, "parts": found.stacked(self.pieces)}

    def groups(self) -> list[dict[str, Any]]:
        """Weight decay on the matrices of linear layers only.

        An embedding without gradient would still decay: rare tokens would drift towards the origin, and their
        scalars with them.
        """
        planning = self.model.planning
        # At a rate of its own: it has to forget what the anticipator was like before.
        simulator = [] if planning is None else list(planning.simulator.parameters())
        apart = {id(weight) for weight in simulator}
        matrices = [m.weight for m in self.model.modules() if isinstance(m, nn.Linear)]
        matrices = [weight for weight in matrices if id(weight) not in apart]
        decayed = {id(weight) for weight in matrices} | apart
        groups: list[dict[str, Any]] = [
            {"params": matrices, "weight_decay": self.options.schedule.weight_decay},
            {"params": [p for p in self.model.parameters() if id(p) not in decayed], "weight_decay": 0.0},
        ]
        if simulator:
            groups.append({"params": simulator, "weight_decay": 0.0, "rate": lambda step: SIMULATOR_LR})
        return groups


@torch.no_grad()
def summed_losses(module: LanguageModule, batches: list[Tensor]) -> Tensor:
    """Sums over windows of every part of the loss, and their number: (parts and pieces + 1,) float64.

    Without dropout and scheduled sampling; the module is left in the mode it was in.
    """
    training = module.training
    module.eval()
    sums = torch.zeros(len(PARTS) + len(module.pieces) + 1, dtype=torch.float64, device=module.device)
    try:
        with module.autocast():
            for ids in batches:
                found = forward_losses(module.model, ids.to(module.device), module.options)
                sums[:-1] += found.stacked(module.pieces).double() * len(ids)
                sums[-1] += len(ids)
    finally:
        module.train(training)
    return sums


@torch.no_grad()
def piece_names(module: LanguageModule, ids: Tensor) -> tuple[str, ...]:
    """What the losses of the model's parts are called, of windows like ``ids`` (B, L + 1)."""
    if not module.model.parts():
        return ()
    training = module.training
    module.eval()
    try:
        return tuple(forward_losses(module.model, ids.to(module.device), module.options).pieces)
    finally:
        module.train(training)
