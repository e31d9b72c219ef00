"""Every untrusted file is read through ``pyanticip/untrusted.py``, which checks kind, size and nesting."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

OURS = {
    "pyanticip/untrusted.py": "the checks themselves",
    "pyanticip/bench/machine.py": "what the system says of itself",
    "pyanticip/models/checkpoint/files.py": "a checkpoint that was written a moment ago",
    "pyanticip/teach/project.py": "a take that was written a moment ago",
    "realtime/monitor/server.py": "the page that comes with the package",
    "realtime/soak/faults.py": "a rig that it wrote itself",
    "realtime/soak/show.py": "the checkpoint that comes with the package; what the system says of processes",
    "realtime/rig/load.py": "the template that comes with the package",
}
"""Modules that may read files directly, and which trusted files those are."""


READS = re.compile(r"\bopen\(|read_text|read_bytes|\bload\(|load_file|safe_open")


def readings(module: Path) -> Iterator[tuple[int, str]]:
    """Lines on which a file is opened for reading, and the call."""
    text = module.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if READS.search(text) else ():
        if not isinstance(node, ast.Call):
            continue
        func = node.func
        of = isinstance(func, ast.Attribute)
        name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
        path = of and (name == "read_text" or (name == "read_bytes" and not node.args))
        arrays = name == "load" and ast.unparse(func) in ("np.load", "torch.load")
        handed = arrays or name in ("load_file", "safe_open")
        opens = name == "open" and "r" in _mode(node)
        if opens or path or (handed and not _is_given(node.args[0])):
            yield node.lineno, ast.unparse(func)


def _mode(node: ast.Call) -> str:
    """The mode of an ``open`` or ``Path.open``; ``""`` for any other function called ``open``."""
    place = 0 if isinstance(node.func, ast.Attribute) else 1
    given = [*node.args[place:][:1], *(word.value for word in node.keywords if word.arg == "mode")]
    if not given:
        other = isinstance(node.func, ast.Attribute) and (node.args or not node.keywords)
        return "" if other else "r"
    return str(given[0].value) if isinstance(given[0], ast.Constant) else ""


def _is_given(node: ast.expr) -> bool:
    """Whether a library receives something already read or opened, or a file that was checked."""
    return isinstance(node, ast.Call) or (isinstance(node, ast.Name) and node.id == "file")


def test_every_reader_goes_through_the_door() -> None:
    found = {}
    for package in ("pyanticip", "realtime", "training"):
        for module in sorted((ROOT / package).rglob("*.py")):
            name = module.relative_to(ROOT).as_posix()
            lines = list(readings(module))
            if lines and name not in OURS:
                found[name] = lines
    assert found == {}


def test_what_reads_by_itself_still_does() -> None:
    for name in OURS.keys() - {"pyanticip/untrusted.py"}:
        assert list(readings(ROOT / name)), name
