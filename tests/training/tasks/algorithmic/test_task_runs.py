"""Training and evaluation of tasks, with tiny models."""

import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import safetensors.torch
import torch
from support.takes import same_weights

from pyanticip.errors import CheckpointError, FormatError, OptionError
from training.tasks.algorithmic import TASKS
from training.tasks.algorithmic.batches import IGNORED, Batch, Batches, exact_matches, samples, stack
from training.tasks.algorithmic.evaluate import evaluate, last_checkpoint_shares, parse_lengths, top_three
from training.tasks.algorithmic.module import (
    TaskModule,
    capacity,
    limited_places,
    move_entropy,
    new_model,
    shifted,
)
from training.tasks.algorithmic.options import TaskOptions
from training.tasks.algorithmic.runs import open_run, study
from training.tasks.algorithmic.runs import train_or_keep as train
from training.tasks.algorithmic.task import AlgorithmicTask, kept_weights

TINY = {"d_model": 16, "heads": 2, "fast_layers": 1, "ff": 16}
FEW = {"prism_cursors": 2, "prism_width": 4, "prism_hidden": 6}


def options(positions: str = "none", **changes: object) -> TaskOptions:
    fields = {
        "task": "copy",
        "longest": 3,
        "steps": 6,
        "batch": 4,
        "log_every": 2,
        "validate_every": 3,
        "save_every": 2,
        "valid_samples": 8,
        "threads": 1,
        "device": "cpu",
        "model": {**TINY, **(FEW if positions == "prism" else {})},
        "positions": positions,
    }
    return TaskOptions(**{**fields, **changes})


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    run = open_run(folder)
    return run.load(kept_weights(folder)[-1], run.options.top).state_dict()


def test_loss_is_right_of_the_equals_sign_only() -> None:
    rows = stack([TASKS["copy"].draw(n, np.random.default_rng(n)) for n in (2, 4)])
    targets = rows.targets()
    assert targets.shape == (2, 9)
    assert (targets[0] != IGNORED).tolist() == [False] * 2 + [True] * 3 + [False] * 4
    assert (targets[1] != IGNORED).tolist() == [False] * 4 + [True] * 5
    asked = targets[1][4:]
    assert asked.tolist() == rows.ids[1, 5:].tolist()


def test_batches_are_functions_of_seed_and_update() -> None:
    first = Batches(options(batch=5, mixed=True)).update(4)
    again = next(iter(Batches(options(batch=5, mixed=True), start=4)))
    other = Batches(options(batch=5, mixed=True, seed=1)).update(4)
    assert torch.equal(first.rows.ids, again.rows.ids)
    assert first.shift == again.shift
    assert first.rows.ids.shape != other.rows.ids.shape or not torch.equal(first.rows.ids, other.rows.ids)


@pytest.mark.parametrize("mixed", [False, True])
def test_a_batch_has_one_length_unless_they_are_mixed(mixed: bool) -> None:
    batches = Batches(options(longest=20, batch=50, mixed=mixed))
    lengths = [len(set(batches.update(step).rows.prompt.tolist())) for step in range(6)]
    assert all(count > 1 if mixed else count == 1 for count in lengths)


def test_samples_to_judge_by_are_not_those_of_training() -> None:
    task, o = TASKS["copy"], options(longest=20, batch=50)
    seen = {tuple(row) for step in range(6) for row in Batches(o).update(step).rows.ids.tolist()}
    judged = stack(samples(task, 20, 50, 0)).ids.tolist()
    assert not {tuple(row) for row in judged} & seen


def test_lengths_grow_in_the_papers_proportions() -> None:
    o = options(longest=40, steps=600, growth=0.5)
    reached = [o.reach(step) for step in range(600)]
    assert [reached.count(n) for n in (5, 10, 20, 30, 40)] == [50, 50, 100, 100, 300]
    assert options(longest=10, growth=0.0).reach(0) == 10
    assert max(options(longest=3).reach(step) for step in range(6)) == 3


def test_what_parts_minimise_comes_to_the_loss() -> None:
    fields = {**TINY, **FEW, "fast_layers": 2, "prism_again": 2, "prism_orthogonal": "penalty"}
    o = options("prism", model=fields)
    module = TaskModule(new_model(o), o)
    schemes = (module.model.positions, module.model.again)
    with torch.no_grad():
        for scheme in schemes:
            scheme.recurrent.recurrent += 1.0
        found = module.training_step(Batches(o).update(0))
        penalty = float(sum(scheme.penalty() for scheme in schemes))
    assert penalty > 0.1
    assert float(found["loss"] - found["parts"][0]) == pytest.approx(penalty, rel=1e-5)


def test_padding_does_not_enter_the_losses_of_parts() -> None:
    o = options("rope", model={**TINY, "control_field": True}, longest=9)
    module, task = TaskModule(new_model(o), o).double().eval(), TASKS["copy"]
    short, long = (task.draw(n, np.random.default_rng(n)) for n in (2, 9))
    with torch.no_grad():
        found = [
            module.training_step(Batch(stack(rows), 0.0, 0)) for rows in ([short], [long], [short, long])
        ]
    # All but the last token of each are read.
    counts = torch.tensor([len(short.tokens) - 1, len(long.tokens) - 1])
    apart, together = [each["loss"] - each["parts"][0] for each in found[:2]], found[2]
    expected = (torch.stack(apart) * counts).sum() / counts.sum()
    assert float(together["loss"] - together["parts"][0]) == pytest.approx(float(expected), rel=1e-3)


def test_dropout_of_an_update_follows_from_its_number() -> None:
    """Dropout depends only on seed and step, so a resumed run is the same."""
    o = options("rope", model={**TINY, "dropout": 0.5})
    module, batch = TaskModule(new_model(o), o), Batches(o).update(3)
    one, two = (float(module(batch)["loss"].detach()) for _ in range(2))
    assert one == two
    assert one != float(module(batch._replace(step=4))["loss"].detach())


def test_an_answer_is_right_in_every_token_and_the_end() -> None:
    """The model is replaced by an oracle that knows all answers but for one token, and no prompts."""
    examples = samples(TASKS["addition"], 4, 30, 0)
    rows = stack(examples)
    spoiled = torch.arange(30) % 3 == 0
    places = rows.prompt + (torch.arange(30) * 7) % (rows.length - rows.prompt)
    places[3] = rows.length[3] - 1
    at = torch.arange(1, rows.ids.shape[1])
    wrong = (at < rows.prompt[:, None]) | (spoiled[:, None] & (at == places[:, None]))

    def oracle(ids: torch.Tensor) -> SimpleNamespace:
        said = torch.where(wrong, rows.ids[:, 1:] + 1, rows.ids[:, 1:]) % 64
        return SimpleNamespace(logits=torch.nn.functional.one_hot(said, 64).float())

    assert exact_matches(oracle, examples).tolist() == (~spoiled).tolist()


def test_shifted_sinusoids_use_the_whole_table_and_put_it_back() -> None:
    model = new_model(options("sinusoidal"))
    table = model.positions.table
    assert len(table) == capacity(options("sinusoidal")) == 2 * 45 + 2
    with shifted(model, 0.0, 8):
        assert torch.equal(model.positions.table[:8], table[:8])
    with shifted(model, 0.999, 8):
        assert torch.equal(model.positions.table, table[-8:])
    assert model.positions.table is table
    with shifted(new_model(options("rope")), 0.5, 3):
        pass


def test_cursors_have_as_many_places_as_a_batch_needs_and_nothing_else_changes() -> None:
    again = {"fast_layers": 2, "prism_again": 2, "prism_copy": True}
    model = new_model(options("prism", model={**TINY, **FEW, **again}), 9).double()
    ids = stack(samples(TASKS["copy"], 3, 5, 0)).ids
    seen = []

    def loss() -> torch.Tensor:
        model.zero_grad()
        seen.append(model.positions(model.token(ids), None)[0].histograms.shape[-1])
        model(ids).logits.square().mean().backward()
        return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

    wide = loss()
    with limited_places(model, ids.shape[1]):
        narrow = loss()
    assert seen == [22, 10]
    assert model.state_dict()["positions.table"].shape == (22, 4)
    torch.testing.assert_close(narrow, wide, rtol=1e-5, atol=1e-9)
    with limited_places(model, 90):
        assert len(model.positions.table) == 22
    with limited_places(new_model(options("rope")), 4):
        pass


def test_the_cursors_weights_have_rates_of_their_own() -> None:
    o = options("prism", cursor_lr=0.25, cursor_betas=(0.5, 0.6), recurrent_decay=0.7)
    model = new_model(o)
    groups = TaskModule(model, o).groups()
    assert groups[2]["weight_decay"] == 0.7
    assert [tuple(weight.shape) for weight in groups[2]["params"]] == [(3, 6, 6)]
    apart = groups[3]
    assert (apart["rate"](0), apart["betas"], apart["weight_decay"]) == (0.25 / 50, (0.5, 0.6), 0.0)
    assert all(weight.shape == (2, 2) for weight in apart["params"])
    counted = sum(len(group["params"]) for group in groups)
    assert counted == len(list(model.parameters()))


def test_doubt_is_the_entropy_of_the_moves_and_goes_into_the_loss() -> None:
    even = torch.zeros(2, 3, 8)
    assert float(move_entropy(even)) == pytest.approx(np.log(2) + np.log(3))
    sure = even.clone()
    sure[..., :4] = 40.0
    assert float(move_entropy(sure)) == pytest.approx(0.0, abs=1e-6)
    losses, parts = [], []
    for crisp, since in ((0.0, 0.0), (0.5, 0.0), (0.5, 0.5)):
        o = options("prism", crisp=crisp, crisp_from=since)
        model = new_model(o)
        module = TaskModule(model, o).train()
        done = module.training_step(next(iter(Batches(o))))
        losses.append(float(done["loss"].detach()))
        parts.append(done["parts"])
        done["loss"].backward()
        assert not module._entropies
    assert torch.equal(parts[0], parts[1])
    assert losses[2] == losses[0]
    assert losses[0] + 0.2 < losses[1] < losses[0] + 0.5 * np.log(6)


def test_embeddings_begin_as_large_as_asked_for() -> None:
    usual, large = (new_model(options("sinusoidal", embedding=std)).token.weight for std in (0.0, 0.5))
    assert 0.015 < float(usual.detach().std()) < 0.025
    assert 0.4 < float(large.detach().std()) < 0.6


def test_a_study_is_done_once_and_measured(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    told: list[str] = []
    for positions in ("none", "prism"):
        study(out, options(positions, validate_every=2), (positions,), (0, 1), say=told.append)
    again = study(out, options("none", validate_every=2), ("none",), (0, 1), say=told.append)
    assert again["finished"]
    assert "kept" in told[-1]
    with pytest.raises(OptionError, match=r"peak_lr \(--lr\): the run in .* was begun with 0\.003, got 0\.1"):
        study(out, options("none", validate_every=2, peak_lr=0.1), ("none",), (0,))
    pages = evaluate([out], lengths=(2, 3, 6), count=20, checkpoints=3)
    assert set(pages) == {"copy-none-0", "copy-none-1", "copy-prism-0", "copy-prism-1"}
    assert evaluate([out], lengths=(2, 3, 6), count=20, checkpoints=3) == pages
    with pytest.raises(OptionError, match="length 2 has samples=20"):
        evaluate([out], lengths=(2,), count=10)
    far = evaluate([out / "copy-none-0"], lengths=(16,), count=10, long_count=4, checkpoints=1)
    assert far["copy-none-0"]["samples"]["16"] == 4


def test_a_study_interrupted_after_the_last_update_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    again = partial(study, tmp_path, options(validate_every=2), ("none",), (0,), say=told.append)
    with monkeypatch.context() as patch:
        patch.setattr(AlgorithmicTask, "finish", Mock(side_effect=KeyboardInterrupt))
        assert not again()["finished"]
    assert told == ["interrupted in copy-none-0; the same command goes on"]
    assert again()["runs"]["copy-none-0"]["resumed_at"] == 6


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run; its weights and evaluation are replaced."""
    folder = tmp_path_factory.mktemp("runs") / "done"
    train(options("prism", steps=2, validate_every=2), folder)
    return folder


def test_a_run_from_before_positions_had_one_name_is_read(finished_run: Path) -> None:
    run = open_run(finished_run)
    path = kept_weights(run.folder)[-1]
    now = run.load(path, run.options.top).state_dict()
    former = {
        re.sub(r"^positions\.", "prism.", name).replace(".mix.", ".places."): weight.clone()
        for name, weight in now.items()
    }
    assert former.keys() != now.keys()
    safetensors.torch.save_file(former, path)
    assert same_weights(run.load(path, run.options.top).state_dict(), now)


def test_last_and_best_three_weights() -> None:
    page = {"curves": {"000010": {"5": 1.0, "10": 0.2}, "000020": {"5": 0.4, "10": 0.4},
                       "000030": {"5": 0.6, "10": 0.9}, "000040": {"5": 0.5, "10": 0.3}}}  # fmt: skip
    assert last_checkpoint_shares(page) == {5: 0.5, 10: 0.3}
    assert top_three(page) == {5: pytest.approx(0.7), 10: pytest.approx(1.6 / 3)}


def test_the_last_weights_are_the_last_beyond_a_million_updates_too(tmp_path: Path) -> None:
    assert last_checkpoint_shares({"curves": {"999000": {"5": 0.1}, "1000000": {"5": 0.9}}}) == {5: 0.9}
    (tmp_path / "checkpoints").mkdir()
    for step in ("1000000", "999000"):
        (tmp_path / "checkpoints" / f"step-{step}.safetensors").touch()
    assert [file.stem for file in kept_weights(tmp_path)] == ["step-999000", "step-1000000"]


def test_bad_options_are_one_clear_line(finished_run: Path, tmp_path: Path) -> None:
    for fields, message in (
        ({"task": "sort"}, r"unknown task 'sort' \(there are "),
        ({"positions": "learned"}, "option positions: expected one of prism"),
        ({"model": {"vocab": 3}}, "option model.vocab: decided by the task"),
    ):
        with pytest.raises(OptionError, match=message.replace("?", r"\?")):
            TaskOptions(**fields)
    with pytest.raises(OptionError, match="unknown model option 'd_modle'"):
        new_model(options(model={"d_modle": 4}))
    for wrong in ("5,x", "0", "2,,3", "-1", "²", ""):
        with pytest.raises(OptionError, match="--lengths: expected whole numbers"):
            parse_lengths(wrong)
    assert parse_lengths("10, 1,10") == (1, 10)
    assert parse_lengths(None) == ()
    with pytest.raises(CheckpointError, match="no runs of tasks train here"):
        evaluate([tmp_path])
    for text in ("{}", '{"format": 1, "samples": {}, "curves": {"last": {}}}'):
        (finished_run / "evaluation.json").write_text(text)
        with pytest.raises(FormatError, match="not an evaluation of format 1"):
            evaluate([finished_run])
