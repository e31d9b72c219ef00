"""GPT-2 as a backbone, on a tiny random one."""

import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from pyanticip.errors import CheckpointError, OptionError, ShapeError
from pyanticip.models import BaselineTransformer, ModelConfig
from pyanticip.models.parts.planning.targets import PlanChoice
from training.planning import study, writing
from training.planning.arms import ARMS, planning_copy
from training.planning.gpt2 import PlanningGPT2, load_gpt2
from training.study.runs import read

VOCAB = 300


@pytest.fixture(name="folder", scope="module")
def folder_fixture(tmp_path_factory, texts):
    """A tiny GPT-2 of random weights with its tokenizer, as transformers saves them."""
    folder = tmp_path_factory.mktemp("gpt2") / "tiny"
    torch.manual_seed(0)
    shape = GPT2Config(vocab_size=VOCAB, n_positions=40, n_embd=16, n_layer=2, n_head=4, bos_token_id=0,
                       eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)  # fmt: skip
    backbone = GPT2LMHeadModel(shape)
    with torch.no_grad():
        for parameter in backbone.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    backbone.save_pretrained(folder)
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(
        [texts[0].read_text()],
        trainers.BpeTrainer(vocab_size=VOCAB, show_progress=False, initial_alphabet=alphabet),
    )
    PreTrainedTokenizerFast(tokenizer_object=backend).save_pretrained(folder)
    return folder


@torch.no_grad()
def test_without_a_plan_it_is_the_backbone(folder):
    plain = GPT2LMHeadModel.from_pretrained(folder).eval()
    ids = torch.randint(VOCAB, (2, 12))
    model, _ = load_gpt2(str(folder), planning=True, plan_tokens=5)
    nothing = PlanChoice(torch.zeros(2, 12, 5, dtype=torch.int64), torch.zeros(2, 12, 5))
    wanted = plain(ids).logits
    assert torch.allclose(model(ids, plan=nothing).logits, wanted, atol=1e-5)
    unplanned, _ = load_gpt2(str(folder))
    assert unplanned.planning is None
    assert torch.allclose(unplanned(ids).logits, wanted, atol=1e-5)
    assert float((model(ids).logits - wanted)[:, 1:].abs().max()) > 1e-3


@torch.no_grad()
@pytest.mark.parametrize("paper", [False, True])
def test_what_a_plan_adds_follows_the_definition(folder, paper):
    """The first layer's attention output with a plan, less that without, by the layer's own projections."""
    model, _ = load_gpt2(str(folder), planning=True, plan_tokens=3, plan_paper=paper)
    first = model.backbone.transformer.h[0]
    caught = []
    first.attn.register_forward_hook(lambda module, args, out: caught.append(out[0]))
    ids = torch.randint(VOCAB, (1, 6))
    codes, weights = torch.randint(VOCAB, (1, 6, 3)), torch.rand(1, 6, 3)
    weights = weights / weights.sum(-1, keepdim=True)
    for scale in (1.0, 0.0):
        model(ids, plan=PlanChoice(codes, weights * scale))
    wte, wpe = model.backbone.transformer.wte, model.backbone.transformer.wpe
    places = wpe(torch.arange(6))
    x = first.ln_1(wte(ids[0]) + places)
    step, head = 4, 2
    q = first.attn.c_attn(x)[step, :16].view(4, 4)[head]
    plan = first.ln_1(wte(codes[0, step]) + model.planning.future(places[step]))
    _, k, v = first.attn.c_attn(plan).view(3, 3, 4, 4).unbind(1)
    score = k[:, head] @ q
    w = weights[0, step]
    share = (score / 4).softmax(0) * w if paper else (score / 2 + w.log()).softmax(0)
    read = torch.zeros(4, 4)
    read[head] = share @ v[:, head]
    # Only one head is written out by hand: compare through its part of the output projection.
    found = caught[0][0, step] - caught[1][0, step]
    others = sum(_by_hand(first, q_all, plan, w, h, paper) for h, q_all in _heads(first, x, step, head))
    assert torch.allclose(found, read.flatten() @ first.attn.c_proj.weight + others, atol=1e-5)


def _heads(first, x, step, but):
    queries = first.attn.c_attn(x)[step, :16].view(4, 4)
    return [(h, queries[h]) for h in range(4) if h != but]


def _by_hand(first, q, plan, w, head, paper):
    _, k, v = first.attn.c_attn(plan).view(3, 3, 4, 4).unbind(1)
    score = k[:, head] @ q
    share = (score / 4).softmax(0) * w if paper else (score / 2 + w.log()).softmax(0)
    read = torch.zeros(4, 4)
    read[head] = share @ v[:, head]
    return read.flatten() @ first.attn.c_proj.weight


@torch.no_grad()
def test_nothing_looks_ahead(folder):
    model, _ = load_gpt2(str(folder), planning=True, plan_tokens=5)
    ids = torch.randint(VOCAB, (1, 14))
    before = model(ids)
    for t in (1, 7, 13):
        other = ids.clone()
        other[:, t:] = (other[:, t:] + 1) % VOCAB
        after = model(other)
        for name in ("logits", "anticipation"):
            assert torch.equal(getattr(before, name)[:, :t], getattr(after, name)[:, :t]), name


@torch.no_grad()
def test_it_comes_back_from_its_folder(folder, tmp_path):
    model, tokenizer = load_gpt2(str(folder), planning=True, plan_tokens=5, plan_paper=True)
    model.planning.set_frequencies(torch.rand(VOCAB))
    model.planning.anticipator.head.weight.add_(torch.randn(VOCAB, 16))
    model.save(tmp_path / "kept")
    tokenizer.save_pretrained(tmp_path / "kept")
    again, _ = load_gpt2(str(tmp_path / "kept"))
    assert again.cfg == model.cfg
    ids = torch.randint(VOCAB, (2, 9))
    one, other = model(ids), again(ids)
    assert torch.equal(one.logits, other.logits)
    assert torch.equal(one.anticipation, other.anticipation)
    (tmp_path / "kept" / "planning.safetensors").write_bytes(b"no")
    with pytest.raises(CheckpointError, match=r"planning\.safetensors: cannot be read"):
        load_gpt2(str(tmp_path / "kept"))


def test_the_study_runs_on_it_and_leaves_the_backbone_as_it_is(folder, texts, tmp_path):
    recipe = study.Recipe(*texts, backbone=str(folder), horizon=6, length=16, rows=2, steps=2, windows=3)
    study.study(tmp_path / "runs", study.plan(list(ARMS), [0]), recipe)
    for arm in ARMS:
        assert read(tmp_path / "runs" / f"{study.slug(arm)}-seed0.json")["test"]["perplexity"] > 1.0
    kept, _ = load_gpt2(str(tmp_path / "runs" / "models" / "full-seed0"))
    assert kept.planning is not None
    frozen, _ = load_gpt2(str(tmp_path / "runs" / "models" / "without-fine-tuning-seed0"))
    fresh = GPT2LMHeadModel.from_pretrained(folder).state_dict()
    assert all(torch.equal(frozen.backbone.state_dict()[name], value) for name, value in fresh.items())
    assert any(not torch.equal(kept.backbone.state_dict()[name], value) for name, value in fresh.items())
    writer = writing.load_writer(str(tmp_path / "runs" / "models" / "full-seed0"))
    text = writer.decode(writing.write(writer, writer.encode("the quick"), tokens=4))
    assert isinstance(text, str)


@torch.no_grad()
def test_a_copy_plans_by_itself(folder):
    backbone, _ = load_gpt2(str(folder), planning=False)
    counts = torch.ones(VOCAB)
    copies = [planning_copy(backbone, {"plan_tokens": 5}, counts) for _ in range(2)]
    ids = torch.randint(VOCAB, (1, 8))
    wanted = copies[1].eval()(ids).logits
    copies[0].backbone.transformer.h[0].attn.c_attn.weight.zero_()
    assert torch.equal(copies[1](ids).logits, wanted)


def test_others_are_refused(folder, tmp_path):
    with pytest.raises(CheckpointError, match="no GPT-2 that transformers can load"):
        load_gpt2(str(tmp_path / "nothing"))
    with pytest.raises(OptionError, match="expected a GPT-2"):
        PlanningGPT2(_Other())
    model, _ = load_gpt2(str(folder), planning=True, plan_tokens=5)
    with pytest.raises(ShapeError, match="the backbone reads 40"):
        model(torch.zeros(1, 41, dtype=torch.int64))
    recurrent, _ = load_gpt2(str(folder), planning=True, plan_tokens=5, plan_inference="recurrent")
    with pytest.raises(OptionError, match="plan_inference must be 'passes'"):
        recurrent(torch.zeros(1, 4, dtype=torch.int64))


class _Other(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.config = BaselineTransformer(
            ModelConfig.small(d_model=16, heads=2, fast_layers=1, slow_layers=0, ff=8)
        ).cfg
