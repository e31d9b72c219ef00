"""The report page of a fit."""

import contextlib
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from support.browser import CHROMIUM, FITS, Browser
from support.clips import LEFT_ARM, swing

from pyanticip.teach.folds import folds
from pyanticip.teach.frames import Frames, TakeData
from pyanticip.teach.options import FitOptions
from pyanticip.teach.outputs import Output
from pyanticip.teach.project import MAPPING, Project
from realtime.teaching.fitting import fit_project
from realtime.teaching.page import PAGE, _confusion, _gestures


class Reader(HTMLParser):
    """Text and drawings of a page, read by the standard library's parser."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.lines: list[str] = []
        self.asked: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "polyline":
            self.lines.append(given["points"] or "")
        self.asked += [v for k, v in attrs if k in ("src", "href") and v]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_a_page_shows_every_take_and_what_was_said_of_it(tmp_path: Path) -> None:
    made = Project.create(tmp_path / "a & b", (Output("cutoff"),))
    for i in range(2):
        made.add_take(f"r{i}", swing(2, seed=i), labels={"arm": "right"}, values={"cutoff": 0.9})
        left = swing(2, seed=i, joint=LEFT_ARM, level=1.0)
        made.add_take(f"l{i}", left, labels={"arm": "left"}, values={"cutoff": 0.1})
    report = fit_project(made.folder, FitOptions(kind="ridge"), model=False)
    assert report["page"] == str(made.folder / PAGE)
    page = (made.folder / PAGE).read_text()
    read = Reader(page)
    text = " ".join(read.words)
    assert "a & b" in text
    for name in ("r0", "r1", "l0", "l1", "Class", "cutoff", "left", "right"):
        assert name in read.words or name in text
    assert read.asked == [], "nothing is fetched"
    # For each take: target and prediction of the value, and two labels.
    assert len(read.lines) == 4 * (2 + 2)
    points = np.array([[float(x) for x in pair.split(",")] for pair in read.lines[0].split()])
    assert np.isfinite(points).all()
    assert (np.diff(points[:, 0]) > 0).all()
    for drawn in page.split("<svg")[1:]:
        svg = ET.fromstring("<svg" + drawn.partition("</svg>")[0] + "</svg>")
        for body in svg.iter("path"):
            ends = np.array([end.split() for end in re.split("[ML]", body.get("d", ""))[1:]], float)
            assert (ends > 0).all(), "arms are spread and raised"
            assert (ends < [float(svg.get("width", 0)), float(svg.get("height", 0))]).all()


def test_what_was_left_out_stands_at_its_time() -> None:
    def take(name: str, begin: int, level: float) -> TakeData:
        return TakeData(
            name, {"body": np.zeros((100, 3), np.float32)}, begin, {"x": np.full(100 - begin, level)}
        )

    frames = Frames.of([take("a", 40, 0.2), take("b", 0, 0.2)], ["x"], lead=5)
    (a, b) = folds(frames.targets)
    told = np.arange(len(b.test), dtype=np.float32)[:, None]
    nothing = np.zeros((len(a.test), 1), np.float32)
    other, one = frames.left_out([a, b], [nothing, told])
    assert one.take == "b"
    # Half a second at the start is not trained on, and targets are a tenth of a second later.
    assert one.seconds[0] == pytest.approx((25 + 5) / 50)
    assert one.seconds[-1] == pytest.approx(99 / 50)
    assert one.predicted[:, 0].tolist() == told[:, 0].tolist()
    assert (other.take, other.seconds[0]) == ("a", pytest.approx(5 / 50))


def test_false_alarms_are_of_so_many_seconds_and_named() -> None:
    row = {"gesture": "jump", "takes": ["a"], "found": ["a"], "missed": [], "at": None, "minutes": 0.017}
    assert "<td>2 in 1 s: g3, t1</tr>" in "".join(
        _gestures([{**row, "alarms": 2, "alarmed_by": ["g3", "t1"]}])
    )
    assert "<td>0 in 1 s</tr>" in "\n".join(_gestures([{**row, "alarms": 0, "alarmed_by": []}]))


def test_a_page_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    made = Project.create(tmp_path / "mine", (Output("cutoff"),))
    made.add_take("one", swing(2), values={"cutoff": 1.0})
    (made.folder / PAGE).mkdir()
    report = fit_project(made.folder, FitOptions(kind="ridge"), model=False)
    assert report["page"] is None
    assert any("report.html: cannot be written" in line for line in report["warnings"])
    assert (made.folder / MAPPING).exists()


def test_the_figures_of_a_confusion_are_readable_on_every_shade() -> None:
    def luminance(colour: Sequence[float]) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for share in np.linspace(0.0, 1.0, 21):
        rows = [[1.0 - share, share], [share, 1.0 - share]]
        page = "".join(_confusion({"accuracy": 0.5, "labels": ["a", "b"], "confusion": rows}))
        cells = re.findall(r"rgba\((\d+),(\d+),(\d+),([\d.]+)\);color:(#fff|#222)", page)
        assert len(cells) == 4
        for *rgb, alpha, ink in cells:
            ground = [1.0 - float(alpha) * (1.0 - int(c) / 255.0) for c in rgb]
            light, dark = sorted(
                [luminance(ground), 1.0 if ink == "#fff" else luminance([0x22 / 255.0] * 3)]
            )[::-1]
            assert (light + 0.05) / (dark + 0.05) > 3.7, (rgb, alpha, ink)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_a_page_of_long_names_fits_a_phone_and_keeps_its_key_in_few_colours(tmp_path: Path) -> None:
    made = Project.create(tmp_path / ("\u00fc <b> \u05e9\u05dc\u05d5\u05dd_" * 7), (Output("x" * 48),))
    for i, label in enumerate("abcdefgh"):
        for n in range(2):
            names = {"labels": {"c" * 32: label * 32}, "values": {"x" * 48: i / 8}}
            made.add_take(f"{label}{n}" * 16, swing(1, seed=n, level=i / 8), **names)
    fit_project(made.folder, FitOptions(kind="ridge"), model=False)
    with contextlib.closing(Browser(tmp_path / "profile", 390, 844)) as browser:
        browser.open((made.folder / PAGE).as_uri())
        browser.wait("document.querySelector('.takes') !== null")
        assert browser.ask(FITS), "it is wider than the screen"
        # Wrapped cells of one take must not look like takes of their own.
        assert browser.ask("getComputedStyle(document.querySelector('.takes td')).borderTopStyle") == "none"
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "forced-colors", "value": "active"}])
        style = "((where, what) => getComputedStyle(document.querySelector(where))[what])"
        assert browser.ask(f"{style}('.key', 'forcedColorAdjust')") == "none"
        assert browser.ask(f"{style}('path', 'stroke') === {style}('body', 'color')")
        assert browser.problems == []
