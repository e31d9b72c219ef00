"""``pyanticip evaluate language`` on the folders of runs."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from support.full_disk import full_disk
from torch.nn import functional as F

from pyanticip.bridge import bridge_scalars
from pyanticip.cli import cli
from pyanticip.errors import CheckpointError, OptionError
from pyanticip.vocabulary import SCALARS
from training.report.pages import report_paths
from training.tasks.token import plots
from training.tasks.token.evaluate import bridge, evaluate, held_out
from training.tasks.token.gate import shuffled_loss
from training.tasks.token.listen import Drift, HeldOut, by_context, drift, endless, predict
from training.tasks.token.report import summarise, tables, write
from training.tasks.token.task import LanguageTask, load_run, open_run
from training.tasks.token.tokens import Tokenizer
from training.tasks.token.windows import JUDGED_DATA, Windows, synthetic_windows


@pytest.fixture(scope="module")
def judged(runs, tmp_path_factory):
    """The result for three runs, and the folder of the report; pictures are drawn once."""
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("gate", "bias_maps", "scalars", "drift"):
            patch.setattr(plots, name, once(getattr(plots, name)))
        result, sheets = evaluate(list(runs.values()), sequences=12, steps=50)
        write(result, sheets, folder)
        return result, folder


def once(draw):
    drawn = []
    return lambda *given: drawn[0] if drawn else drawn.append(draw(*given)) or drawn[0]


def opened(folder):
    run = open_run(folder)
    model, _, options = load_run(folder)
    return (
        run,
        model,
        held_out(run, model, 12, options.loss.neighbours),
        bridge(model, options.loss.neighbours),
    )


def test_the_numbers_are_those_of_the_model(runs, judged):
    run, model, held, _ = opened(runs["own-1"])
    ids = torch.from_numpy(synthetic_windows(run.options, run.vocab, JUDGED_DATA, 12).take(np.arange(12)))
    assert torch.equal(held.ids, ids)
    given = bridge_scalars(model.embed(ids[:, :-1]).detach(), k=3)
    with torch.no_grad():
        out = model(ids[:, :-1], given)
        loss = F.cross_entropy(out.logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none").view(12, 40)
        own = model(ids[:, :-1], mode="initial")
    report = judged[0]["runs"][1]
    assert report["perplexity"]["external"]["value"] == pytest.approx(math.exp(loss.mean()), rel=1e-4)
    pairs = {
        ("gate", "external", "with_given"): (given[..., 0], out.gate),
        ("gate", "external", "with_predicted"): (out.scalars[..., 0], out.gate),
        ("commitment_loss", "external", "predicted"): (out.scalars[..., 0], loss),
        ("gate", "initial", "with_given"): (given[..., 0], own.gate),
    }
    for path, (a, b) in pairs.items():
        found = report[path[0]][path[1]][path[2]]
        assert found["value"] == pytest.approx(np.corrcoef(a.flatten(), b.flatten())[0, 1], abs=1e-4)
        assert found["low"] <= found["value"] <= found["high"]
    assert report["gate"]["external"]["std"] == pytest.approx(out.gate.std(correction=0).item(), rel=1e-4)
    train = torch.from_numpy(run.data.train.take(run.data.train.spread(1024)))[:, :-1]
    mean = bridge_scalars(model.embed(train).detach(), k=3).mean(0)
    ratio = (out.scalars - given).square().mean((0, 1)) / (mean - given).square().mean((0, 1))
    assert report["scalars"]["external"]["novelty"]["ratio"]["value"] == pytest.approx(
        ratio[5].item(), rel=1e-3
    )
    excess = model.orthogonality().excess.item()
    assert report["heads"]["excess"] == pytest.approx(excess, abs=1e-5)


def test_the_windows_that_chose_the_weights_do_not_judge_them(runs, judged):
    run = open_run(runs["own-0"])
    drawn, fresh = run.unvalidated(40)
    assert fresh
    assert not {row.tobytes() for row in drawn} & {row.tobytes() for row in run.data.valid.rows}
    # A text of 30 windows, 12 of them used for validation: 18 are left.
    text = replace(
        run,
        tokenizer=Tokenizer.__new__(Tokenizer),
        data=replace(run.data, valid=Windows(np.arange(1201), 40)),
    )
    starts = text.data.valid.take(text.data.valid.spread(12))[:, 0]
    windows, fresh = text.unvalidated(18)
    assert fresh
    assert len(windows) == 18
    assert not set(windows[:, 0]) & set(starts)
    windows, fresh = text.unvalidated(19)
    assert (len(windows), fresh) == (19, False)
    assert not judged[0]["runs"][0]["held_out"]["chose_weights"]


def test_the_untrained_model_stands_beside_it(judged):
    report = judged[0]["runs"][0]
    assert 0.0 < report["gate"]["step0"]["std"] < 0.1
    assert report["gate"]["step0"] != report["gate"]["external"]


def test_every_prediction_sees_exactly_its_context(runs):
    _, model, held, scalars_of = opened(runs["own-0"])
    found = by_context(model, held, scalars_of, contexts=(4, 16), positions=3)
    losses = []
    with torch.no_grad():
        for row in held.ids:
            for target in (16, 28, 40):
                window = row[None, target - 4 : target]
                out = model(window, bridge_scalars(model.embed(window), k=3))
                losses.append(F.cross_entropy(out.logits[0, -1], row[target]).item())
    assert found["4"].value == pytest.approx(math.exp(np.mean(losses)), rel=1e-5)
    assert set(found) == {"4", "16", "full"}
    far = held.ids.clone()
    far[:, :12] = (far[:, :12] + 1) % 24
    other = by_context(model, HeldOut(far, held.mask, held.mean), scalars_of, contexts=(4,), positions=1)
    same = by_context(model, held, scalars_of, contexts=(4,), positions=1)
    assert other["4"] != same["4"], "its first target follows the changed tokens"
    with pytest.raises(OptionError, match="from 1 to the sequences' 40 tokens"):
        by_context(model, held, scalars_of, contexts=(64,))


def test_shuffling_changes_what_the_gate_is_fed_and_nothing_else(runs):
    _, model, held, scalars_of = opened(runs["own-0"])
    output = predict(model, held, scalars_of)
    with torch.no_grad():
        model.trunk.commitment.combine.weight[0, 1] = 0.0  # a gate that ignores commitment
        blind = predict(model, held, scalars_of)
        loss, gate = shuffled_loss(model, held, scalars_of)
    np.testing.assert_allclose(loss, blind.loss, atol=1e-5)
    np.testing.assert_allclose(gate, blind.gate, atol=1e-6)
    assert not np.allclose(output.gate, blind.gate, atol=1e-3)


def test_the_drift_watch_is_the_closed_loop(runs):
    _, model, held, _ = opened(runs["own-0"])
    watched = drift(model, held.ids, steps=60)
    stream = held.ids.flatten()[:60]
    with torch.no_grad():
        out = model(stream[None], mode="refined_prev")
    np.testing.assert_allclose(watched.trace, out.scalars[0].numpy(), atol=1e-5)
    report = watched.report()
    assert report["steps"] == 60
    assert report["finite"]
    assert report["commitment"]["min"] <= report["commitment"]["first_mean"] <= report["commitment"]["max"]


def test_drift_is_the_way_from_the_first_block_to_the_last_in_deviations_inside_blocks():
    # Four blocks of 50 steps that vary by 0.1 around 0.2, 0.9, 0.5 and 0.4.
    wobble = 0.1 * np.tile([1.0, -1.0], 25)
    trace = np.concatenate([middle + wobble for middle in (0.2, 0.9, 0.5, 0.4)])
    trace = np.repeat(trace[:, None], len(SCALARS), 1).astype(np.float32)
    parts = trace.reshape(4, 50, -1)
    watched = Drift(200, np.stack([parts.min(1), parts.mean(1), parts.std(1)], 1), trace)
    for name in SCALARS:
        wanted = {"min": 0.1, "max": 1.0, "first_mean": 0.2, "last_mean": 0.4, "drift": 2.0}
        assert watched.report()[name] == pytest.approx(
            {**wanted, "first_std": 0.1, "last_std": 0.1}, abs=2e-3
        )


def test_a_watch_beyond_the_longest_sequence_keeps_weights_and_contexts(runs):
    _, model, held, _ = opened(runs["own-0"])
    longer = endless(model, 400)
    assert longer.cfg.max_seq_len == 400
    assert longer.cfg.pools == model.cfg.pools
    ids = held.ids[:, :40]
    with torch.no_grad():
        torch.testing.assert_close(longer(ids).logits, model(ids).logits, atol=1e-6, rtol=1e-5)
    assert endless(model, 40) is model
    assert len(drift(model, held.ids, steps=300).trace) == 300


def test_the_report_needs_no_other_file(runs, judged):
    result, folder = judged
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 2 + 2 * 4
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    assert json.loads((folder / "report.json").read_text(encoding="utf-8")) == json.loads(json.dumps(result))
    text = (folder / "report.md").read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (folder / link).read_bytes().startswith(b"\x89PNG")


def test_runs_that_differ_in_their_seed_are_averaged(judged):
    summary = judged[0]["summary"]
    assert [group["runs"] for group in summary] == [["own-0", "own-1"], ["plain"]]
    values = [run["perplexity"]["external"]["value"] for run in judged[0]["runs"][:2]]
    found = summary[0]["perplexity, given scalars steer"]
    assert found["mean"] == pytest.approx(np.mean(values), abs=1e-5)
    assert found["std"] == pytest.approx(np.std(values, ddof=1), abs=1e-5)
    assert summary[1]["perplexity"]["runs"] == 1
    twice = {**summary[0], "seeds": [0, 0]}
    told = [tables({**judged[0], "summary": [group]}) for group in (summary[0], twice)]
    assert ["Warning: runs of the same seed" in text for text in told] == [False, True]


def test_runs_that_differ_in_anything_else_are_not_averaged(judged):
    first, second = judged[0]["runs"][:2]
    batch = {**second, "options": {**second["options"], "schedule.batch": 4}}
    width = {**second, "model": {**second["model"], "ff": 64}}
    summary = summarise([first, batch, width, second])
    assert [group["seeds"] for group in summary] == [[0, 1], [1], [1]]
    endings = [group["group"].partition("gate start monotone, ")[2] for group in summary]
    assert endings == [
        "schedule.batch 8, model.ff 16",
        "schedule.batch 4, model.ff 16",
        "schedule.batch 8, model.ff 64",
    ]
    assert judged[0]["summary"][0]["group"].endswith("gate start monotone")


def test_the_command(runs, tmp_path, monkeypatch, command):
    written = []

    def record(_found, _sheets, report):
        written.append(report)
        return report_paths(report)

    monkeypatch.setattr("training.tasks.token.report.write", record)
    arguments = ["evaluate", "language", str(runs["own-0"]), "--drift-steps", "0", "--sequences", "4"]
    for given, page in (("r", "r/report.html"), ("page.html", "page.html")):
        shown = CliRunner().invoke(cli, [*arguments, "--report", str(tmp_path / given)])
        assert shown.exit_code == 0, shown.output
        assert "corr(given commitment, gate)" in shown.output
        assert f"wrote {tmp_path / page}" in shown.output.splitlines()
    assert written == [tmp_path / "r", tmp_path / "page.html"]
    monkeypatch.undo()
    with full_disk():
        code, out, err = command(*arguments, "--report", tmp_path / "full")
    assert (code, "corr(given commitment, gate)" in out) == (1, True), err
    assert err.startswith("pyanticip: ")
    plain = CliRunner().invoke(cli, [*arguments, "--json", "--which", "last"])
    assert json.loads(plain.output)["runs"][0]["run"] == "own-0"


def test_what_is_no_run_is_refused_before_anything_is_judged(runs, tmp_path, monkeypatch):
    monkeypatch.setattr("training.tasks.token.evaluate.judge", lambda *_, **__: pytest.fail("judged"))
    for folders in ([tmp_path], [runs["plain"], tmp_path]):
        with pytest.raises(CheckpointError, match="not a run"):
            evaluate(folders)
    with pytest.raises(OptionError, match="named twice"):
        evaluate([runs["plain"], runs["plain"]])
    with pytest.raises(OptionError, match="at least one run"):
        evaluate([])


def test_a_loss_that_was_logged_once_is_one_number():
    report = {"step": 8, "parameters": 9, "seconds": 1.0, "best_perplexity": 2.0, "best_step": 8}
    for first, says in ((4.0, "loss 4.000, best"), (5.0, "loss 5.000 -> 4.000, best")):
        assert (
            says
            in LanguageTask().summary_lines(Path("r"), {**report, "first_loss": first, "last_loss": 4.0})[0]
        )


def test_a_run_has_one_colour_in_every_panel_of_the_losses(monkeypatch):
    monkeypatch.setattr(plots, "png", lambda figure: figure)
    steps = np.array([1.0, 2.0])
    plain = {"step": steps, "ce": steps, "scalar_refined": 0.0 * steps}
    figure = plots.losses({"plain": plain, "own": {**plain, "scalar_refined": 0.1 * steps}})
    colours = [{line.get_label(): line.get_color() for line in axis.lines} for axis in figure.axes]
    assert [*colours[0], *colours[1]] == ["plain", "own", "own"]
    assert colours[0]["own"] == colours[1]["own"] != colours[0]["plain"]
    plots.pyplot().close(figure)
