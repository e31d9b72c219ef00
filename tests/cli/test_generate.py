"""Commands generated from option classes: every kind of field, values, and errors."""

from pathlib import Path
from typing import Annotated, Any, Literal

import click
import pytest
from pydantic import BaseModel, Field, model_validator

from pyanticip.cli.generate import Command
from pyanticip.errors import OptionError
from pyanticip.options import HostPort, JsonOption, Options, Overrides, option


class Inner(BaseModel):
    """A table of a larger tree."""

    level: Annotated[float, Field(ge=0, le=1)] = 0.5
    """How ``"loud"`` (see :class:`~x.Y`)."""
    on: bool = True

    model_config = {"use_attribute_docstrings": True}


class Tree(BaseModel):
    """A larger tree."""

    inner: Inner = Inner()
    name: str = option("Whose.", "nobody")


PLACES = {"level": "inner.level", "on": "inner.on", "of": "name"}


class Walk(JsonOption):
    """Every kind of option."""

    file: Path = option("What.", argument=True, exists=True)
    rest: tuple[str, ...] = option("More.", (), argument=True)
    out: Path | None = option("Where to.", None, written=True)
    steps: int = option("How many.", 3, ge=1)
    kind: Literal["slow", "fast"] = option("How.", "slow")
    to: tuple[HostPort, ...] = option("Whom.", (), metavar="HOST:PORT")
    quiet: bool = option("No sound.", False)
    sound: bool = option("Without: none.", True)
    map: str | None = option("Which.", None, alone="")
    over: Annotated[dict[str, Any], Overrides(Tree, PLACES)] = {}

    @model_validator(mode="after")
    def _fits(self) -> "Walk":
        if self.quiet and self.kind == "fast":
            raise ValueError("kind: fast is never quiet")
        return self


def walk(*words: str) -> Walk:
    found: list[Walk] = []
    command = Command(
        "walk", callback=found.append, options=f"{__name__}:Walk", help="Go.\n\nExample: walk x"
    )
    command.options = Walk  # a test's module cannot be imported by name
    command.main(list(words), standalone_mode=False)
    return found[0]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").touch()
    return tmp_path


def test_every_kind_of_option_arrives(here: Path) -> None:
    assert walk("a") == Walk(file=Path("a"))
    found = walk(
        *("a", "b", "c", "--out", "new", "--steps", "5", "--kind", "fast", "--to", ":9", "--to", "x:8"),
        *("--no-sound", "--map", "--level", "0.25", "--no-on", "--json"),
    )
    assert found == Walk(
        file=Path("a"),
        rest=("b", "c"),
        out=Path("new"),
        steps=5,
        kind="fast",
        to=(":9", "x:8"),
        sound=False,
        map="",
        over={"inner": {"level": 0.25, "on": False}},
        as_json=True,
    )
    assert found.to == (("127.0.0.1", 9), ("x", 8))
    assert Tree.model_validate(found.over).inner.level == 0.25


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a", "--steps", "0"], "0 is not in the range x>=1"),
        (["a", "--steps", "two"], r"'two' is not a valid integer\."),
        (["a", "--kind", "quick"], "'quick' is not one of 'slow', 'fast'"),
        (["a", "--to", "x"], "expected HOST:PORT"),
        (["a", "--level", "2"], "2.0 is not in the range"),
        ([], "Missing parameter: file"),
    ],
)
def test_a_wrong_value_is_bad_usage(here: Path, words: list[str], message: str) -> None:
    with pytest.raises(click.UsageError, match=message):
        walk(*words)


class Sent(Options):
    """An option that has to be given."""

    kind: str = option("What it speaks.", flag="--as")


def test_an_option_without_a_default_has_to_be_given() -> None:
    found: list[Sent] = []
    command = Command("sent", callback=found.append, options=f"{__name__}:Sent", help="Go.")
    command.options = Sent
    with pytest.raises(click.MissingParameter, match="kind"):
        command.main([], standalone_mode=False)
    command.main(["--as", "vmc"], standalone_mode=False)
    assert found == [Sent(kind="vmc")]


def test_what_does_not_fit_together_is_an_option_error(here: Path) -> None:
    with pytest.raises(OptionError, match="fast is never quiet"):
        walk("a", "--quiet", "--kind", "fast")


def test_paths_are_looked_at_before_the_command_runs(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match="none"):
        walk("none")
    with pytest.raises(NotADirectoryError, match="'a'"):
        walk("a", "--out", "a/new")
    assert [path.name for path in here.iterdir()] == ["a"]
    # Whoever reads it says that it cannot be read, as of one that is not there: not click, as bad usage.
    monkeypatch.setattr("os.access", lambda *_: False)
    assert walk("a").file == Path("a")


def test_help_says_kinds_defaults_and_ranges() -> None:
    command = Command("walk", options="x:Walk", help="Go.\n\nExample: walk x\n         walk y")
    command.options = Walk
    text = command.get_help(click.Context(command, info_name="walk", max_content_width=100))
    for line in (
        "walk [OPTIONS] FILE [REST]...",
        "Example: walk x\n           walk y",
        "How many.  [default: 3; x>=1]",
        "--kind [slow|fast]",
        "--to HOST:PORT",
        "Without: none.  [default: sound]",
        "How loud (see Y). [default: 0.5]  [0<=x<=1]",
        "--level NUMBER",
        "--on / --no-on        [default: on]",
        "Whose. [default: nobody]",
    ):
        assert line in text, text
