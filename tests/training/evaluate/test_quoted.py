"""What other pages say of strangers is what the command found."""

import json
from pathlib import Path

import pytest

from training.evaluate.report import summary
from training.report.pages import as_markdown

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("page", ["README.md", "docs/model_card.md", "docs/results.md"])
def test_the_table_of_strangers_is_that_of_the_figures(page):
    report = json.loads((ROOT / "docs" / "results.json").read_text(encoding="utf-8"))
    table = as_markdown([("table", summary(report))]).strip()
    assert table in (ROOT / page).read_text(encoding="utf-8")
    assert report["split"] == "test"
    assert report["looks"] >= 1
