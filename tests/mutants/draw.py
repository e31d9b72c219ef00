"""Mistakes drawn by chance from the product: what nobody chose says what the tests are worth."""

import ast
import random
import re
import tomllib
from collections import deque
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from mutants.mistakes import ROOT, Mistake

SWAPPED: Final = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*",
    ast.And: "or", ast.Or: "and",
}  # fmt: skip

LEFT_OUT: Final = re.compile(
    r"/(studies|bench)/|plot|progress|/(page|draw)\.py|picture|__main__|/tests?\.rs|triton"
)
"""Research questions, benches, pictures, and what runs on a CUDA device alone."""

ROOMS: Final = ("pyanticip", "realtime", "training")

AT_MOST: Final = 30
"""Test files that are asked about a mistake."""

GOLDEN: Final = tuple(f"tests/golden/test_{name}.py" for name in ("readings", "shows", "models"))
"""Files that hear much of the product at once; asked behind the others of what they hear."""

IMPORTS: Final = re.compile(
    r"^ *(?:import ([\w., ]+)|from ([\w.]+) import (?:\(([^)]*)\)|([\w*, ]+)))"
    r"|\"(?:\{\w+\})?((?:\.|pyanticip|realtime|training)[^\"\n]*)\"",
    re.MULTILINE,
)
"""What a module imports, also one within a string, and words that may be names of modules."""

RUST: Final = re.compile(
    r" (?:[<>]=?|[=!]=|[-+*/]=?|&&|\|\|) |\.(?:min|max)\(|\b(?:true|false)\b|(?<![\w.])\d+\.\d+\b(?!_)"
)
PAIRS: Final = ("< <=", "> >=", "== !=", "+ -", "* /", "+= -=", "*= /=", "&& ||", ".min( .max(", "true false")
TURNED: Final = {a: b for pair in PAIRS for a, b in (pair.split(), pair.split()[::-1])}
BESIDE: Final = {
    "anticip-controls": "tests/realtime/test_mixer.py tests/realtime/test_controls.py "
    "tests/realtime/test_shaping.py tests/realtime/test_pipeline.py tests/realtime/test_lead.py "
    "tests/realtime/test_performer.py tests/teach/test_taught_live.py",
    "anticip-geometry": "tests/geometry tests/front tests/motion tests/teach/test_curves.py",
    "anticip-kernels": "tests/models/test_prism_kernels.py tests/models/test_prism.py "
    "tests/models/test_control_field.py tests/models/test_trajectory_core.py "
    "tests/models/test_position_vectors.py tests/models/test_streaming.py",
    "anticip-memory": "tests/memory tests/realtime/test_memory.py",
    "anticip-model": "tests/models/test_step.py tests/models/test_step_parts.py "
    "tests/models/test_strokes_model.py tests/models/test_captured_step.py tests/models/test_smoothed.py",
    "anticip-motion": "tests/front tests/motion tests/training/test_completion.py "
    "tests/memory tests/realtime/test_trackers.py tests/realtime/test_replay_equals_live.py",
    "anticip-synth": "tests/realtime/voice tests/realtime/test_render.py tests/realtime/test_demo.py "
    "tests/realtime/test_benches.py",
    "anticip-wire": "tests/wire tests/motion/test_datagrams.py tests/motion/test_recording.py "
    "tests/realtime/test_udp_source.py tests/realtime/test_osc_source.py tests/realtime/test_trackers.py",
}
"""What of Python tests a crate beside its own tests."""
HEARD: Final = "rust/anticip-synth/src/presets/"
"""Where numbers are the design of a sound: gains, partials and times, which an ear judges. Not drawn."""
EXCUSED: Final = {
    (row["file"], row["name"], row["line"]): row["why"]
    for row in tomllib.loads(Path(__file__).with_name("excused.toml").read_text(encoding="utf-8")).get(
        "mistake", []
    )
}


def excused(mistake: Mistake) -> str:
    """Why nobody can notice a mistake that was drawn and judged by hand; nothing where somebody should."""
    return EXCUSED.get((mistake.file, mistake.name, mistake.why), "")


def sites(tree: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None, str]]:
    """What could be mistaken inside functions: a node and what replaces it, or the gap between two nodes.

    Comparisons by one, signs, ``and`` and ``or``, a dropped ``not``, a condition turned round, numbers that
    are one too large or twice as large, flags the other way. Not in messages, annotations and assertions, of
    which ``strict`` of ``zip`` is one.
    """
    if isinstance(tree, ast.Raise | ast.Assert | ast.JoinedStr):
        return
    if isinstance(tree, ast.keyword) and tree.arg == "strict":
        return
    match tree:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            yield left, right, SWAPPED[type(op)]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in SWAPPED:
            yield left, right, SWAPPED[type(op)]
        case ast.BoolOp(op=op, values=[left, right, *_]):
            yield left, right, SWAPPED[type(op)]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield tree, None, f"({ast.unparse(operand)})"
        case ast.Constant(value=bool(value)):
            yield tree, None, str(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield tree, None, str(value + 1 if isinstance(value, int) else 2.0 * value or 1.0)
        case ast.If(test=test) | ast.IfExp(test=test):
            yield test, None, f"(not ({ast.unparse(test)}))"
    for name, value in ast.iter_fields(tree):
        # What a default is, or an annotation, is a choice and no mistake.
        if name not in ("annotation", "returns", "args") or isinstance(tree, ast.Call):
            for child in value if isinstance(value, list) else (value,):
                if isinstance(child, ast.AST):
                    yield from sites(child)


def in_python(file: str) -> Iterator[Mistake]:
    """All that could be drawn from a module."""
    text = (ROOT / file).read_text(encoding="utf-8")
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))

    def place(line: int, column: int) -> int:  # columns count bytes
        return lines[line - 1] + len(text[lines[line - 1] : lines[line]].encode()[:column].decode())

    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for statement in function.body:
            for node, until, new in sites(statement):
                start = place(node.lineno, node.col_offset)
                assert node.end_lineno is not None
                assert node.end_col_offset is not None
                stop = place(node.end_lineno, node.end_col_offset)
                if until is not None:
                    start, stop = stop, place(until.lineno, until.col_offset)
                    # Brackets around the two sides stay.
                    closing, opening = (
                        re.match(r"[\s)]*", text[start:stop]),
                        re.search(r"[\s(]*$", text[start:stop]),
                    )
                    assert closing is not None
                    assert opening is not None
                    new = f"{closing[0]} {new} {opening[0]}"
                old = text[start:stop]
                line = text[lines[node.lineno - 1] : lines[node.lineno]].strip()
                yield Mistake(
                    f"{' '.join(old.split())[:40]} -> {new.strip()[:40]}", file, start, old, new, (), line
                )


def in_rust(file: str) -> Iterator[Mistake]:
    """All that could be drawn from a file of a crate, by the look of lines as rustfmt lays them out.

    Signs, comparisons, ``min`` and ``max``, flags and factors; some of it does not compile.
    """
    text = (ROOT / file).read_text(encoding="utf-8").partition("#[cfg(test)]")[0]
    for line in re.finditer(
        r"^ {4,}(?!//|#|const |pub |type |use |where )(?!.*(?:fn |impl |dyn )).*$", text, re.M
    ):
        for found in RUST.finditer(line[0].partition("//")[0]):
            word = found[0].strip()
            if file.startswith(HEARD) and word[0].isdigit():
                continue
            new = TURNED.get(word) or str(2.0 * float(word) or 1.0)
            start = line.start() + found.start() + found[0].index(word)
            yield Mistake(f"{word} -> {new}", file, start, word, new, (), line[0].strip())


def drawn(count: int, seed: int, only: str = "") -> list[Mistake]:
    """So many mistakes of the files that match, each place as likely as any other, with the tests that are
    nearest to it."""
    places = [one for file in _files() if re.search(only, file) for one in every(file)]
    chosen = random.Random(seed).sample(places, min(count, len(places)))
    return [Mistake(**{**vars(one), "tests": nearest(one.file)}) for one in chosen]


def _files() -> list[str]:
    python = (path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    rust = (path for crate in BESIDE for path in (ROOT / "rust" / crate / "src").rglob("*.rs"))
    files = sorted(str(path.relative_to(ROOT)) for path in (*python, *rust))
    return [file for file in files if not LEFT_OUT.search(file)]


@cache
def every(file: str) -> tuple[Mistake, ...]:
    """All that could be drawn from a file, once: a function within a function is met twice."""
    return tuple(dict.fromkeys((in_rust if file.endswith(".rs") else in_python)(file)))


def nearest(file: str) -> tuple[str, ...]:
    """The test files the fewest imports away from a file, the likest by name first."""
    if file.startswith("rust/"):
        crate = Path(file).parts[1]
        return f"rust/{crate}", *BESIDE[crate].split(), *GOLDEN
    users = _users()
    words = set(re.split(r"[/_.]", file))
    distance, queue = {file: 0}, deque([file])
    found: list[str] = []
    while queue:
        near = queue.popleft()
        if len(found) >= AT_MOST // 2 and distance[near] >= distance[found[-1]]:
            break
        for user in sorted(users.get(near, ())):
            if user not in distance:
                distance[user] = distance[near] + 1
                (found if Path(user).name.startswith("test_") else queue).append(user)
    first = distance[found[0]] + 1 if found else 0

    def rank(name: str) -> tuple[bool, int, int, str]:
        return distance[name] > first, -len(words & set(re.split(r"[/_.]", name))), distance[name], name

    asked = sorted(found, key=rank)[:AT_MOST]
    return (*asked, *(name for name in GOLDEN if name not in asked and not file.startswith("training/")))


@cache
def _users() -> dict[str, set[str]]:
    """Who imports each file of this repository, wherever in it; a registry names what it opens."""
    users: dict[str, set[str]] = {}
    for path in (path for room in ("tests", *ROOMS) for path in (ROOT / room).rglob("*.py")):
        names, here = set(), ".".join(path.parent.relative_to(ROOT).parts)
        for plain, module, several, few, text in IMPORTS.findall(path.read_text(encoding="utf-8")):
            parts = re.findall(r"([\w.]+)(?: as \w+)?", re.sub("#.*", "", plain or several or few))
            if module:
                names |= {module, *(f"{module}.{part}" for part in parts)}
            elif plain:
                names |= set(parts)
            elif ":" in text or text.startswith(ROOMS):
                names.add(f"{here if text.startswith('.') else ''}{text.partition(':')[0]}")
        for name in names:
            inside = Path("tests" if name.startswith("support") else "", *name.split("."))
            for file in (inside.with_suffix(".py"), inside / "__init__.py"):
                if (ROOT / file).is_file():
                    users.setdefault(str(file), set()).add(str(path.relative_to(ROOT)))
    return users
