"""GPT-2 with a planning signal, through the package ``transformers``: for those who have its weights."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.errors import CheckpointError, OptionError, ShapeError, reason
from pyanticip.models.config import ModelConfig
from pyanticip.models.core.plan_attention import Plan, attend_plan
from pyanticip.models.core.streaming import State
from pyanticip.models.parts.planning.passes import Passes, Steps, check_plan
from pyanticip.models.parts.planning.signal import PlanningSignal
from pyanticip.models.parts.planning.targets import PlanChoice
from pyanticip.models.token.checks import check_ids

PLANNING: Final = "planning.safetensors"
PLANNING_CONFIG: Final = "planning.json"


@dataclass(frozen=True)
class PlanningGPT2Output:
    """``logits`` (B, L, V), ``hidden`` (B, L, D) after the final norm, and, with planning, the ``plan`` that
    each step was told to expect and ``anticipation`` (B, L, V), log-scores for the steps after it."""

    logits: Tensor
    hidden: Tensor
    plan: PlanChoice | None = None
    anticipation: Tensor | None = None


@dataclass(frozen=True)
class _Pass:
    hidden: Tensor


class PlanningGPT2(nn.Module):
    """A GPT-2 whose first attention layer looks at plans.

    Keys and values of a plan are made by the layer's own projections, biases included; what is read is added
    before its output projection.

    :param backbone: a ``GPT2LMHeadModel``.
    :param planning: whether there is an anticipator and whatever belongs to it.
    :param options: ``plan_`` fields of :class:`~pyanticip.models.ModelConfig`.
    :raises OptionError: another kind of model.
    """

    def __init__(self, backbone: Any, *, planning: bool = True, **options: Any) -> None:
        super().__init__()
        shape = backbone.config
        if getattr(shape, "model_type", "") != "gpt2" or not hasattr(backbone, "lm_head"):
            raise OptionError(f"expected a GPT-2 with a language-model head, got {type(backbone).__name__}")
        self.backbone = backbone
        self.cfg = ModelConfig.small(
            d_model=shape.n_embd,
            heads=shape.n_head,
            fast_layers=shape.n_layer,
            slow_layers=0,
            ff=4 * shape.n_embd,
            vocab=shape.vocab_size,
            max_seq_len=shape.n_positions,
            bias="none",
            planning=planning,
            **options,
        )
        first = backbone.transformer.h[0]
        self._first = (first,)  # not a second time among the modules
        self._plan: Plan | None = None
        self._queries: Tensor | None = None
        self.planning: PlanningSignal | None = None
        if planning:
            self.planning = PlanningSignal(
                self.cfg,
                shape.vocab_size,
                embedding=backbone.transformer.wte,
                norm=first.ln_1,
                absolute=True,
            )
        first.attn.c_attn.register_forward_hook(self._keep_queries)
        first.attn.c_proj.register_forward_pre_hook(self._add_plan)

    @property
    def token(self) -> nn.Embedding:
        """The token embeddings, tied to the head."""
        table: nn.Embedding = self.backbone.transformer.wte
        return table

    def forward(
        self, ids: Tensor, *, plan: PlanChoice | None = None, boost: Tensor | None = None
    ) -> PlanningGPT2Output:
        """Run whole sequences (B, L); see :class:`~pyanticip.models.token.baseline.BaselineTransformer`.

        :raises ShapeError: ids out of range, or longer than the backbone reads.
        """
        check_ids(ids, self.cfg.vocab)
        if ids.shape[1] > self.cfg.max_seq_len:
            raise ShapeError(f"ids are {ids.shape[1]} long, the backbone reads {self.cfg.max_seq_len}")
        check_plan(self.planning, (ids.shape[0], ids.shape[1]), plan, boost)
        embedded = self.token(ids)
        positions = torch.arange(ids.shape[1], device=ids.device)
        places = self.backbone.transformer.wpe(positions).expand_as(embedded)
        steps = Steps(embedded, ids, places)
        if self.planning is None:
            hidden = self._pass(steps, None, None)[0].hidden
            return PlanningGPT2Output(self.backbone.lm_head(hidden), hidden)
        passes: Passes[_Pass, State] = Passes(self.planning, self._pass, _no_state, _join)
        found = passes(steps, None, None, plan=plan, boost=boost)
        hidden = found.out.hidden
        return PlanningGPT2Output(self.backbone.lm_head(hidden), hidden, found.choice, found.anticipation)

    def _pass(self, steps: Steps, state: State | None, plan: Plan | None) -> tuple[_Pass, None]:
        self._plan = plan
        try:
            # The backbone adds its own positions.
            out = self.backbone.transformer(inputs_embeds=steps.embedded, use_cache=False)
        finally:
            self._plan = self._queries = None
        return _Pass(out.last_hidden_state), None

    def _keep_queries(self, module: nn.Module, args: Any, out: Tensor) -> None:
        self._queries = out[..., : self.cfg.d_model] if self._plan is not None else None

    def _add_plan(self, module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        if self._plan is None or self._queries is None:
            return None
        plan, (first,) = self._plan, self._first
        # With biases: one more channel of the embeddings that is always 1.
        projection = first.attn.c_attn
        weight = torch.cat((projection.weight.T, projection.bias[:, None]), 1)
        plan = Plan(F.pad(plan.embeddings, (0, 1), value=1.0), plan.log_weights, plan.codes, plan.paper)
        rows, length, width = self._queries.shape
        queries = self._queries.view(rows, length, self.cfg.heads, width // self.cfg.heads)
        return (args[0] + attend_plan(queries, plan, weight).to(args[0].dtype), *args[1:])

    def save(self, folder: Path) -> None:
        """Write the backbone as ``transformers`` does, and the planning signal beside it."""
        self.backbone.save_pretrained(folder)
        if self.planning is None:
            return
        tensors = {n: t.detach().cpu().contiguous().clone() for n, t in self.planning.state_dict().items()}
        safetensors.torch.save_file(tensors, str(folder / PLANNING))
        options = {n: v for n, v in self.cfg.to_dict().items() if n.startswith("plan_") and n != "plan_codes"}
        (folder / PLANNING_CONFIG).write_text(json.dumps(options, indent=1) + "\n", encoding="utf-8")


def _no_state(batch: int) -> State:
    raise OptionError("GPT-2 runs whole sequences: plan_inference must be 'passes'")


def _join(steps: Any) -> _Pass:
    raise OptionError("GPT-2 runs whole sequences: plan_inference must be 'passes'")


def load_gpt2(name: str, *, planning: bool | None = None, **options: Any) -> tuple[PlanningGPT2, Any]:
    """A GPT-2 and its tokenizer.

    :param name: a folder of ``transformers``, one written by :meth:`PlanningGPT2.save`, or a name such as
        ``gpt2`` that ``transformers`` has in its cache or may fetch.
    :param planning: with a planning signal or without; ``None``: if the folder holds one.
    :param options: ``plan_`` fields, for a planning signal that is not in the folder.
    :raises OptionError: the package is missing.
    :raises CheckpointError: there is no such model, or it cannot be read.
    """
    try:
        from transformers import AutoTokenizer, GPT2LMHeadModel
    except ImportError:
        raise OptionError("a GPT-2 needs the package transformers: pip install 'pyanticip[train]'") from None
    try:
        backbone = GPT2LMHeadModel.from_pretrained(name)
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError, KeyError) as error:
        line = " ".join(str(error).split())[:200]
        raise CheckpointError(f"{name}: no GPT-2 that transformers can load: {line}") from None
    folder = Path(name)
    kept = (folder / PLANNING).is_file()
    if kept and planning is not False:
        try:
            options = {**json.loads((folder / PLANNING_CONFIG).read_text(encoding="utf-8")), **options}
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{folder / PLANNING_CONFIG}: cannot be read: {reason(error)}") from None
    model = PlanningGPT2(backbone, planning=kept if planning is None else planning, **options)
    if kept and model.planning is not None:
        try:
            model.planning.load_state_dict(safetensors.torch.load_file(str(folder / PLANNING)))
        except (OSError, RuntimeError, safetensors.SafetensorError) as error:
            line = " ".join(str(error).split())[:200]
            raise CheckpointError(f"{folder / PLANNING}: cannot be read: {line}") from None
    return model.eval(), tokenizer
