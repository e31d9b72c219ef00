"""Runs are done once, never mixed, and compared pair by pair: with a study that costs nothing."""

import json
import math
import runpy
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from pyanticip.errors import FormatError, OptionError
from training.studies.__main__ import main
from training.studies.engine import RUNS, Measure, Study, mean_of, perform, read
from training.studies.page import report

ARMS = {"plain": {}, "better": {"less": 0.5}}


@dataclass(frozen=True)
class Options:
    steps: int = 3
    device: str = field(default="cpu", compare=False)
    fails: bool = field(default=False, compare=False)
    data: str = field(default="a", compare=False)


class Dice:
    """Two people, whose scores depend on the seed."""

    rivals = {"hold": {"ann": {"error": 2.0}, "bob": {"error": 4.0}}}

    def __init__(self, options, case, folder):
        self.options, self.source, self.done = options, options.data, []

    def run(self, arm, seed):
        if self.options.fails:
            raise KeyboardInterrupt
        noise = np.random.default_rng(seed).random(2)
        less = ARMS[arm].get("less", 0.0)
        ann, bob = ({"error": float(x) + 1.0 - less} for x in noise)
        return {"figures": {"ann": ann, "bob": bob}, "parameters": 7}


def ratio(rows, held):
    return float(np.mean([mine["error"] / its["error"] for mine, its in zip(rows, held, strict=True)]))


STUDY = Study(
    title="Does less help?",
    options=Options,
    arms=ARMS,
    pairs=(("better", "plain"),),
    tables=(("Errors", (Measure("ratio", ratio), Measure("nothing", mean_of("nothing")))),),
    ground=Dice,
    views=("people",),
    units=lambda line, view: line["figures"],
)


def lines(folder: Path) -> list[dict]:
    return [json.loads(text) for text in (folder / RUNS).read_text().splitlines()]


def test_runs_come_seed_by_seed_and_are_not_repeated(tmp_path):
    said = []
    assert perform(STUDY, Options(), tmp_path, seeds=[0, 1], say=said.append) == {"done": 4, "kept": 0}
    found = lines(tmp_path)
    order = [("hold", None), ("plain", 0), ("better", 0), ("plain", 1), ("better", 1)]
    assert [(line["arm"], line["seed"]) for line in found] == order
    assert said[0].startswith("1/4 plain seed 0: ")
    assert perform(STUDY, Options(device="cuda"), tmp_path, seeds=[0, 1, 2]) == {"done": 2, "kept": 4}
    assert lines(tmp_path)[: len(found)] == found
    assert len(lines(tmp_path)) == len(found) + 2


@pytest.mark.parametrize(
    ("options", "words"),
    [(Options(steps=4), r"done with steps=3, not 4: use another folder"), (Options(data="b"), "other data")],
)
def test_what_is_not_equal_is_not_mixed(tmp_path, options, words):
    perform(STUDY, Options(), tmp_path, arms=["plain"])
    before = lines(tmp_path)
    with pytest.raises(OptionError, match=words):
        perform(STUDY, options, tmp_path)
    assert lines(tmp_path) == before


def test_options_that_were_changed_are_kept_with_the_run(tmp_path):
    perform(STUDY, Options(steps=9), tmp_path, arms=["plain"])
    assert {json.dumps(line["options"]) for line in lines(tmp_path)} == {'{"steps": 9}'}
    with pytest.raises(OptionError, match=r"done with steps=9, not 3"):
        perform(STUDY, Options(), tmp_path)


def test_a_study_that_never_ran_leaves_no_folder(tmp_path):
    out, said = tmp_path / "runs", []
    with pytest.raises(KeyboardInterrupt):
        perform(replace(STUDY, ground=_no_rivals), Options(fails=True), out, say=said.append)
    assert not out.exists()
    assert said == ["interrupted; runs that were finished are kept, and the same command goes on"]
    with pytest.raises(OptionError, match=r"arm: expected one of plain, better, given 'magic'"):
        perform(STUDY, Options(), out, arms=["magic"])
    out.write_text("")
    with pytest.raises(OptionError, match="is a file; give a folder"):
        perform(STUDY, Options(), out)


def _no_rivals(*args):
    made = Dice(*args)
    made.rivals = {}
    return made


@pytest.mark.parametrize(
    "text", ["{", '{"arm": "plain"}', '{"case": "", "arm": "odd", "seed": 0, "figures": {}}']
)
def test_a_line_that_is_no_run_is_named(tmp_path, text):
    perform(STUDY, Options(), tmp_path)
    with (tmp_path / RUNS).open("a") as file:
        file.write(text + "\n")
    with pytest.raises(FormatError, match=r"runs\.jsonl, line 4: not a run of 'Does less help\?'"):
        read(tmp_path, STUDY)


def test_the_report_pairs_by_seed(tmp_path):
    perform(STUDY, Options(), tmp_path, seeds=range(3))
    found = report(STUDY, tmp_path)
    by = {(line["arm"], line["seed"]): line["figures"] for line in lines(tmp_path)}
    apart = [
        np.mean(
            [
                (by["better", s][name]["error"] - by["plain", s][name]["error"]) / held
                for name, held in (("ann", 2.0), ("bob", 4.0))
            ]
        )
        for s in range(3)
    ]
    gap = found["differences"]["people"]["better less plain"]["ratio"]
    assert gap["mean"] == pytest.approx(np.mean(apart)) == pytest.approx(-0.1875)
    # Student's t with two degrees of freedom: 4.303 standard errors.
    assert gap["high"] - gap["mean"] == pytest.approx(4.303 * np.std(apart, ddof=1) / math.sqrt(3), abs=1e-9)
    assert "| hold |  |  |  | 1.000 | - |" in found["tables"]
    assert "**-0.1875**" in found["tables"]
    page = (tmp_path / "page.md").read_text()
    (tmp_path / "page.md").write_text(page + "\nwritten by hand\n")
    report(STUDY, tmp_path)
    assert (tmp_path / "page.md").read_text() == page + "\nwritten by hand\n"
    assert (tmp_path / "page.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(FormatError, match="no runs of"):
        report(STUDY, tmp_path / "nothing")


def test_with_people_enough_intervals_are_over_them_too(tmp_path):
    wide = replace(STUDY, units=lambda line, view: _four(line["figures"]))
    perform(wide, Options(), tmp_path, seeds=range(3))
    gap = report(wide, tmp_path)["differences"]["people"]["better less plain"]["ratio"]
    # Of -0.25 for some and -0.125 for others; what the seeds add is the same for both arms.
    assert -0.25 <= gap["low"] < gap["mean"] < gap["high"] <= -0.125


def _four(figures):
    return {f"{name}{i}": row for name, row in figures.items() for i in range(2)}


def test_the_studies_are_listed(capsys):
    main([])
    assert "geometric-bias         Does the geometric bias help?" in capsys.readouterr().out


def test_an_unknown_study_is_bad_usage(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["training.studies", "geometric-bais"])
    with pytest.raises(SystemExit, match=r"^2$"):
        runpy.run_path(main.__code__.co_filename, run_name="__main__")
    assert "no study 'geometric-bais'; did you mean geometric-bias?" in capsys.readouterr().err
