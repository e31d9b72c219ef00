"""Beats of people left out: who may be judged, what is announced and known, and what the page says of it."""

import json
from pathlib import Path

import pytest

from pyanticip.errors import OptionError
from pyanticip.models.checkpoint.manifest import MANIFEST, SHIPPED
from training.evaluate import left_out, results
from training.evaluate.left_out import OURS, judge, parse, section, summary


@pytest.fixture(scope="module")
def fold(tmp_path_factory):
    """The packaged model, as if it had been made without subject 01."""
    folder = tmp_path_factory.mktemp("fold") / "checkpoint"
    folder.mkdir()
    for file in SHIPPED.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    text = json.loads((folder / MANIFEST).read_text())
    text["training"]["held_out"] = {"validation": ["01"], "test": ["07"]}
    (folder / MANIFEST).write_text(json.dumps(text))
    return folder


@pytest.fixture(scope="module")
def data(piece_of, set_of, tmp_path_factory):
    sides = {
        "train": [piece_of(400, seed=1, subject="01"), piece_of(300, seed=2, subject="02")],
        "validation": [piece_of(200, seed=7, subject="06")],
        "test": [piece_of(200, seed=9, subject="07")],
    }
    return set_of(tmp_path_factory.mktemp("left") / "set", sides)


@pytest.fixture(scope="module")
def report(fold, data):
    return judge(fold, ["01"], data)


def test_who_is_told_more_of_what_comes_announces_more(report):
    assert report["subjects"] == ["01"]
    f1 = {(row["who"], row["lead_ms"]): row["f1"] for row in report["rows"] if row["category"] == "all"}
    assert len(f1) == 5 * 3
    told = [f1[f"who knows the next {ms} ms", 100] for ms in (100, 200, 300)]
    assert told == sorted(told)
    assert told[2] > 0.6
    assert f1["who knows the next 300 ms", 0] >= f1["who knows the next 300 ms", 200]
    assert {(OURS, 0), (OURS, 200), ("extrapolator", 100)} <= set(f1)


def test_the_page_says_who_they_are_and_what_is_missed(report):
    text = section(report, 0.8)
    assert text.startswith("## Running and dance")
    assert "subjects 01 of the training side" in text
    assert text.count("\n| who knows the next") == 3
    rows = [
        {"who": OURS, "category": name, "lead_ms": ms, "f1": f1, "true": 9}
        for name, f1 in (("dance", 0.25), ("walking", 0.9))
        for ms in (0, 100, 200)
    ]
    told = {"checkpoint": "c", "subjects": ["05", "16"], "rows": rows}
    line = summary(told, ("walking", "running", "dance"), 0.8)
    assert line.endswith(
        "(05, 16), the same F1: walking 0.90 (9 events, met); dance 0.25 (9 events, missed)."
    )
    assert f"| {OURS} | 0.25 0.25 0.25 | 0.90 0.90 0.90 |" in section(told, 0.8)


def test_nobody_is_judged_who_taught_the_checkpoint(fold, data):
    with pytest.raises(OptionError, match="it was trained on subject 02"):
        judge(fold, ["01", "02"], data)
    assert parse("runs/a=05,16") == (Path("runs/a"), ("05", "16"))
    for wrong in ("runs/a", "=05", "runs/a="):
        with pytest.raises(OptionError, match="expected CHECKPOINT=SUBJECTS"):
            parse(wrong)


def test_the_page_has_the_fold_and_its_command(fold, report, monkeypatch, tmp_path, data):
    monkeypatch.setattr(left_out, "judge", lambda *given, **more: report)
    monkeypatch.setattr(results, "SPLITS", {"held-out": "All held-out subjects"})
    monkeypatch.setattr(results, "SUITS", ())
    page = tmp_path / "results.md"
    given = ["--data", str(data), "--out", str(page), "--clip", "m7", "--fold", f"{fold}=01"]
    assert results.main(given) == 0
    text = page.read_text()
    assert f"--fold {fold.as_posix()}=01" in text
    assert text.index("## Running and dance") < text.index("## All held-out subjects")
    assert "Subjects left out of another model's training (01)" in text
