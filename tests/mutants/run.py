"""Mutation testing: makes one mistake at a time in a copy of the tree and runs the tests that should fail.

``make mutants`` makes those of ``list/``; ``ONLY=regex`` those whose name or file matches, ``JOBS=2`` two at
a time. The exit code is 1 if fewer than 85 % are noticed.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from filecmp import cmp
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from rich.console import Console
from rich.markup import escape

ROOT: Final = Path(__file__).resolve().parents[2]
LIST: Final = Path(__file__).with_name("list")
MIN_NOTICED: Final = 0.85
"""Share of the mistakes that must be noticed."""
TIMEOUT_S: Final = 900.0
"""Longest run of a set of tests; a longer one counts as noticed."""
NOTHING_COLLECTED: Final = 5
FAILED: Final = re.compile(
    r"^(?:FAILED|ERROR) (\S+\.py(?:::\w+)*)|^test (\S+) .*FAILED|^---- (\S+) stdout", re.MULTILINE
)
"""The first failed test in the output of pytest or cargo."""


@dataclass(frozen=True)
class Mistake:
    """A change in one place of the product, and the tests that should notice it."""

    name: str
    file: str
    """Path from the root of the repository."""
    old: str
    """Text that is in the file exactly once."""
    new: str
    tests: tuple[str, ...]
    """Test files, and crates (``rust/...``) whose own tests are run."""
    why: str = ""

    @property
    def line(self) -> int:
        """Line number of the change."""
        return (ROOT / self.file).read_text(encoding="utf-8").partition(self.old)[0].count("\n") + 1

    def applied(self, text: str) -> str:
        """The file's text with the mistake."""
        return text.replace(self.old, self.new)


def listed() -> list[Mistake]:
    """The mistakes in the files of ``list``.

    Raises:
        ValueError: the text of one is not in its file exactly once.
    """
    found = []
    for row in (row for file in sorted(LIST.iterdir()) for row in tomllib.loads(file.read_text())["mistake"]):
        text = (ROOT / row["file"]).read_text(encoding="utf-8")
        if (times := text.count(row["old"])) != 1:
            raise ValueError(f"{row['name']}: {row['file']} has its text {times} times, expected once")
        found.append(Mistake(**{**row, "tests": tuple(row["tests"])}))
    return found


class Copy:
    """A copy of the working tree, where mistakes are made and tests run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        line = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        output = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        names = set(filter(None, output.split("\0")))
        for path in folder.rglob("*"):
            if path.is_file() and str(path.relative_to(folder)) not in names:
                path.unlink()
        for name in names:
            # Unchanged files keep their modification time, so that cargo does not rebuild.
            if not (folder / name).is_file() or not cmp(ROOT / name, folder / name, shallow=False):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, folder / name)
        # One per copy: cargo would take what another copy built, with its mistake.
        self._target = folder.with_name(f"{folder.name}-cargo")
        core = next(ROOT.glob("pyanticip/_core*.so"))
        self._core = Path(shutil.copyfile(core, folder / core.name))
        self._passes: dict[str, bool] = {}
        self._environment = {
            "PYANTICIP_DATA": str(ROOT.parent / "shared" / "data"),
            "OMP_NUM_THREADS": "1",
            **os.environ,
            "PYTHONPATH": str(folder),
            "CARGO_TARGET_DIR": str(self._target),
            # Property tests draw the same cases with and without the mistake.
            "CI": "true",
            "PROPTEST_RNG_SEED": "1",
        }

    def ask(self, mistake: Mistake) -> tuple[str, str]:
        """Run the tests of a mistake: "noticed", "survived" or "not asked", and the test or the reason.

        A mistake is noticed if a test fails with it and passes without; a live test has to fail twice, since
        on a busy machine such tests also fail by chance, and are then excluded. A mistake that does not
        compile is not counted.
        """
        path = self.folder / mistake.file
        right = path.read_text(encoding="utf-8")
        wrong = mistake.applied(right)
        rust = mistake.file.endswith(".rs")
        try:
            path.write_text(wrong, encoding="utf-8")
            for crate in (name for name in mistake.tests if name.startswith("rust/")):
                if by := self._cargo(crate):
                    path.write_text(right, encoding="utf-8")
                    if self._once(crate, lambda crate=crate: self._cargo(crate)):
                        return "noticed", by
                    path.write_text(wrong, encoding="utf-8")
            files = [name for name in mistake.tests if not name.startswith("rust/")]
            cores = [self._core, self._core]
            if rust:
                cores[0] = self._built("wrong")
                path.write_text(right, encoding="utf-8")
                cores[1] = self._built("right")
            chance: list[str] = []
            while files and (by := self._pytest(files, cores[0], path, wrong, chance)):
                again = [by] if "::" in by else files
                live = by.startswith("tests/realtime")
                if (not live or self._pytest(again, cores[0], path, wrong, chance)) and self._once(
                    " ".join(again), lambda again=again: self._pytest(again, cores[1], path, right, chance)
                ):
                    return "noticed", by
                if "::" not in by or len(chance) > 9:
                    return "not asked", f"its tests fail without it: {by}"
                chance.append(by)
        except SyntaxError:
            return "not asked", "it does not compile"
        finally:
            path.write_text(right, encoding="utf-8")
        return "survived", ""

    def _once(self, what: str, failed: Callable[[], str]) -> bool:
        """Whether tests pass without the mistake; passes are remembered."""
        self._passes[what] = self._passes.get(what) or not failed()
        return self._passes[what]

    def _cargo(self, crate: str) -> str:
        return self._run(["cargo", "test", "--quiet", "-p", Path(crate).name])

    def _built(self, name: str) -> Path:
        """Build the core from the tree as it is, in the debug profile: it takes seconds."""
        core = self.folder / f"{name}-{self._core.name}"
        if name == "wrong" or not core.exists():
            self._run(["cargo", "build", "--quiet", "-p", "anticip-python"])
            shutil.copyfile(next(self._target.glob("debug/lib_core.[sd][oy]*")), core)
        return core

    def _pytest(self, tests: Sequence[str], core: Path, path: Path, text: str, but: Sequence[str]) -> str:
        """Run tests with a core and a text of a file until one fails: its name, or "" if all pass."""
        path.write_text(text, encoding="utf-8")
        shutil.copyfile(core, self.folder / "pyanticip" / self._core.name)
        options = ["-q", "-x", "--import-mode=importlib", "-p", "no:cacheprovider"]
        options += [f"--deselect={name}" for name in but]
        return self._run([sys.executable, "-P", "-m", "pytest", *options, *tests])

    def _run(self, line: Sequence[str]) -> str:
        pipe = subprocess.PIPE
        with subprocess.Popen(
            line, cwd=self.folder, env=self._environment, stdout=pipe, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        ) as process:  # fmt: skip
            try:
                output, _ = process.communicate(timeout=TIMEOUT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return "does not end"
        if "could not compile" in output:
            raise SyntaxError(output)
        if process.returncode in (0, NOTHING_COLLECTED):
            return ""
        first = FAILED.search(output)
        return next(filter(None, first.groups())) if first else output.strip()[-60:] or "a crash"


def main() -> int:
    """Run the command; returns 1 if too few mistakes are noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="mistakes whose name or file matches")
    parser.add_argument("--jobs", type=int, default=1, help="mistakes at a time, each in its own copy")
    options, console = parser.parse_args(), Console(width=160)
    mistakes = [one for one in listed() if re.search(options.only, f"{one.name} ({one.file})")]
    copies: SimpleQueue[Copy] = SimpleQueue()
    for number in range(options.jobs):
        copies.put(Copy(ROOT / "target" / "mutants" / f"tree{number}"))

    def tell(number: int, one: Mistake) -> str:
        start_s, copy = time.monotonic(), copies.get()
        verdict, by = copy.ask(one)
        copies.put(copy)
        colour = {"noticed": "green", "survived": "bold red"}.get(verdict, "yellow")
        where = f"{one.file}:{one.line}, {time.monotonic() - start_s:.0f} s"
        line = f"{number:3} [{colour}]{verdict}[/] {escape(one.name)} [dim]({where})[/] {escape(by)}"
        console.print(line, soft_wrap=True)
        return verdict

    with ThreadPoolExecutor(options.jobs) as pool:
        counts = Counter(pool.map(tell, count(1), mistakes))
    share = counts["noticed"] / max(counts["noticed"] + counts["survived"], 1)
    console.print(f"{share:.0%} noticed: {', '.join(f'{times} {what}' for what, times in counts.items())}")
    return int(share < MIN_NOTICED)


if __name__ == "__main__":
    sys.exit(main())
