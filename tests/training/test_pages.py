"""Report pages as HTML and as Markdown."""

import contextlib
import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from support.browser import CHROMIUM, FITS, Browser
from support.full_disk import full_disk

from pyanticip.errors import DeviceError, OptionError
from training.evaluate import report as motion_page
from training.evaluate.measures import AHEAD_MS, verdict
from training.evaluate.report import played, summary
from training.report import tables
from training.report.pages import as_html, as_markdown, write
from training.report.tables import progress_bars

PARTS = [
    ("title", "A < B"),
    ("text", "Run `bench step`: **better** than 2 ** 3 <b>."),
    ("table", [("who", "error"), ("model", "**0.01** / 0.02")]),
]


def test_marks_are_shown_as_what_they_mean_and_the_rest_is_text():
    page = as_html(PARTS, "x")
    assert "<h1>A &lt; B</h1>" in page
    assert "<p>Run <code>bench step</code>: <strong>better</strong> than 2 ** 3 &lt;b&gt;.</p>" in page
    assert "<td><strong>0.01</strong>&nbsp;/&nbsp;0.02</td>" in page
    text = "It is *no better*, or *ahead*: `*.bvh *.amc`, 2 * 3 * 4, a*b*c, *"
    page = as_html([("text", text)], "x")
    assert "<p>It is <em>no better</em>, or <em>ahead</em>: " in page
    assert "<code>*.bvh *.amc</code>, 2 * 3 * 4, a*b*c, *</p>" in page


def test_figures_stay_on_one_line():
    page = as_html(
        [("table", [("kind", "ratio"), ("styled walk", "**1.4** [1.2, 1.8]"), ("ahead", "100 ms")])], "x"
    )
    assert "<td>styled walk</td><td><strong>1.4</strong>&nbsp;[1.2,&nbsp;1.8]</td>" in page
    assert "<td>100&nbsp;ms</td>" in page


def test_markdown_keeps_the_marks():
    page = as_markdown(PARTS)
    assert "| model | **0.01** / 0.02 |" in page
    assert page.startswith("# A < B\n")
    assert "`bench step`: **better** than 2 ** 3 \\<b>." in page


def test_names_of_files_do_not_break_markdown():
    page = as_markdown([("table", [("who", "`a<b`"), ("ann|b<i>\nc", "1 < 2")])])
    assert page.splitlines() == ["| who | `a<b` |", "|---|---|", "| ann\\|b\\<i> c | 1 < 2 |"]
    assert tables.table(("who", "x"), [("a|b", "2")]).splitlines()[2] == "| a\\|b | 2 |"


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_a_report_with_long_names_and_wide_tables_fits_a_phone(tmp_path: Path) -> None:
    wide = ("table", [[f"column {i}" for i in range(20)], ["x" * 90] * 20])
    page = tmp_path / "\u00fc <b>.html"
    write([("title", "y" * 90), ("text", "`/home/anna/" + "z" * 90 + "`"), wide], {}, page, "x")
    with contextlib.closing(Browser(tmp_path / "profile", 390, 844)) as browser:
        browser.open(page.as_uri())
        browser.wait("document.querySelector('table') !== null")
        assert browser.ask("document.documentElement.clientWidth") == 390
        assert browser.ask(FITS), "it is wider than the screen"
        assert browser.problems == []


@pytest.mark.parametrize("target", [".", "notes.html"])
def test_a_report_goes_over_a_report_and_over_nothing_else(tmp_path, target):
    own = tmp_path / ("report.json" if target == "." else "notes.html")
    own.write_text("mine")
    with pytest.raises(OptionError, match="exists and is not part of a report"):
        write(PARTS, {}, tmp_path / target, "x")
    assert own.read_text() == "mine"
    own.unlink()
    for _ in range(2):
        write(PARTS, {}, tmp_path / target, "x")


@pytest.mark.parametrize("target", ["r", "r/page.html", "r/page.md"])
def test_on_a_full_disk_the_old_report_stays(tmp_path, monkeypatch, target):
    monkeypatch.setattr(motion_page, "parts", lambda _: [*PARTS, ("image", ("a", "A", b"png"))])

    def written():
        return {path.name: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}

    motion_page.write({}, tmp_path / target)
    old = written()
    with full_disk(100), pytest.raises(DeviceError, match=r"cannot be written \(file too large\)"):
        motion_page.write({"more": "x" * 200}, tmp_path / target)
    assert written() == old


def test_work_that_ends_before_its_first_bar_prints_nothing():
    console = Console(file=io.StringIO(), force_terminal=True)
    with progress_bars(console):
        pass
    assert console.file.getvalue() == ""
    with progress_bars(console) as say:
        say("counting", 1, 2)
    assert "counting" in console.file.getvalue()


def test_where_no_bar_can_be_drawn_there_is_a_line_each_minute(monkeypatch):
    console = Console(file=io.StringIO())
    with progress_bars(console) as say:
        say("GRU", 1, 1000)
        assert console.file.getvalue() == ""
        monkeypatch.setattr(tables, "LINE_INTERVAL_S", 0.0)
        say("GRU", 2, 1000)
        assert console.file.getvalue() == "GRU: 2 of 1000\n"


ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("page", "quoted"), [("README.md", played), ("docs/model_card.md", summary), ("docs/results.md", summary)]
)
def test_the_table_of_strangers_is_that_of_the_figures(page, quoted):
    report = json.loads((ROOT / "docs" / "results.json").read_text(encoding="utf-8"))
    table = as_markdown([("table", quoted(report))]).strip()
    assert table in (ROOT / page).read_text(encoding="utf-8")
    assert report["split"] == "test"
    assert report["looks"] >= 1


def test_what_is_said_of_strangers_follows_from_their_figures():
    report = json.loads((ROOT / "docs" / "results.json").read_text(encoding="utf-8"))
    for kind in (*report["kinds"].values(), *report["second_time"].values()):
        for name, row in kind["rows"].items():
            columns = (row[what] for what in ("lag_ms", "beyond", "ratio", "low", "high"))
            assert row["verdict"] == [verdict(*one) for one in zip(*columns, AHEAD_MS, strict=True)], name


def test_the_lag_figure_is_whole_and_marks_what_may_lie_beyond(monkeypatch):
    report = json.loads((ROOT / "docs" / "results.json").read_text(encoding="utf-8"))
    kinds = {kind: report["kinds"][kind] for kind in ("walking", "running")}
    kinds["running"]["rows"]["model"]["lag_ms"][2] = 400
    monkeypatch.setattr(motion_page, "png", lambda figure: figure)
    axes = motion_page.profiles(report | {"kinds": kinds}, "model").axes
    assert len(axes) == 2
    lowest = min(min(curve) for kind in kinds.values() for curve in kind["profile"])
    assert lowest < 0.0
    assert axes[0].get_ylim()[0] <= lowest
    assert [[line.get_marker() for line in axis.lines].count(">") for axis in axes] == [0, 1]
    assert "| ≥ 400 ms |" in motion_page.markdown(report | {"kinds": kinds})
