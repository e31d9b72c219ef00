"""Questions about the parts of the motion model: equal runs, kept by the file, tables of what there is."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from pyanticip.errors import FormatError, OptionError
from pyanticip.models import ModelConfig
from training.data.glitches import KINDS
from training.study import arms, arms_report, motion_data
from training.study.questions import QUESTIONS, question
from training.study.runs import read
from training.study.scale import SIZES, parameters

SMALL = {"d_model": 28, "ff": 24, "slow_layers": 1, "fast_layers": 1, "control_hidden": 16, "pools": 4}
TINY = arms.Recipe(steps=2, batch_frames=160, copies=1, model=SMALL)


def untimed(file):
    return {k: v for k, v in json.loads(file.read_text()).items() if "seconds" not in k}


@pytest.fixture(scope="module")
def risk_study(takes, tmp_path_factory):
    out = tmp_path_factory.mktemp("risk")
    asked = question("risk")
    done = arms.study(asked, out, arms.plan(asked, ("plain", "risk"), [0, 1]), takes, TINY)
    assert done == {"done": 4, "kept": 0}
    return out


@pytest.mark.parametrize("name", QUESTIONS)
def test_arms_have_as_many_parameters_and_differ_in_what_they_say(name):
    asked = question(name)
    options = {arm: arms.Recipe().options(asked, arm, 3) for arm in asked.arms}
    counts = {arm: parameters(found.config()) for arm, found in options.items()}
    for arm, count in counts.items():
        assert count == pytest.approx(counts[next(iter(counts))], rel=0.01), arm
    plain = arms.Recipe().options(replace(asked, arms={"nothing": {}}), "nothing", 3)
    for arm, found in options.items():
        flat = {f"{t}.{n}" for t, fields in asked.arms[arm].items() for n in fields}
        told = {k for k in found.differences(plain) if not k.startswith("model.")}
        model = {
            f"model.{n}"
            for n, v in found.config().to_dict().items()
            if v != plain.config().to_dict()[n] and n != "ff"
        }
        assert told | model <= flat, arm
    for one, other in asked.pairs:
        assert {one, other} <= set(asked.arms)


def test_the_sizes_are_those_of_the_study_of_geometry():
    found = arms.Recipe().options(question("risk"), "risk", 0).config()
    assert found == replace(ModelConfig(**SIZES), control_field=True, ff=found.ff)


def test_plans_take_all_arms_of_a_seed_before_the_next():
    asked = question("positions")
    runs = arms.plan(asked, tuple(asked.arms), [3, 4])
    assert len({run.file for run in runs}) == len(runs) == 2 * len(asked.arms)
    assert [run.seed for run in runs] == sorted(run.seed for run in runs)
    with pytest.raises(OptionError, match=r"arm: .*'magic'"):
        arms.plan(asked, ("magic",), [0])
    with pytest.raises(OptionError, match=r"question: .*'magic'"):
        question("magic")


def test_runs_are_repeatable_and_kept(takes, risk_study, tmp_path):
    asked = question("risk")
    runs = arms.plan(asked, ("plain", "risk"), [0, 1])
    assert arms.study(asked, risk_study, runs, takes, TINY) == {"done": 0, "kept": 4}
    assert arms.study(asked, tmp_path, runs[1:2], takes, TINY) == {"done": 1, "kept": 0}
    assert untimed(tmp_path / runs[1].file) == untimed(risk_study / runs[1].file)
    with pytest.raises(OptionError, match=r"done with schedule.peak_lr=0.002, not 0.1"):
        arms.study(asked, risk_study, runs, takes, replace(TINY, lr=0.1))
    # What does nothing in a model does not make it another run.
    told = read(risk_study / runs[0].file)
    told["options"]["loss"]["plan"] = 0.5
    (tmp_path / runs[0].file).write_text(json.dumps(told))
    assert arms.study(asked, tmp_path, runs[:1], takes, TINY) == {"done": 0, "kept": 1}
    with pytest.raises(OptionError, match="other motion"):
        arms.study(asked, risk_study, arms.plan(asked, ("field",), [0]), takes, replace(TINY, copies=2))


def test_runs_are_judged_under_every_condition(risk_study):
    run = read(risk_study / "motion-risk-risk-seed0.json")
    kept = read(risk_study / "motion-risk-reference.json")
    assert set(run["scores"]["validation"]) == {"06", "35"}
    for split, rows in run["scores"].items():
        for subject, row in rows.items():
            for kind in KINDS:
                assert np.array(row[kind]).shape == (8, 5)
                if f"frames.{kind}" in row and row[f"frames.{kind}"][1] > 0:
                    assert 0.0 <= row[f"auc.{kind}"] <= 1.0
                    assert f"auc.{kind}" in kept["rivals"]["hold"][split][subject]
                    # The reference's errors are of the clean movement, whatever the condition.
                    assert (
                        kept["reference"][split][subject][kind] == kept["reference"][split][subject]["clean"]
                    )
    plain = read(risk_study / "motion-risk-plain-seed0.json")
    assert not any(name.startswith("auc") for name in plain["scores"]["validation"]["06"])
    assert run["curve"][0]["total"] != plain["curve"][0]["total"]


def test_the_copies_of_the_question_have_labels(takes, risk_study):
    clean = motion_data.load(takes, 1, risk_study / "cache")
    bad = motion_data.load(takes, 1, risk_study / "cache", "glitched")
    assert all(example.bad is None for example in clean.training.train)
    assert any(example.bad is not None and example.bad.any() for example in bad.training.train)
    assert set(bad.roots) >= {example.name for clips in bad.held_out.values() for example in clips}


def test_report_pairs_by_seed_and_says_how_much_is_there(risk_study, tmp_path):
    asked = question("risk")
    first = arms_report.report(asked, risk_study, tmp_path)
    page = (tmp_path / "motion-risk.md").read_text()
    (tmp_path / "motion-risk.md").write_text(page + "\nwritten by hand\n")
    arms_report.report(asked, risk_study, tmp_path)
    assert (tmp_path / "motion-risk.md").read_text() == page + "\nwritten by hand\n"
    assert f"4 of {3 * len(asked.arms)} runs" in page
    assert (tmp_path / "motion-risk.png").read_bytes()[:4] == b"\x89PNG"
    assert set(first["differences"]["validation"]) == {"risk - plain"}
    held = read(risk_study / "motion-risk-reference.json")["reference"]["validation"]

    def error(arm, seed):
        rows = read(risk_study / f"motion-risk-{arm}-seed{seed}.json")["scores"]["validation"]
        mine, theirs = (np.mean([r["jitter"] for r in some.values()], 0)[:, 2:] for some in (rows, held))
        return np.mean(mine / theirs)

    apart = [error("risk", s) - error("plain", s) for s in (0, 1)]
    gap = first["differences"]["validation"]["risk - plain"]["jitter"]
    assert gap["mean"] == pytest.approx(np.mean(apart))
    # Student's t with one degree of freedom: 12.706 standard errors.
    assert gap["high"] - gap["mean"] == pytest.approx(
        12.706 * np.std(apart, ddof=1) / math.sqrt(2), rel=1e-3, abs=1e-9
    )
    assert first["differences"]["validation"]["risk - plain"]["AUC"]["mean"] != gap["mean"]
    assert "nan" not in page


def test_reports_refuse_what_does_not_belong_together(risk_study, tmp_path):
    asked = question("risk")
    for file in risk_study.glob("*.json"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    run = read(tmp_path / "motion-risk-plain-seed1.json")
    for change, words in (({"motion": "x"}, "motion"), ({"arm": "odd"}, "not a run")):
        (tmp_path / "motion-risk-plain-seed1.json").write_text(json.dumps({**run, **change}))
        with pytest.raises(FormatError, match=words):
            arms_report.load(asked, tmp_path)
    with pytest.raises(FormatError, match="no runs"):
        arms_report.load(question("positions"), tmp_path)


def test_plans_are_judged_with_their_own_with_none_and_with_what_comes(takes, tmp_path):
    asked = question("plan")
    arms.study(asked, tmp_path, arms.plan(asked, tuple(asked.arms), [0]), takes, TINY)
    reference = read(tmp_path / "motion-plan-reference.json")
    rows = {
        arm: read(tmp_path / f"motion-plan-{arm}-seed0.json")["scores"]["validation"]["35"]
        for arm in asked.arms
    }
    assert "kl" not in rows["plain"]
    assert "blind" not in rows["side-task"]
    assert rows["side-task"]["kl"] > 0.0
    plan = rows["plan"]
    for name in ("kl", "error", "degrees.1000"):
        assert set(plan) > {"blind", "true"}
        assert name in plan["blind"]
        assert name in plan["true"]
    assert plan["error"] != plan["blind"]["error"] != plan["true"]["error"]
    held = reference["reference"]["validation"]["35"]
    assert held["degrees.1000"] > 0.0
    # The head starts as holding the pose.
    assert rows["plain"]["degrees.1000"] == pytest.approx(held["degrees.1000"], rel=0.2)
    for name in ("how often codes come", "the last second again", "what followed this code"):
        assert 0.0 < reference["rivals"][name]["validation"]["35"]["kl"] < 8.0
    assert "| what followed this code |" in arms_report.report(asked, tmp_path)["tables"]


def test_guesses_are_distributions(takes, tmp_path):
    from training.study.plan_ahead import CODES, PlanGround

    ground = PlanGround(motion_data.load(takes, 0, tmp_path))
    codes = torch.randint(CODES, (1, 120))
    table = ground._followers(ground.motion.training.bare)
    for guess in (ground._usual(codes), ground._again(codes), table[codes]):
        torch.testing.assert_close(guess.sum(-1), torch.ones(1, 120), atol=1e-3, rtol=0.0)
        assert float(guess.min()) > 0.0
