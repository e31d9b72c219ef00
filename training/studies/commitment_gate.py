"""Can the gate follow the given commitment, and does that buy something? On chained synthetic phases."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyanticip.models import AnticipatoryTransformer
from pyanticip.vocabulary import SCALARS
from training.run.files import CONFIG
from training.run.train import train
from training.studies.engine import Measure, Study, mean_of
from training.tasks.token.evaluate import bridge, held_out
from training.tasks.token.gate import commitment_report, gate_report, shuffled_loss, shuffling_report
from training.tasks.token.listen import listen
from training.tasks.token.metrics import heads, scalar_errors
from training.tasks.token.options import LanguageOptions
from training.tasks.token.task import LanguageTask, load_run, open_run

MODEL: Final[dict[str, Any]] = {
    "d_model": 64,
    "ff": 128,
    "heads": 4,
    "dropout": 0.0,
    "positions": "rope",
    "dist_scale": 0.1,
    "max_seq_len": 256,
    "gate_gradient": False,
}

_PAPER: Final[dict[str, Any]] = {"gate_weight": 0.0, "scalar_balance": False, "scalar_weight": 1.0}
ARMS: Final[dict[str, dict[str, Any]]] = {
    "monotone": {"model": {"gate_start": "monotone"}},
    "normal": {"model": {"gate_start": "normal"}},
    "shuffled": {"model": {"gate_start": "monotone"}, "gate_feed": "shuffled"},
    "unsupervised": {"model": {"gate_start": "monotone"}, "gate_weight": 0.0},
    "letter": {"model": {"gate_start": "monotone", "gate_gradient": True}, **_PAPER},
    "letter-normal": {"model": {"gate_start": "normal", "gate_gradient": True}, **_PAPER},
}
"""The gate trained towards the given commitment, from either start; the same with commitment shuffled;
without that term; and the paper's loss, where the gate's gradient reaches the refined head, from either
start."""


@dataclass(frozen=True)
class GateOptions:
    """What all runs have in common."""

    steps: int = 2000
    sequences: int = 16_384
    """Sequences learned from."""
    windows: int = 256
    """Sequences tested on."""

    def run(self, arm: str, seed: int) -> LanguageOptions:
        """How a run trains."""
        common = LanguageOptions().but(
            vocab=32,
            train_sequences=self.sequences,
            valid_windows=self.windows,
            chained=True,
            repeats=(4, 9),
            neighbours=2,
            steps=self.steps,
            batch=16,
            seq_len=64,
            peak_lr=3e-3,
            warm_up_steps=round(0.05 * self.steps),
            final_lr=0.0,
            scalar_balance=True,
            scalar_weight=2.5,
            gate_weight=20.0,
            log_every=min(20, self.steps),
            validate_every=max(1, self.steps // 2),
            save_every=max(1, self.steps // 4),
            threads=1,
            device="cpu",
            seed=seed,
        )
        return common.but(**{**ARMS[arm], "model": {**MODEL, **ARMS[arm]["model"]}})


class GateGround:
    """Chained phases over 32 symbols, drawn anew for every seed."""

    source = "chained phases"
    rivals: Mapping[str, Mapping[str, Any]] = {}

    def __init__(self, given: GateOptions, case: str, folder: Path) -> None:
        self.given, self.folder = given, folder

    def run(self, arm: str, seed: int) -> dict[str, Any]:
        """Train and judge one model, which stays in the cache; one that was interrupted goes on."""
        run = self.folder / f"{arm}-{seed}"
        options = self.given.run(arm, seed)
        if not train(LanguageTask(), options, run, resume=(run / CONFIG).is_file())["finished"]:
            raise KeyboardInterrupt
        return {"figures": judge(run)}


def judge(folder: Path) -> dict[str, float]:
    """The figures of one run on its held-out sequences, with the weights of its last step."""
    run = open_run(folder)
    model, _, options = load_run(folder, "last")
    assert isinstance(model, AnticipatoryTransformer)
    assert model.trunk.bias is not None
    k = options.loss.neighbours
    held = held_out(run, model, options.data.valid_windows, k)
    scalars_of = bridge(model, k)
    said = listen(model, held, scalars_of)
    assert said.scalars is not None
    assert said.given is not None
    assert held.mean is not None
    gate, commitment = gate_report(said), commitment_report(said)
    shuffled = shuffling_report(said, *shuffled_loss(model, held, scalars_of))
    other_gate, _ = shuffled_loss(model, held, scalars_of, whole=True)
    errors = scalar_errors(said.scalars, said.given, said.mask, held.mean)
    weight = model.trunk.bias.first.weight.detach().double().numpy()
    values = (
        gate["with_given"]["value"],
        gate["std"],
        commitment["given"]["value"],
        shuffled["loss_shuffled" if options.loss.gate_feed == "shuffled" else "loss"],
        max(errors[name]["ratio"]["value"] for name in SCALARS),
        heads(weight, model.cfg.heads)["different"],
        shuffled["gain"],
        float(other_gate[said.mask].mean()) - shuffled["loss"],
        gate["selective_gain"],
        shuffled["selective_gain_shuffled"],
        gate["selective_gain_confidence"],
        gate["calibration_error"],
    )
    found = zip((*FOLLOWS, *SHUFFLED), values, strict=True)
    return {name: round(float(value), 6) for name, value in found if value is not None}


FOLLOWS: Final = (
    "corr(given commitment, gate)",
    "std of the gate",
    "corr(given commitment, loss)",
    "loss as trained, nats",
    "largest scalar error, share of the position mean's",
    "different dominant scalars",
)
SHUFFLED: Final = (
    "loss added by shuffling what the gate is fed",
    "loss added by shuffling the gate",
    "lower loss on the half with the highest gate",
    "the same, gate fed shuffled commitment",
    "the same, half with the most probable first choice",
    "calibration error",
)

STUDY: Final = Study(
    title="The commitment gate",
    options=GateOptions,
    arms=ARMS,
    pairs=tuple((arm, "shuffled") for arm in ARMS if arm != "shuffled"),
    tables=tuple(
        (caption, tuple(Measure(name, mean_of(name), 4) for name in names))
        for caption, names in (
            ("What the gate follows, and what it buys", FOLLOWS),
            ("What shuffling costs", SHUFFLED),
        )
    ),
    ground=GateGround,
    seeds="0-4",
)
