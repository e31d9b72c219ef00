"""Would the tests notice? Makes one mistake at a time in a copy of the tree and runs the tests that should.

``make mutants`` makes those of ``list/``, written by hand; ``ONLY=regex`` such whose name or file matches;
``DRAWN=40 SEED=1`` so many drawn by chance from the Python product instead (``draw.py``). The exit code is 1
where less than 85 % are noticed.
"""

import argparse
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mutants.draw import drawn
from mutants.mistakes import ROOT, Mistake, listed
from rich.console import Console
from rich.markup import escape

WANTED: Final = 0.85
"""Share of the mistakes that must be noticed."""
LONGEST: Final = 900.0
"""Seconds for the tests of a mistake, at most."""
FAILED: Final = re.compile(
    r"^(?:FAILED|ERROR) (?:\S*/)?([^/\s]+\.py\S*)|^test (\S+) .*FAILED|^---- (\S+) stdout", re.MULTILINE
)
"""The first test that failed, as pytest and as cargo tell of it."""


class Copy:
    """A copy of the working tree, where mistakes are made and tests run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        line = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        self._core = next(ROOT.glob("pyanticip/_core*.so"))
        for name in filter(None, names.split("\0")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            # New times: what cargo built of an earlier copy, mistakes and all, is out of date.
            shutil.copyfile(ROOT / name, folder / name)
        self._target = Path(os.environ.get("CARGO_TARGET_DIR", folder.with_name("cargo")))
        self._environment = {
            "PYANTICIP_DATA": str(ROOT.parent / "shared" / "data"),
            **os.environ,
            "PYTHONPATH": str(folder),
            "CARGO_TARGET_DIR": str(self._target),
            # Property tests draw the same cases with the mistake and without.
            "CI": "true",
            "PROPTEST_RNG_SEED": "1",
        }

    def time(self, mistake: Mistake) -> float:
        """Seconds that the tests of a mistake take without it; inf where they fail, and again at once."""
        for _ in range(2):
            begun = time.monotonic()
            if not self.tests(mistake.tests, rust=mistake.file.startswith("rust/")):
                return time.monotonic() - begun
        return math.inf

    def try_out(self, mistake: Mistake, patience: float) -> tuple[str, str]:
        """Whether a mistake is noticed or has survived, and by what; what does not compile is none."""
        path = self.folder / mistake.file
        text = path.read_text(encoding="utf-8")
        path.write_text(mistake.applied(text), encoding="utf-8")
        try:
            by = self.tests(mistake.tests, rust=mistake.file.startswith("rust/"), patience=patience)
        except SyntaxError:
            return "not asked", "it does not compile"
        finally:
            path.write_text(text, encoding="utf-8")
        return ("noticed" if by else "survived"), by

    def tests(self, wanted: Sequence[str], *, rust: bool, patience: float = LONGEST) -> str:
        """Run tests until one fails; its name, or nothing where all pass.

        Args:
            wanted: see :attr:`Mistake.tests`.
            rust: whether the mistake is in the core: Python tests need it built.
            patience: seconds after which tests that do not end have noticed.
        """
        crates = [name for name in wanted if name.startswith("rust/")]
        for name in crates:
            if found := self._run(["cargo", "test", "--quiet", "-p", Path(name).name], patience):
                return found
        files = [name for name in wanted if name not in crates]
        if not files:
            return ""
        core = self._core
        if rust:
            # As the crates' own tests are built: it takes seconds.
            self._run(["cargo", "build", "--quiet", "-p", "anticip-python"], LONGEST)
            core = next(self._target.glob("debug/lib_core.[sd][oy]*"))
        shutil.copyfile(core, self.folder / "pyanticip" / self._core.name)
        options = ["-q", "-x", "--import-mode=importlib", "-p", "no:cacheprovider"]
        return self._run([sys.executable, "-P", "-m", "pytest", *options, *files], patience)

    def _run(self, line: Sequence[str], patience: float) -> str:
        pipe = subprocess.PIPE
        with subprocess.Popen(
            line, cwd=self.folder, env=self._environment, stdout=pipe, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        ) as process:  # fmt: skip
            try:
                said, _ = process.communicate(timeout=patience)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return "does not end"
        if "could not compile" in said:
            raise SyntaxError(said)
        if process.returncode == 0:
            return ""
        first = FAILED.search(said)
        return next(filter(None, first.groups())) if first else said.strip()[-60:] or "a crash"


def main() -> int:
    """Run the command; 1 where too many mistakes go unnoticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="mistakes whose name or file matches")
    parser.add_argument("--drawn", type=int, default=0, help="draw so many by chance instead")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    options, console = parser.parse_args(), Console(width=160)
    if options.drawn:
        mistakes = drawn(options.drawn, options.seed, options.only)
    else:
        mistakes = [one for one in listed() if re.search(options.only, f"{one.name} ({one.file})")]
    copy = Copy(ROOT / "target" / "mutants" / "tree")
    took: dict[tuple[str, ...], float] = {}
    counts = {"noticed": 0, "survived": 0, "not asked": 0}
    for number, one in enumerate(mistakes, 1):
        if one.tests not in took:
            took[one.tests] = copy.time(one)
        verdict, by, begun = "not asked", "its tests fail without it", time.monotonic()
        if took[one.tests] < math.inf:
            verdict, by = copy.try_out(one, min(60.0 + 4.0 * took[one.tests], LONGEST))
        counts[verdict] += 1
        colour = {"noticed": "green", "survived": "bold red"}.get(verdict, "yellow")
        where = f"{one.file}:{one.line}, {time.monotonic() - begun:.0f} s"
        told = f"{number:3} [{colour}]{verdict}[/] {escape(one.name)} [dim]({where})[/] {escape(by)}"
        console.print(told, soft_wrap=True)
    share = counts["noticed"] / max(counts["noticed"] + counts["survived"], 1)
    console.print(f"{share:.0%} noticed: {', '.join(f'{count} {what}' for what, count in counts.items())}")
    return int(share < WANTED)


if __name__ == "__main__":
    sys.exit(main())
