"""The page of results: what it says follows from the reports, and it links only to what it writes."""

import re

import pytest

from training.evaluate import results
from training.evaluate.results import main, summary


def row(who, category, f1, lead_ms=100):
    return {"who": who, "category": category, "f1": f1, "event": "onset", "lead_ms": lead_ms, "true": 10}


def share(ms, bar, value):
    one = {"value": value, "met": value <= bar}
    return {"horizon_ms": ms, "bar": bar, "ratio_of_means": one, "mean_of_ratios": one}


def test_the_summary_says_what_is_met_and_what_is_not():
    report = {
        "shares": [share(100, 0.6, 0.5), share(400, 0.75, 0.8)],
        "not_beaten": ["density at 400 ms"],
        "events": [
            row("model, as it plays", "walking", 0.85),
            row("extrapolator", "walking", 0.4),
            row("model, as it plays", "dance", 0.3),
            row("extrapolator", "dance", 0.2),
            row("model, as it plays", "other", 0.5, 200),
            row("extrapolator", "other", 0.4, 200),
            row("model, as it plays", "other", 0.1, 0),
            row("extrapolator", "other", 0.4, 0),
        ],
    }
    text = summary(report)
    assert "0.50 at 100 ms (at most 0.60: met)" in text
    assert "0.80 at 400 ms (at most 0.75: missed)" in text
    assert "density at 400 ms" in text
    assert "walking 0.85 (extrapolator 0.40, 10 events, met)" in text
    assert "dance 0.30 (extrapolator 0.20, 10 events, missed)" in text
    assert "running: no events" in text
    assert "0.10 against 0.40 at 0 ms (missed), 0.50 against 0.40 at 200 ms (met)" in text


def test_one_command_writes_the_page(piece_of, set_of, monkeypatch, tmp_path, capsys):
    sides = {
        "train": [piece_of(200, seed=1, subject="01")],
        "validation": [piece_of(200, seed=7, subject="06"), piece_of(200, seed=8, subject="35")],
        "test": [piece_of(200, seed=9, subject="07")],
    }
    data = set_of(tmp_path / "set", sides)
    monkeypatch.setattr(results, "SUITS", (6,))
    page = tmp_path / "docs" / "results.md"
    page.parent.mkdir()
    assert main(["--data", str(data), "--out", str(page), "--clip", "m8"]) == 0
    assert "wrote" in capsys.readouterr().out
    text = page.read_text()
    links = re.findall(r"\]\((img/[^)]+)\)", text)
    assert len(links) == 5
    assert all((page.parent / link).stat().st_size > 3000 for link in links)
    for title in ("## All held-out subjects", "## Test subjects", "### Calibration of events"):
        assert text.count(title) == 1
    assert text.count("### Events on the beat") == 3
    assert "m8" in text


def test_bad_input_is_one_line(tmp_path, capsys):
    assert main(["--data", str(tmp_path / "nowhere")]) == 1
    assert capsys.readouterr().err.startswith("results: ")
    with pytest.raises(SystemExit):
        main([])
