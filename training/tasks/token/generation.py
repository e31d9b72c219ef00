"""``pyanticip evaluate generation``: does it help to wait for commitment?

Two questions, each with three ways to say the same tokens: at every step (ungated), with the commitment gate,
and with as many latent steps as the gate took but at other places (shuffled), which costs the same compute.

* *Foretelling*: the held-out continuation is dictated; how well is each token foretold by the step that says
  it?
* *Writing*: the model writes by itself; how likely is its text to a judge, a model trained on its own? Beside
  it, at equal compute too, the best of several ungated attempts, chosen by the model's own likelihood.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from pyanticip.errors import OptionError
from pyanticip.models import AnticipatoryTransformer
from pyanticip.models.token.generate import Generation, Steering, generate
from pyanticip.models.token.transformer import LanguageModel
from training.report.statistics import Interval, interval_of
from training.tasks.token.evaluate import bridge
from training.tasks.token.metrics import Array, perplexity
from training.tasks.token.task import load_run, open_run

THETAS: Final = (0.8, 0.5)
Judge = Callable[[Tensor], Array]
WAYS: Final = ("ungated", "gated", "shuffled")


def compare(
    folder: Path | str,
    judge: Path | str,
    *,
    thetas: Sequence[float] = THETAS,
    prompts: int = 64,
    prompt: int = 16,
    tokens: int = 32,
    temperature: float = 1.0,
    scalars: Steering = "external",
    seed: int = 0,
) -> dict[str, Any]:
    """Gated against ungated generation at equal compute.

    Args:
        folder: run of an anticipatory model.
        judge: run of any model on the same data; best a baseline of another seed.
        thetas: thresholds to try.
        prompts: held-out windows whose beginnings are the prompts.
        prompt, tokens: lengths.
        temperature: of sampling.
        scalars: what steers.
        seed: of sampling, shuffling and resampling.

    Raises:
        OptionError: a run that has no gate, a judge that is the same or has another vocabulary, windows too
            short.
        CheckpointError: no run, or no weights in it.
    """
    run = open_run(folder)
    model, tokenizer, options = load_run(folder)
    critic, other, theirs = load_run(judge)
    if not isinstance(model, AnticipatoryTransformer):
        raise OptionError(f"{folder}: evaluate generation needs an anticipatory model, given a baseline")
    same = (tokenizer is None) == (other is None)
    if same and tokenizer is not None and other is not None:
        same = tokenizer.to_json() == other.to_json()
    if not same or critic.cfg.vocab != model.cfg.vocab:
        raise OptionError(f"{judge}: the judge has another vocabulary than {folder}")
    mine, its = model.state_dict(), critic.state_dict()
    if mine.keys() == its.keys() and all(torch.equal(mine[name], its[name]) for name in mine):
        raise OptionError(f"{judge}: the judge is {folder} itself; expected another run, best a baseline")
    windows = run.data.valid.take(run.data.valid.spread(prompts))
    if windows.shape[1] < prompt + tokens:
        raise OptionError(
            f"prompt and tokens must fit a window of {windows.shape[1]}, given {prompt} + {tokens}"
        )
    ids = torch.from_numpy(windows[:, : prompt + tokens])
    head, tail = ids[:, :prompt], ids[:, prompt:]

    def say(**how: Any) -> Generation:
        usual = {"tokens": tokens, "temperature": temperature, "scalars": scalars, "seed": seed}
        return generate(model, head, neighbours=options.loss.neighbours, **{**usual, **how})

    judged = judge_of(critic, theirs.loss.neighbours, prompt)
    plain = {"follow": say(gated=False, follow=tail), "write": say(gated=False)}
    rows = [_compare_at(theta, say, plain, tail, judged, prompt, seed=seed) for theta in thetas]
    return {
        "run": Path(folder).name,
        "judge": Path(judge).name,
        "seed": options.schedule.seed,
        "prompts": len(ids),
        "prompt": prompt,
        "tokens": tokens,
        "temperature": temperature,
        "scalars": scalars,
        "judged_truth": _perplexity(judged(ids), seed),
        "thetas": rows,
    }


def _compare_at(
    theta: float,
    say: Any,
    plain: dict[str, Generation],
    tail: Tensor,
    judged: Judge,
    prompt: int,
    *,
    seed: int,
) -> dict[str, Any]:
    follow = {"ungated": plain["follow"], "gated": say(theta=theta, follow=tail)}
    follow["shuffled"] = say(waits=shuffle(follow["gated"].waits, seed), follow=tail)
    write = {"ungated": plain["write"], "gated": say(theta=theta)}
    write["shuffled"] = say(waits=shuffle(write["gated"].waits, seed))
    losses = {way: -made.log_probs.double().cpu().numpy() for way, made in follow.items()}
    found = {way: judged(made.ids) for way, made in write.items()}
    texts = {way: made.ids for way, made in write.items()}
    attempts = max(1, round(float(write["gated"].forwards.double().mean()) / tail.shape[1]))
    texts["best of"] = best_of(say, attempts, plain["write"], seed)
    found["best of"] = judged(texts["best of"])
    return {
        "theta": theta,
        "foretelling": {
            **{way: _perplexity(loss, seed) for way, loss in losses.items()},
            "gain": _difference(losses["ungated"], losses["gated"], seed).to_dict(),
            "gain_over_shuffled": _difference(losses["shuffled"], losses["gated"], seed).to_dict(),
            "statistics": follow["gated"].statistics(),
        },
        "writing": {
            **{way: _perplexity(loss, seed) for way, loss in found.items()},
            "attempts": attempts,
            "variety": {way: variety(made, prompt) for way, made in texts.items()},
            "gain": _difference(found["ungated"], found["gated"], seed).to_dict(),
            "gain_over_shuffled": _difference(found["shuffled"], found["gated"], seed).to_dict(),
            "gain_over_best_of": _difference(found["best of"], found["gated"], seed).to_dict(),
            "statistics": write["gated"].statistics(),
        },
    }


def shuffle(waits: Tensor, seed: int) -> Tensor:
    """The same waits at other places of the same row: each row keeps its number of steps."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.rand(waits.shape, generator=generator).argsort(1).to(waits.device)
    return waits.gather(1, order)


def best_of(say: Any, attempts: int, first: Generation, seed: int) -> Tensor:
    """Of several ungated attempts the one that the model itself finds likeliest, per row: (B, P + T)."""
    made = [first]
    # Far seeds: row r of a call draws from seed + r.
    made += [say(gated=False, seed=seed + 1_000_003 * n) for n in range(1, attempts)]
    scores = torch.stack([m.log_probs.sum(1) for m in made])
    ids = torch.stack([m.ids for m in made])
    return ids[scores.argmax(0), torch.arange(ids.shape[1])]


def judge_of(critic: LanguageModel, neighbours: int, prompt: int) -> Judge:
    """A model as a judge of texts: the loss (B, T) of every token after the prompt."""

    @torch.no_grad()
    def judged(ids: Tensor) -> Array:
        critic.eval()
        seen = ids[:, :-1]
        if isinstance(critic, AnticipatoryTransformer):
            logits = critic(seen, bridge(critic, neighbours)(seen)).logits
        else:
            logits = critic(seen).logits
        spread = logits.float().log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
        return np.asarray(-spread[:, prompt - 1 :].double().cpu().numpy())

    return judged


def variety(ids: Tensor, prompt: int) -> float:
    """Different pairs of neighbouring tokens over all pairs, mean over rows: 1 repeats nothing."""
    rows = ids[:, prompt - 1 :].cpu().numpy()
    shares = [len(set(zip(r[:-1].tolist(), r[1:].tolist(), strict=True))) / (len(r) - 1) for r in rows]
    return round(float(np.mean(shares)), 5)


def _perplexity(loss: Array, seed: int) -> dict[str, float | None]:
    return perplexity(loss, np.ones(loss.shape, np.bool_), seed=seed).to_dict()


def _difference(theirs: Array, ours: Array, seed: int) -> Interval:
    """How many nats a token lower our loss is, paired by row; above 0 is a gain."""

    def mean(sums: Array) -> Array:
        return np.asarray(sums[..., 0] / sums[..., 1])

    sums = np.stack([(theirs - ours).sum(1), np.full(len(ours), float(ours.shape[1]))], 1)
    return interval_of(sums, mean, seed=seed)


def markdown(report: dict[str, Any]) -> str:
    """The comparison as Markdown tables."""

    def cell(found: dict[str, Any], digits: int = 2) -> str:
        if found["value"] is None:
            return "-"
        return f"{found['value']:.{digits}f} [{found['low']:.{digits}f}, {found['high']:.{digits}f}]"

    lines = [
        f"# Gated against ungated: {report['run']}, judged by {report['judge']}",
        "",
        f"{report['prompts']} prompts of {report['prompt']} held-out tokens, {report['tokens']} tokens each, "
        f"temperature {report['temperature']:g}, {report['scalars']} scalars. 95 % intervals over prompts. "
        f"Perplexity of the true continuation to the judge: {cell(report['judged_truth'])}.",
        "",
    ]
    columns = ["theta", "ungated", "gated", "same waits elsewhere", "best of n", "gain, nats"]
    columns += ["over waits elsewhere", "over best of n", "tokens per forward", "deferred", "forced"]
    for kind, title in (
        ("foretelling", "perplexity of the dictated tokens"),
        ("writing", "perplexity of the written tokens to the judge"),
    ):
        lines += [f"## {kind.capitalize()}: {title}", ""]
        lines += [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
        for row in report["thetas"]:
            part, stats = row[kind], row[kind]["statistics"]
            best = f"{cell(part['best of'])} (n = {part['attempts']})" if kind == "writing" else ""
            over = cell(part["gain_over_best_of"], 4) if kind == "writing" else ""
            cells = [f"{row['theta']:g}", *(cell(part[way]) for way in WAYS), best]
            cells += [cell(part["gain"], 4), cell(part["gain_over_shuffled"], 4), over]
            cells += [f"{stats[k]:.3f}" for k in ("tokens_per_forward", "deferred", "forced")]
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
        for row in report["thetas"]:
            waits = row[kind]["statistics"]["waits"]
            lines.append(f"theta {row['theta']:g}: tokens by steps waited (0, 1, ...): {waits}")
            lines.append("")
    return "\n".join(lines)
