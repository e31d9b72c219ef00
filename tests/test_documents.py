"""README and docs are executed: Python blocks run, command lines parse, links point at files, ``--json``
output has the keys of docs/api.md, and that page lists every error."""

import ast
import contextlib
import doctest
import importlib
import json
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pyanticip import errors, load_motion
from pyanticip.cli import cli
from pyanticip.motion.bvh import save_bvh
from realtime.programs.demo import PERFORMANCE

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
DOCTESTED = ("pyanticip", "realtime", "training")


def blocks(page: Path, language: str) -> list[str]:
    return [body for lang, body in BLOCK.findall(page.read_text(encoding="utf-8")) if lang == language]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda p: p.name)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for source in blocks(page, "python"):
        exec(compile(source, str(page), "exec"), names)


def command_lines() -> list[tuple[str, str]]:
    """Every ``pyanticip ...`` line in a shell block, continuation lines joined, no prompts or comments."""
    found = []
    for page in PAGES:
        for language in ("sh", "console", "bash"):
            for body in blocks(page, language):
                joined = body.replace("\\\n", " ")
                for line in joined.splitlines():
                    line = line.strip().removeprefix("$ ").removeprefix(".venv/bin/")
                    if line.startswith("pyanticip "):
                        found.append((page.name, line))
    return found


def mentions() -> list[tuple[str, str]]:
    """Commands in indented blocks and in running text, where arguments may be omitted."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        lines = re.findall(r"^    (?:\$ )?(pyanticip [^\n]*)$", text, re.MULTILINE)
        found += [
            (page.name, " ".join(line.split())) for line in lines + re.findall(r"`(pyanticip [^`]*)`", text)
        ]
    return sorted({(page, line) for page, line in found if "$" not in line})


def test_mentioned_commands_have_these_options() -> None:
    for page, line in mentions():
        with said_of(page, line), contextlib.suppress(click.MissingParameter):
            parse(page, line)


def test_command_lines_parse() -> None:
    for page, line in command_lines():
        with said_of(page, line):
            parse(page, line)


@contextlib.contextmanager
def said_of(page: str, line: str) -> Iterator[None]:
    """Where it stands, beside what click says of it."""
    try:
        yield
    except click.ClickException as error:
        raise AssertionError(f"{page}: {line!r}: {error.format_message()}") from error


def parse(page: str, line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    words = words[: next((i for i, w in enumerate(words) if w in {"&", "|", ">", ";", "&&"}), len(words))]
    command: click.Command = cli
    context = click.Context(cli, info_name="pyanticip")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        assert found is not None, f"{page}: no command {words[0]!r} in {line!r}"
        command, words = found, words[1:]
        context = click.Context(command, info_name=command.name, parent=context)
    if isinstance(command, click.Group) and not words:  # the group as such, in running text
        return
    if "--help" in words or "--version" in words:
        return
    command.parse_args(context, list(words))


def test_what_the_program_says_is_quoted_as_it_says_it() -> None:
    """Of each quotation in troubleshooting's first columns whatever lies between what varies."""
    said = "\n".join(
        node.value
        for file in (ROOT / "realtime").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^\| `([^`]+)`", page, re.MULTILINE)
    parts = [part.strip(" ,()") for line in quoted for part in re.split(r"\.\.\.|: |;", line)]
    assert len(quoted) > 15
    assert [part for part in parts if part not in said] == []


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub and the site give a page's headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_point_at_files_and_headings() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            name, _, anchor = target.partition("#")
            if "://" not in target:
                file = page.parent / name if name else page
                assert file.exists(), f"{page.name} points at {target}"
                assert not anchor or anchor in anchors(file), f"{page.name} points at {target}"


def test_the_example_that_needs_an_encoder_says_so() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "make_audio.py"],
        env={**os.environ, "PATH": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == "make_audio: no oggenc here (Debian: vorbis-tools)\n"


def test_a_table_begins_after_a_blank_line() -> None:
    for page in PAGES:
        lines = page.read_text(encoding="utf-8").split("\n")
        for number, line in enumerate(lines[2:]):
            if re.fullmatch(r"\|( ?:?-+:? ?\|)+", line):
                assert not lines[number].startswith("|"), f"{page.name}:{number + 2} is a head in a table"


def modules() -> list[str]:
    names = []
    for package in DOCTESTED:
        names.append(package)
        found = importlib.import_module(package)
        names += [m.name for m in pkgutil.walk_packages(found.__path__, f"{package}.")]
    return [n for n in names if not n.endswith("__main__") and n != "pyanticip._core"]


def test_docstring_examples() -> None:
    tried = 0
    for name in modules():
        module = importlib.import_module(name)
        if ">>> " in Path(str(module.__file__)).read_text(encoding="utf-8"):
            result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
            assert result.failed == 0, name
            tried += result.attempted
    assert tried > 10


def test_docstrings_have_sections_of_one_style() -> None:
    """Google's, as the site renders them: no fields of Sphinx, no underlined titles of NumPy."""
    other = re.compile(r"^ +(:(param|returns?|raises)\b|-{4,}$)", re.MULTILINE)
    code = [path for name in DOCTESTED for kind in ("py", "pyi") for path in (ROOT / name).rglob(f"*.{kind}")]
    assert code
    assert [path for path in code if other.search(path.read_text(encoding="utf-8"))] == []


ROWS = re.compile(r"^\| `([^`]+)` \| (.*) \|$", re.MULTILINE)


def json_table() -> list[tuple[str, set[str]]]:
    page = ROOT / "docs" / "api.md"
    _, _, section = page.read_text(encoding="utf-8").partition("## What `--json` says")
    rows = ROWS.findall(section)
    return [(command, set(re.findall(r"`(\w+)`", keys.partition(":")[0]))) for command, keys in rows]


def test_the_keys_of_json_are_those_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_bvh(load_motion(PERFORMANCE)[:300], "dance.bvh")
    ask = CliRunner().invoke
    assert ask(cli, ["teach", "new", "mine", "--outputs", "brightness"]).exit_code == 0
    rows = json_table()
    assert len(rows) == 10
    for command, keys in rows:
        answer = ask(cli, [*command.split(), "--json"])
        assert set(json.loads(answer.stdout)) == keys, command


def test_the_page_lists_the_errors_and_none_of_their_helpers() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = re.search(r"::: pyanticip\.errors\n    options:\n      members: \[(.*)\]", page)
    assert listed
    classes = [
        name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, Exception)
    ]
    assert listed[1].split(", ") == classes
