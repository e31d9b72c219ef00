"""The commands of ``train data``: their output and the files they write."""

import json
import signal
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from training.data.sets import MotionSet, build, page
from training.data.sets.overview import overview, pick_clips, sample


@pytest.fixture(scope="module")
def base(written, tmp_path_factory):
    out = tmp_path_factory.mktemp("base") / "base"
    build(written, out, subject_from="top")
    return out


def test_build_says_what_it_did_and_what_it_could_not_read(takes, tmp_path, command):
    (takes / "ben" / "cut.bvh").write_text("HIERARCHY")
    code, out, err = command("train", "data", "build", takes, "--out", tmp_path / "set", "--workers", 1)
    assert code == 0
    assert f"{tmp_path / 'set'}: 5 clips, 928 frames (0.3 min) of 5 takes in" in out
    assert "  train: " in out
    (line,) = [line for line in err.splitlines() if line.startswith("ben/cut.bvh")]
    assert line == "ben/cut.bvh:1: has no ROOT"
    assert "warning: 1 take could not be used" in err
    code, out, _ = command("train", "data", "build", takes, "--out", tmp_path / "set", "--workers", 1)
    assert "of 5 takes (5 of them done before) in" in out


def test_build_as_json_is_one_object(takes, tmp_path, command):
    (tmp_path / "who.csv").write_text("anna,train\nben,validation\ncleo,test\n")
    arguments = ["--split-file", tmp_path / "who.csv", "--subject-from", "top", "--json", "--workers", 1]
    code, out, err = command("train", "data", "build", takes, "--out", tmp_path / "set", *arguments)
    report = json.loads(out)
    assert code == 0
    assert report["subjects"] == {"train": ["anna"], "validation": ["ben"], "test": ["cleo"]}
    assert report["digest"] == MotionSet.open(tmp_path / "set").digest
    assert err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "TAKES", "--out", "set", "--subject-from", "("], "is not a regular expression"),
        (["build", "TAKES", "--out", "set", "--split-file", "none.toml"], "none.toml: no such file"),
        (["build", "TAKES", "--out", "set", "--units", "furlong"], "furlong"),
        (["build", "TAKES", "--out", "set", "--skeleton", "TAKES"], "takes has no use for it"),
        (["inspect", "TAKES"], "takes --out SET"),
        (
            ["inspect", "nowhere"],
            "no set in it (no set.json); make one: pyanticip train data build TAKES --out nowhere",
        ),
        (["augment", "TAKES", "--out", "set"], "no set in it"),
        (
            ["augment", "TAKES", "--out", "set", "--recipe", "none.toml"],
            "none.toml: no such file or directory",
        ),
    ],
)
def test_mistakes_are_one_line(takes, tmp_path, monkeypatch, command, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = command(
        "train", "data", *[str(takes) if given == "TAKES" else given for given in arguments]
    )
    assert code in (1, 2)
    assert out == ""
    assert message in err.splitlines()[-1]
    assert err.splitlines()[-1].startswith("pyanticip: ")
    assert "Traceback" not in err


def test_augment_and_inspect_from_the_command_line(base, tmp_path, command):
    recipe, alone = tmp_path / "recipe.toml", ("--workers", 1)
    recipe.write_text('movement = "simple"\n[corruption]\nloss = 1\n')
    arguments = ["--out", tmp_path / "more", "--copies", 2, "--recipe", recipe]
    code, out, _ = command("train", "data", "augment", base, *arguments, *alone)
    made = MotionSet.open(tmp_path / "more")
    assert code == 0
    assert f"{len(made)} variations, {made.frames} frames" in out
    code, out, _ = command("train", "data", "inspect", tmp_path / "more", "--verify")
    assert code == 0
    assert "every array is what was written" in out
    assert out.splitlines()[0].split()[:4] == ["subjects", "takes", "clips", "minutes"]
    again = ["--out", tmp_path / "again", "--copies", 1, "--recipe", recipe]
    code, _, err = command("train", "data", "augment", tmp_path / "more", *again, *alone)
    assert code == 0
    assert "warning: made of more, which holds variations already" in err


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.images, self.open = [], []
        self.text = ""

    def handle_starttag(self, tag, attributes):
        if tag == "img":
            self.images.append(dict(attributes)["src"])
        elif tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_interrupts_is_told_how_it_goes_on(base, tmp_path, monkeypatch, command, capsys, number):
    monkeypatch.setattr("training.data.sets.augment", lambda *given, **options: signal.raise_signal(number))
    try:
        code, _, err = command("train", "data", "augment", base, "--out", tmp_path / "varied")
    except SystemExit as end:
        code, err = end.code, capsys.readouterr().err
    assert code == 128 + number
    assert "interrupted; finished clips are kept, and the same command goes on with them" in err


@pytest.mark.slow
def test_a_page_or_a_folder_shows_what_is_there(base, tmp_path, monkeypatch, command):
    drawn = []
    draw = page.pictures
    # The pictures are the same in both.
    monkeypatch.setattr(page, "pictures", lambda found: drawn or drawn.extend(draw(found)) or drawn)
    course, courses = page.draw.course, []
    # The picture of one clip is enough.
    monkeypatch.setattr(
        page.draw, "course", lambda *one: (courses or courses.append(course(*one)) or courses)[0]
    )
    code, out, _ = command("train", "data", "inspect", base, "--out", tmp_path / "page.html")
    assert code == 0
    assert f"wrote {tmp_path / 'page.html'}" in out
    shown = Page()
    shown.feed((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert shown.open in ([], ["br"])
    assert len(shown.images) == 6
    assert all(image.startswith("data:image/png;base64,iVBOR") for image in shown.images)
    for word in ("anna", "cleo", MotionSet.open(base).digest, "Clips of 2.4 to 5.0 s"):
        assert word in shown.text
    code, out, _ = command("train", "data", "inspect", base, "--out", tmp_path / "page", "--json")
    report = json.loads(out)
    assert code == 0
    assert json.loads((tmp_path / "page" / "overview.json").read_text())["total"] == report["total"]
    for name in ("amounts", "poses", "spreads"):
        assert (tmp_path / "page" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "notes.txt").write_text("mine")
    monkeypatch.setattr(page, "overview", pytest.fail)  # refused before any work
    code, _, err = command("train", "data", "inspect", base, "--out", tmp_path / "notes.txt")
    assert code == 2
    assert "expected a folder or a name that ends in .html" in err
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_the_numbers_are_those_of_the_set(base):
    found = MotionSet.open(base)
    report = overview(found)
    assert report["total"]["frames"] == found.frames
    assert sum(side["frames"] for side in report["splits"].values()) == found.frames
    assert sum(side["clips"] for side in report["subjects"].values()) == len(found)
    assert report["total"]["minutes"] == pytest.approx(found.frames / 3000.0, abs=1e-3)
    whole = sample(found)
    np.testing.assert_array_equal(whole.params, found.params)
    np.testing.assert_array_equal(whole.scalars, found.features[:, 220:227])
    some = sample(found, rows=100)
    np.testing.assert_array_equal(some.params, found.params[:: found.frames // 100])
    assert report["params"]["pitch"]["50%"] == pytest.approx(float(np.median(found.params[:, 0])), abs=1e-4)
    onsets = sum(len(found.example(number).onsets) for number in range(len(found)))
    rate = report["total"]["events_per_second"]["onset"]
    assert rate == pytest.approx(50 * onsets / found.frames, abs=1e-3)


def test_everybody_is_drawn_before_anybody_twice(base):
    found = MotionSet.open(base)
    first = pick_clips(found, 3)
    assert len({found.clips[number].subject for number in first}) == 3
    assert sorted(pick_clips(found, 99)) == found.indices()


@pytest.mark.slow
def test_the_bytes_do_not_depend_on_workers_or_on_where_the_folder_is(takes, whole, tmp_path, environment):
    """Test the command from outside, with worker processes."""
    line = [sys.executable, "-P", "-m", "pyanticip", "train", "data", "build", "takes", "--out", "set"]
    done = subprocess.run(
        [*line, "--workers", "2"],
        capture_output=True, text=True, check=False, timeout=300, env=environment, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("set: 5 clips")
    made = MotionSet.open(tmp_path / "set", verify=True)
    assert (made.frames, made.digest) == (928, MotionSet.open(whole).digest)
    for path in whole.iterdir():
        assert path.read_bytes() == (tmp_path / "set" / path.name).read_bytes()


def test_progress_shows_files_as_they_are_called_and_no_bar_where_nothing_is_done():
    import io

    from rich.console import Console

    from training.data.sets.builder import Step
    from training.data.sets.progress import build_progress

    for steps in (0, 2):
        text = io.StringIO()
        with build_progress("takes in [red]", Console(file=text, width=80, force_terminal=True)) as say:
            for number in range(steps):
                say(Step(number + 1, 2, "a", "[bold]x.bvh: is none" if number else ""))
        last = text.getvalue()
        assert ("[bold]x.bvh: is none" in last) == bool(steps)
        assert ("2/2" in last) == bool(steps)
        assert "[red]" in last
